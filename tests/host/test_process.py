"""The host's process: one however many look for it, gone after its last front, never missed for long when it dies."""

import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import psutil
import pytest
from filelock import FileLock
from msgspec import structs

from fastcoder_lsp.completion.protocol import Ask, DocumentChanged, Notice, Use
from fastcoder_lsp.config import Settings, cache_folder
from fastcoder_lsp.config.environment import python_command
from fastcoder_lsp.errors import ResourceError
from fastcoder_lsp.host.address import address_of, lock_path
from fastcoder_lsp.host.control import find_hosts, stop_host
from fastcoder_lsp.host.listening import Address
from fastcoder_lsp.host.liveness import SilenceLimits
from fastcoder_lsp.host.process import MOST_FILES
from fastcoder_lsp.host.shared_process import SharedProcessHost
from fastcoder_lsp.host.spawn import FindOrStart
from fastcoder_lsp.workspace.document import OpenTexts
from tests.examples import examples
from tests.host.scripted import Heard, question

PAUSES_S = (0.0, 0.05, 0.1)


class Machine:
    def __init__(self, folder: Path) -> None:
        self.folder, self.options, self.fronts = folder / "run", list[str](), list[SharedProcessHost]()
        self.settings = Settings(host_linger_s=1)

    def command(self, address: Address, settings: Settings) -> Sequence[str]:
        place = ("--folder", str(address.folder), "--key", address.key, "--linger", str(settings.host_linger_s))
        return python_command("tests.host.scripted_process", *place, *self.options)

    def front(
        self, heard: Heard, settings: Settings | None = None, patience: SilenceLimits | None = None
    ) -> SharedProcessHost:
        reach = FindOrStart([self.folder], self.command, "test")
        self.fronts.append(
            SharedProcessHost(
                heard, settings or self.settings, {}, OpenTexts(), reach, patience or SilenceLimits(), pauses_s=PAUSES_S
            )
        )
        return self.fronts[-1]

    def asked(self, patience: SilenceLimits | None = None) -> tuple[Heard, SharedProcessHost]:
        heard = Heard()
        front = self.front(heard, patience=patience)
        ask(heard, front, 1)
        return heard, front

    def processes(self) -> list[int]:
        return [host.process_id for host in find_hosts([self.folder])]

    def close(self) -> None:
        for front in self.fronts:
            front.close(1)
        for host in find_hosts([self.folder]):
            stop_host(host, 5)


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Iterator[Machine]:
    root = Path(__file__).parents[2]
    monkeypatch.setenv("PYTHONPATH", str(root))
    with tempfile.TemporaryDirectory() as folder:
        monkeypatch.setenv("FASTCODER_CACHE", f"{folder}/cache")
        machine = Machine(Path(folder))
        yield machine
        machine.close()


def ask(heard: Heard, front: SharedProcessHost, number: int, text: str = "say x") -> None:
    front.send(Ask(question(number, text)))
    heard.wait(lambda: number in heard.answers)


def other_process(front: SharedProcessHost, process_id: int) -> bool:
    return front.facts().process_id != process_id


def answered(heard: Heard, front: SharedProcessHost, number: int, process_id: int) -> Callable[[], bool]:
    return lambda: number in heard.answers or other_process(front, process_id)


def stop(process_id: int) -> None:
    os.kill(process_id, signal.SIGSTOP)
    while any(
        psutil.Process(process_id).status() != psutil.STATUS_STOPPED or thread_state(process_id, thread.id) != "T"
        for thread in psutil.Process(process_id).threads()
    ):
        time.sleep(0.01)


def thread_state(process_id: int, thread_id: int) -> str:
    return Path(f"/proc/{process_id}/task/{thread_id}/stat").read_text().rpartition(")")[2].split()[0]


def gone(process_id: int, seconds: float = 20) -> bool:
    ends_s = time.monotonic() + seconds
    while psutil.pid_exists(process_id) and psutil.Process(process_id).status() != psutil.STATUS_ZOMBIE:
        if time.monotonic() > ends_s:
            return False
        time.sleep(0.05)
    return True


