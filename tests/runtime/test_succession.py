"""A smaller model that answers until the wanted one is ready: real models of some hundred kilobytes, real processes."""

import itertools
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import huggingface_hub.constants
import psutil
import pytest

from fastcoder_lsp.completion.protocol import Ask, Enable, Event, Load, Succession
from fastcoder_lsp.completion.question import Policy, Question, place_of
from fastcoder_lsp.config import Settings, kernels_folder
from fastcoder_lsp.core import CompletionRequest, Progress, Snapshot, StepCosts
from fastcoder_lsp.host.local import LocalHost, ModelServer
from fastcoder_lsp.model import choice as rule
from fastcoder_lsp.model.catalogue import FAMILY
from fastcoder_lsp.model.choice import Measured, Speed, write_measured
from fastcoder_lsp.model.downloads import Dialogue, ProgressStep, read_download, recorded
from fastcoder_lsp.model.files import RECORD
from fastcoder_lsp.model.find import find
from fastcoder_lsp.runtime import second_process, succession
from fastcoder_lsp.runtime.load import load_model, make_runtime
from fastcoder_lsp.runtime.parts import Model
from fastcoder_lsp.runtime.start_record import read_start
from tests.faults.small_model import write_model
from tests.host.scripted import Heard

SMALL, LARGE, HUGE = FAMILY[0].hub_id, FAMILY[1].hub_id, FAMILY[3].hub_id
SETTINGS = Settings(model=LARGE, engine="cpu-int8", threads=1, index_enabled=False, context_enabled=False)
NOBODY = Dialogue(lambda _: None, lambda _: True, lambda _: None, lambda _: None)


class Listener(Heard):
    """Keeps what is told of the succession, too."""

    def __init__(self) -> None:
        super().__init__()
        self.told: list[Succession] = []

    def __call__(self, event: Event) -> None:
        if isinstance(event, Succession):
            self.told.append(event)
        super().__call__(event)


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache folder and a hub's cache of this test's own, here and in the processes that are started."""
    monkeypatch.setenv("FASTCODER_KERNELS", str(kernels_folder()))
    monkeypatch.setenv("FASTCODER_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setattr(succession, "LOOK_S", 0.05)
    monkeypatch.setattr(second_process, "LOOK_S", 0.05)
    monkeypatch.setattr(succession, "SELDOM_S", 0.05)
    return tmp_path / "cache"


def place_of_model(cache: Path, hub_id: str) -> Path:
    return cache.parent / "hub" / f"models--{hub_id.replace('/', '--')}" / "snapshots" / "c0ffee"


def put(cache: Path, hub_id: str, says: str) -> None:
    place = place_of_model(cache, hub_id)
    write_model(cache.parent / "written" / says.strip(), says)
    place.parent.mkdir(parents=True)
    (cache.parent / "written" / says.strip()).rename(place)


@pytest.fixture
def server(cache: Path) -> Iterator[ModelServer]:
    made = ModelServer(succession.load_first, make_runtime, SETTINGS, cache, alone=True)
    yield made
    made.close(30)


def choose_large(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rule, "installed_bytes", lambda: 64 << 30)
    monkeypatch.setattr(rule, "available_bytes", lambda: 64 << 30)
    write_measured(cache, Measured(8, Speed(8.0, 100.0), grouped=False, threads=1, kernels="k", battery=False))


_numbers = itertools.count(1)


def ask(host: LocalHost, heard: Listener) -> str:
    """What is suggested for a new question, "" for nothing; it is answered once."""
    number = next(_numbers)
    request = CompletionRequest(Snapshot("file:///a.py", None, "python", number, "\n"), 0, invoked=True)
    host.send(Ask(Question(number, request, place_of(request), Policy(), time.monotonic() * 1e3, 0.0)))
    heard.wait(lambda: number in heard.answers)
    (answer,) = heard.answers[number]
    assert answer.outcome != "failed", heard.statuses
    return answer.candidates[0].text if answer.candidates else ""


def open_host(server: ModelServer, settings: Settings = SETTINGS) -> tuple[LocalHost, Listener]:
    heard = Listener()
    return server.open(heard, settings, {}), heard


def answered_by_small(cache: Path, server: ModelServer) -> tuple[LocalHost, Listener]:
    """Both models are here, and the smaller one has answered first."""
    put(cache, SMALL, "few\n")
    put(cache, LARGE, "many\n")
    host, heard = open_host(server)
    assert ask(host, heard) == "few"
    return host, heard


@contextmanager
def downloading(cache: Path) -> Iterator[None]:
    """A quarter of the larger model is here."""
    with recorded(cache, LARGE, NOBODY) as download:
        download.advance(ProgressStep(LARGE, 1_000_000, 4_000_000))
        yield


def test_a_smaller_model_answers_while_the_wanted_one_comes(cache: Path, server: ModelServer) -> None:
    put(cache, SMALL, "few\n")
    host, heard = open_host(server)
    with downloading(cache):
        assert ask(host, heard) == "few"
        heard.wait(lambda: heard.told and heard.told[-1].percent == 25)
        assert heard.told[-1].text == f"{SMALL} answers until {LARGE} is ready (downloading: 1 MB of 4 MB, 25 %)"
        assert host.facts().succession == heard.told[-1].text
        _, late = open_host(server)
        assert late.told == heard.told[-1:], "who comes later is told, too"
        put(cache, LARGE, "many\n")
        said = [ask(host, heard)]
        ends_s = time.monotonic() + 60
        while said[-1] != "many":
            time.sleep(0.01)  # nobody types faster
            said.append(ask(host, heard))
            assert time.monotonic() < ends_s, (heard.told[-3:], heard.others[-2:])
    assert said == sorted(said), "the smaller one until the larger one took over"
    assert set(said) <= {"few", "many"}
    heard.wait(lambda: not heard.told[-1].following)
    assert {one.what for one in heard.told if one.following} > {"preparing"}
    assert (host.facts().model, host.facts().succession) == (LARGE, "")
    assert ask(host, heard) == "many"
    assert succession.plan_for(SETTINGS, cache) is None, "a second start loads the wanted one at once"
    server.reload()
    assert ask(host, heard) == "many"


def test_the_smaller_model_returns_where_a_gpu_cannot_run_it(
    cache: Path, server: ModelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After the download, and at the next start: nothing was prepared beside the one that answered."""

    def load(settings: Settings, *rest: Any, **more: Any) -> Model:
        if settings.model == LARGE:
            raise RuntimeError("CUDA error: out of memory")
        return load_model(settings, *rest, **more)

    monkeypatch.setattr(succession, "load_model", load)
    monkeypatch.setattr(succession, "usable_gpu_bytes", lambda: 8 << 30)
    settings = replace(SETTINGS, engine="auto")
    put(cache, SMALL, "few\n")
    host, heard = open_host(server, settings)
    with downloading(cache):
        assert ask(host, heard) == "few"
    put(cache, LARGE, "many\n")
    told = f"{LARGE} cannot be loaded: out of memory"
    heard.wait(lambda: any(told in str(event) and f"{SMALL} answers instead" in str(event) for event in heard.others))
    assert ask(host, heard) == "few"
    assert succession.load_first(settings, lambda _share, _what: None).info.model == SMALL