def test_fronts_that_start_at_once_find_one_process(machine: Machine) -> None:
    heards = [Heard() for _ in range(4)]
    fronts = list[SharedProcessHost]()
    threads = [threading.Thread(target=lambda heard=heard: fronts.append(machine.front(heard))) for heard in heards]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for heard in heards:
        heard.wait(lambda: all(front.facts().fronts == 4 for front in fronts))

    assert len(machine.processes()) == 1
    assert len({front.facts().process_id for front in fronts}) == 1
    process = psutil.Process(fronts[0].facts().process_id)
    assert process.pid != os.getpid()
    assert os.getpid() not in {above.pid for above in process.parents()}, "it would end with the editor"
    assert os.getsid(process.pid) != os.getsid(0)


@pytest.mark.parametrize("linger_s", [0, 1])
def test_it_ends_after_its_last_front_and_is_started_again(machine: Machine, linger_s: int) -> None:
    machine.settings = Settings(host_linger_s=linger_s)
    _, front = machine.asked()
    process_id = front.facts().process_id
    front.close(1)
    assert gone(process_id)

    second = Heard()
    ask(second, machine.front(second), 1)
    assert machine.processes() != [process_id]


def test_fronts_of_other_models_have_other_processes(machine: Machine) -> None:
    heard, other = Heard(), Heard()
    ask(heard, machine.front(heard), 1)
    ask(other, machine.front(other, Settings(model="toy", host_linger_s=1)), 1)
    assert len(machine.processes()) == 2


def test_a_front_that_takes_another_model_goes_to_its_process(machine: Machine) -> None:
    heard, front = machine.asked()
    before = front.facts().process_id
    front.send(Use(Settings(model="toy", host_linger_s=1), {}))
    ask(heard, front, 2)
    assert front.facts().process_id != before
    assert not [answer for answers in heard.answers.values() for answer in answers if answer.outcome != "shown"]
    assert gone(before)


def test_killed_while_it_is_asked_each_question_is_answered_once(machine: Machine) -> None:
    heard, chance = Heard(), random.Random(0)
    front = machine.front(heard)
    number, text = 1, "x = 1\n" * 500
    ask(heard, front, number, text + "say word")
    for kill in range(examples(30)):
        process_id = front.facts().process_id
        for key in range(chance.randrange(1, 6)):
            number += 1
            text += f"{key}"
            hangs = chance.random() < 0.5
            front.send(Ask(question(number, f"{text} hang" if hangs else f"{text} word{number}")))
            front.send(DocumentChanged(Path("/w/a.py"), text))
        os.kill(process_id, signal.SIGKILL)
        heard.wait(answered(heard, front, number, process_id))
        number += 1
        front.send(Ask(question(number, f"{text} again{kill}")))
        heard.wait(partial(heard.answers.__contains__, number))
        # Either it was asked before the death was noticed, and says so, or it has its text from the next process.
        (answer,) = heard.answers[number]
        assert (answer.outcome == "shown") != (answer.reason is not None and answer.reason.code == "host")
        while heard.answers[number][0].outcome != "shown":
            number += 1
            ask(heard, front, number, f"{text} once more{kill}")
            assert number < 10_000
    assert all(len(answers) == 1 for answers in heard.answers.values())
    assert len(machine.processes()) == 1


def test_a_stopped_process_goes_on_when_it_is_asked(machine: Machine) -> None:
    other = Heard()
    heard, front = machine.asked(SilenceLimits(tick_s=0.05, silent=1000, hung=1000))
    process_id = front.facts().process_id
    stop(process_id)
    ask(heard, front, 2)
    stop(process_id)
    later = machine.front(other)
    ask(other, later, 1)
    assert heard.answers[2][0].outcome == other.answers[1][0].outcome == "shown"
    assert front.facts().process_id == later.facts().process_id == process_id


def test_a_process_that_hangs_is_given_up_and_replaced(machine: Machine) -> None:
    heard, front = machine.asked(SilenceLimits(tick_s=0.05, asked=2, silent=8, hung=16, loading=1))
    process_id = front.facts().process_id
    front.send(Ask(question(2, "x seize")))
    heard.wait(lambda: 2 in heard.answers)
    (answer,) = heard.answers[2]
    assert (answer.reason and answer.reason.code) == "host"
    number = 2
    while front.facts().process_id == process_id:
        number += 1
        front.send(Ask(question(number, "say x")))
        heard.wait(answered(heard, front, number, process_id))
    assert gone(process_id)
    ask(heard, front, number + 1)


def test_a_process_without_memory_ends_and_is_replaced(machine: Machine) -> None:
    heard, front = machine.asked()
    process_id = front.facts().process_id
    ask(heard, front, 2, "x exhaust")
    assert heard.answers[2][0].outcome == "failed"
    assert gone(process_id)
    heard.wait(lambda: other_process(front, process_id))
    ask(heard, front, 3)
    assert heard.answers[3][0].outcome == "shown"


def test_a_request_by_key_ends_the_pause_after_crashes(machine: Machine) -> None:
    heard = Heard()
    reach = FindOrStart([machine.folder], machine.command, "test")
    front = SharedProcessHost(heard, machine.settings, {}, OpenTexts(), reach, pauses_s=(3600.0,))
    machine.fronts.append(front)
    ask(heard, front, 1)
    process_id = front.facts().process_id
    psutil.Process(process_id).kill()
    heard.wait(lambda: any(status.message for status in heard.statuses))
    ask(heard, front, 2)
    assert heard.answers[2][0].outcome == "failed", "while one types, nothing is started"
    typed = question(3, "say x")
    front.send(Ask(structs.replace(typed, request=replace(typed.request, invoked=True))))
    heard.wait(lambda: 3 in heard.answers)
    assert heard.answers[3][0].outcome == "shown"