def test_the_larger_models_costs_are_corrected_at_the_switch(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It was prepared at low priority, beside the one that answered."""
    choose_large(cache, monkeypatch)
    put(cache, SMALL, "few\n")
    put(cache, LARGE, "many\n")
    with closing(succession.load_first(replace(SETTINGS, model="auto"), lambda _share, _what: None)) as first:
        assert first.successor is not None
        made = first.successor.make(lambda _what, _percent: None)
        assert made is not None
        slow = replace(made, costs=StepCosts((1, 64), (1e6, 2e6), 1e5))
        with closing(first.successor.settled(slow)) as settled:
            assert settled.costs.step_ms(1) < 1e5
            assert settled.costs.step_ms(64) == pytest.approx(2 * settled.costs.step_ms(1))


def test_a_drafter_of_the_wanted_models_own_waits_for_it(cache: Path) -> None:
    """One editor's drafter: the shared process loads models before it knows it."""
    put(cache, SMALL, "few\n")
    server = ModelServer(succession.load_first, make_runtime, SETTINGS, cache)
    try:
        host, heard = open_host(server, replace(SETTINGS, drafter="sdsat"))
        with downloading(cache):
            assert ask(host, heard) == "few"
    finally:
        server.close(30)


FULL_DISK = """
import errno, os
from fastcoder_lsp.runtime import succession
def load(*_, **__):
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
succession.load_model = load
succession.main()
"""


@pytest.mark.parametrize(
    ("dies", "why", "silent_s"),
    [
        ("import os; os.kill(os.getpid(), 9)", "the system stopped it", 900.0),
        ("print('[]'); raise SystemExit(3)", "exit code 3", 900.0),
        ("import time; time.sleep(1e6)", "hung", 0.2),
        (FULL_DISK, "the disk is full", 900.0),
    ],
)
def test_the_smaller_model_stays_where_the_larger_fails(
    cache: Path, server: ModelServer, monkeypatch: pytest.MonkeyPatch, dies: str, why: str, silent_s: float
) -> None:
    monkeypatch.setattr(second_process, "SILENT_S", silent_s)
    monkeypatch.setattr(second_process, "python_command", lambda _: (sys.executable, "-c", dies))
    host, heard = answered_by_small(cache, server)
    heard.wait(lambda: any("cannot take over" in str(event) and why in str(event) for event in heard.others))
    heard.wait(lambda: not heard.told[-1].following)
    assert ask(host, heard) == "few"


def test_other_settings_and_the_end_stop_what_is_prepared(
    cache: Path, server: ModelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    sleeper = (sys.executable, "-c", "import time; time.sleep(1e6)")
    monkeypatch.setattr(second_process, "python_command", lambda _: sleeper)
    host, heard = answered_by_small(cache, server)

    def sleeping() -> list[psutil.Process]:
        found = []
        for child in psutil.Process().children():
            with suppress(psutil.Error):  # it has ended
                if child.cmdline()[1:] == list(sleeper[1:]):
                    found.append(child)
        return found

    heard.wait(sleeping)
    server.want(replace(SETTINGS, model=SMALL))
    heard.wait(lambda: not sleeping())
    assert ask(host, heard) == "few"
    assert not host.facts().succession
    server.want(SETTINGS)
    assert ask(host, heard) == "few"
    heard.wait(sleeping)
    server.close(30)
    heard.wait(lambda: not sleeping())


def prepares() -> bool:
    """Whether a larger model is awaited or prepared."""
    return any(thread.name == "fastcoder-successor" for thread in threading.enumerate())


def test_nothing_follows_once_the_smaller_one_is_switched_off(cache: Path, server: ModelServer) -> None:
    """Else a model that nobody wants takes the memory, and the status tells of it."""
    put(cache, SMALL, "few\n")
    host, heard = open_host(server)
    with downloading(cache):
        assert ask(host, heard) == "few"
        heard.wait(lambda: host.facts().succession)
        host.send(Enable(False))
        heard.wait(lambda: not prepares())
        assert not host.facts().succession
        host.send(Enable(True))
        assert ask(host, heard) == "few"
        heard.wait(lambda: host.facts().succession)


def test_settings_that_change_during_a_load_count(cache: Path) -> None:
    put(cache, SMALL, "few\n")
    put(cache, LARGE, "many\n")
    began, go = threading.Event(), threading.Event()

    def load(settings: Settings, progress: Progress) -> Model:
        began.set()
        assert go.wait(60)
        return succession.load_first(settings, progress)

    server = ModelServer(load, make_runtime, SETTINGS, cache, alone=True)
    try:
        host, heard = open_host(server)
        host.send(Load(1))
        assert began.wait(60)
        server.want(replace(SETTINGS, model=SMALL))
        go.set()
        heard.wait(lambda: heard.loads and not prepares())
        assert ask(host, heard) == "few"
    finally:
        server.close(30)


def test_the_process_that_prepares_is_no_start(
    cache: Path, server: ModelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`doctor` reports the last start, and a process that was stopped by an editor's end as a crash."""
    hangs = """
import time
from fastcoder_lsp.runtime import load, succession
class Tokenizer:
    @staticmethod
    def load(*_):
        print('{"share": 0, "what": "hangs"}', flush=True)
        time.sleep(1e6)
load.Tokenizer = Tokenizer
succession.main()
"""
    monkeypatch.setattr(second_process, "python_command", lambda _: (sys.executable, "-c", hangs))
    _, heard = answered_by_small(cache, server)
    heard.wait(lambda: any(one.what == "hangs" for one in heard.told))
    server.close(30)
    start = read_start(cache)
    assert start is not None
    assert (start.model, start.state) == (SMALL, "ready")


def test_a_download_that_broke_off_is_told_with_what_to_do(cache: Path, server: ModelServer) -> None:
    put(cache, SMALL, "few\n")
    with suppress(OSError), downloading(cache):
        raise OSError
    assert read_download(cache, LARGE) is not None
    host, heard = open_host(server)
    assert ask(host, heard) == "few"
    heard.wait(lambda: heard.told)
    assert "broke off at 1 MB of 4 MB. To continue, run: fastcoder-lsp model pull" in heard.told[-1].text


def test_what_stands_in_for_what(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    choose_large(cache, monkeypatch)

    def first(model: str, **more: object) -> tuple[str, str, bool] | None:
        plan = succession.plan_for(replace(SETTINGS, model=model, **more), cache)  # type: ignore[arg-type]
        return (plan.first.model, plan.wanted.model, plan.here) if plan is not None else None

    assert first(LARGE) is first("auto") is None, "nothing is here"
    put(cache, SMALL, "few\n")
    assert first(LARGE) is None, "nobody has begun to fetch it: loading says what to do"
    assert first("auto") == ("auto", LARGE, False), "the larger one takes over once it is fetched"
    assert first(SMALL) is first("no/such") is first("./nowhere") is None
    put(cache, LARGE, "many\n")
    assert first("auto") == first(LARGE) == (SMALL, LARGE, True)
    assert first(LARGE, drafter="sdsat") is None, "a drafter of the wanted model's own"
    (place_of_model(cache, LARGE) / RECORD).touch()
    assert first(LARGE) is None, "another editor's drafter may be the model's own"
    (place_of_model(cache, LARGE) / RECORD).unlink()
    with recorded(cache, HUGE, NOBODY) as download:
        download.advance(ProgressStep(HUGE, 0, 15_000_000_000))
        assert first(HUGE) == (LARGE, HUGE, False), "the largest smaller one"
    with recorded(cache, "some/model", NOBODY) as download:
        download.advance(ProgressStep("some/model", 0, 2_000_000_000))
        assert first("some/model") == (SMALL, "some/model", False)
    assert find(LARGE, cache).hub_id == LARGE