@pytest.mark.skipif(sys.platform == "win32", reason="no such urgency")
def test_a_low_priority_start_lowers_no_other_fronts_priority(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    lazy = ["nice", "-n", "5"]
    urgent = "import os; os.setpriority(os.PRIO_PROCESS, 0, 0)"
    allowed = (
        subprocess.run([*lazy, sys.executable, "-c", urgent], check=False, stderr=subprocess.DEVNULL).returncode == 0
    )
    command = machine.command
    monkeypatch.setattr(machine, "command", lambda *given: [*lazy, *command(*given)])
    heard = Heard()
    ask(heard, machine.front(heard), 1)
    (host,) = find_hosts([machine.folder])
    assert host.report is not None
    expected = 0 if allowed else os.getpriority(os.PRIO_PROCESS, 0) + 5
    assert psutil.Process(host.process_id).nice() == host.report.nice == expected


def test_the_command_line_ends_it_and_fronts_have_another(machine: Machine) -> None:
    heard, front = machine.asked()
    (host,) = find_hosts([machine.folder])
    assert host.report is not None
    assert [(one.process_id, one.asking) for one in host.report.fronts] == [(os.getpid(), False)]
    assert stop_host(host, 10)
    assert gone(host.process_id)

    heard.wait(lambda: front.facts().process_id not in {0, host.process_id})
    ask(heard, front, 2)


def test_a_front_that_is_older_than_what_is_installed_says_so(machine: Machine) -> None:
    machine.options = ["--version", "newer"]
    heard, front = machine.asked()
    (answer,) = heard.answers[1]
    assert answer.reason is not None
    assert "updated" in answer.reason.text
    heard.wait(lambda: [status for status in heard.statuses if "Restart" in status.hint])
    for _ in range(3):
        ask(heard, front, len(heard.answers) + 1)
    assert len({status for status in heard.statuses if status.state == "error"}) == 1, "people are told once"


def test_a_process_with_a_hung_worker_ends_and_is_replaced(machine: Machine) -> None:
    machine.options = ["--stuck-s", "0.2"]
    heard, front = machine.asked()
    process_id = front.facts().process_id
    front.send(Ask(question(2, "x hang")))
    heard.wait(lambda: 2 in heard.answers)
    (answer,) = heard.answers[2]
    assert (answer.reason and answer.reason.code) == "host"
    assert gone(process_id)
    ask(heard, front, 3)


def test_a_log_that_cannot_be_written_costs_no_suggestion(machine: Machine) -> None:
    """A cache folder that cannot be written to, for one; it is said once, however often a process is started."""
    cache_folder().mkdir(parents=True)
    (cache_folder() / "host").write_text("no folder")
    heard = Heard()
    reach = FindOrStart([machine.folder], machine.command, "test", lambda text: heard(Notice(text)))
    front = SharedProcessHost(heard, machine.settings, {}, OpenTexts(), reach, pauses_s=PAUSES_S)
    machine.fronts.append(front)
    ask(heard, front, 1)
    process_id = front.facts().process_id
    psutil.Process(process_id).kill()
    heard.wait(lambda: other_process(front, process_id))
    ask(heard, front, 2)
    assert heard.answers[1][0].outcome == heard.answers[2][0].outcome == "shown"
    ((kind, text),) = [what for what in heard.others if what[0] == "notice"]
    assert "log" in str(text), kind


def test_a_hosts_files_stay_in_use(machine: Machine) -> None:
    """Systems delete what nobody touched for days, and a second host would come to be."""
    machine.settings = Settings(host_linger_s=60)  # however late it looks, it has not ended by then
    heard, front = machine.asked()
    (lock,) = machine.folder.glob("*.host.lock")
    os.utime(lock, (1.0, 1.0))
    front.close(1)
    heard.wait(lambda: lock.stat().st_mtime > 1.0)


def test_a_process_whose_name_was_deleted_is_found_again(machine: Machine) -> None:
    machine.options = ["--look-s", "0.1"]
    heard, front = machine.asked()
    for kind in ("*.sock", "*"):
        for path in machine.folder.glob(kind):
            path.unlink()
        heard.wait(machine.processes)
        assert machine.processes() == [front.facts().process_id]
    ask(heard, front, 2)
    assert heard.answers[2][0].outcome == "shown"


def test_a_process_whose_place_was_taken_ends(machine: Machine) -> None:
    machine.options = ["--look-s", "0.1"]
    other = Heard()
    heard, front = machine.asked()
    process_id = front.facts().process_id
    stop(process_id)
    for path in machine.folder.iterdir():
        path.unlink()
    later = machine.front(other)
    ask(other, later, 1)
    psutil.Process(process_id).resume()
    assert gone(process_id)
    heard.wait(lambda: other_process(front, process_id))
    ask(heard, front, 2)
    assert machine.processes() == [front.facts().process_id] == [later.facts().process_id]


DIES = "import os, time\nif os.fork() == 0:\n    time.sleep(0.3)\n    os._exit(9)\n"


@pytest.mark.skipif(os.name == "nt", reason="what is started there is a child")
def test_a_process_that_ends_at_its_start_is_not_waited_for(machine: Machine) -> None:
    """It is nobody's child, and nobody is told of its end."""
    with pytest.raises(ResourceError, match="ended while it started"):
        FindOrStart([machine.folder], lambda *_: [sys.executable, "-c", DIES], "test")(machine.settings)


def test_a_process_waits_until_the_one_before_it_has_ended(machine: Machine) -> None:
    machine.folder.mkdir(mode=0o700, parents=True)
    address = address_of(machine.settings, "test", [machine.folder])
    heard = Heard()
    with FileLock(lock_path(address, "host"), thread_local=False):
        front = machine.front(heard)
        front.send(Ask(question(1, "say x")))
        time.sleep(1.5)
        assert 1 not in heard.answers
    heard.wait(lambda: 1 in heard.answers)
    assert heard.answers[1][0].candidates


@pytest.mark.skipif(sys.platform == "win32", reason="there is no such limit")
def test_the_first_editors_limits_apply_to_it_alone(machine: Machine) -> None:
    import resource

    names = {"RLIMIT_AS": "Max address space", "RLIMIT_DATA": "Max data size", "RLIMIT_FSIZE": "Max file size"}
    before = {name: resource.getrlimit(getattr(resource, name)) for name in names}
    try:
        for name, (_, hard) in before.items():
            resource.setrlimit(getattr(resource, name), (40 * 10**9, hard))
        heard = Heard()
        front = machine.front(heard)
        ask(heard, front, 1)
        limits = Path(f"/proc/{front.facts().process_id}/limits").read_text().splitlines()
    finally:
        for name, limit in before.items():
            resource.setrlimit(getattr(resource, name), limit)
    for name, title in names.items():
        [line] = [line.removeprefix(title).split() for line in limits if line.startswith(title)]
        assert line[0] == line[1] or before[name][1] == 40 * 10**9


@pytest.mark.skipif(sys.platform == "win32", reason="there is no such limit")
def test_the_first_editors_file_limit_applies_to_it_alone(machine: Machine) -> None:
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(200, hard), hard))
    try:
        heard = Heard()
        front = machine.front(heard)
        ask(heard, front, 1)
        limits = Path(f"/proc/{front.facts().process_id}/limits").read_text()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    [files] = [line for line in limits.splitlines() if line.startswith("Max open files")]
    assert int(files.split()[3]) == min(hard, MOST_FILES)
