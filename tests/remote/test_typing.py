"""What a person who types gets from a server: answers in time, taken over while they fit, hung up else."""

import threading
from collections.abc import Callable
from functools import partial

import psutil

from fastcoder_lsp.completion.question import Policy
from tests.opened import until
from tests.remote.front import WHOLE, Front, Fronts
from tests.remote.scripted_server import LlamaServer, Reply, Request, ScriptedServer, Serve, as_json

BODY = "first = items[0]\n    second = items[1]\n    return first\n"
BEFORE = "def total(items):\n    "
QUICK = Policy(automatic_ms=150, ahead=False)


class Stepwise(LlamaServer):
    """Says a text; each letter has to be allowed."""

    def __init__(self, says: Callable[[str], str]) -> None:
        super().__init__(says, self._wait)
        self._allowed = threading.Semaphore(0)
        self.said = 0

    def allow(self, letters: int) -> None:
        self._allowed.release(letters)

    def _wait(self, number: int) -> None:
        assert self._allowed.acquire(timeout=20)
        self.said = number + 1


def branching(before: str) -> str:
    return "other = 1\n" if before.endswith("z") else BODY


def begun(
    serve: Serve, front: Fronts, text: Callable[[str], str] = lambda _: BODY, *, ready: bool = False
) -> tuple[Stepwise, ScriptedServer, Front]:
    """A server that sends `text` letter by letter, and its client, which knows it first if `ready`."""
    says = Stepwise(text)
    server = serve(says)
    asking = front(server.url)
    if ready:
        assert asking.service.preload().result(20)
    return says, server, asking


def test_typing_along_is_served_by_the_running_stream(serve: Serve, front: Fronts) -> None:
    says, server, asking = begun(serve, front)
    futures = [asking.submit(BEFORE)]
    until(lambda: server.asked("/infill"))
    says.allow(4)
    until(lambda: says.said == 4)
    futures += [asking.submit(BEFORE + typed) for typed in ("f", "fi")]
    says.allow(len(BODY))
    assert futures[-1].result(20).text == BODY.rstrip()[2:]
    assert [future.result(20).finish for future in futures[:2]] == ["superseded"] * 2
    assert len(server.asked("/infill")) == 1
    assert asking.service.statistics().adopted == 2


def test_typing_another_text_closes_the_stream(serve: Serve, front: Fronts) -> None:
    says, server, asking = begun(serve, front, branching)
    first = asking.submit(BEFORE)
    until(lambda: server.asked("/infill"))
    says.allow(4)
    until(lambda: says.said == 4)
    second = asking.submit(BEFORE + "z")
    until(lambda: len(server.asked("/infill")) == 2)
    says.allow(1000)
    assert second.result(20).text == "other = 1"
    assert first.result(20).finish == "superseded"
    until(server.asked("/infill")[0].gone.is_set)


def has_asked(server: ScriptedServer, before: str) -> bool:
    return any(request.body["prompt"] == before for request in server.asked("/infill"))


def test_many_hang_ups_leave_nothing_behind(serve: Serve, front: Fronts) -> None:
    server = serve(LlamaServer(lambda before: f"{before[-3:]}z = 1\n" * 3))
    asking = front(server.url)
    assert asking.ask("begin = ").text
    process, until_then = psutil.Process(), threading.active_count()
    files = process.num_fds()
    for number in range(150):
        before = f"name_{number} = "
        future = asking.submit(before, uri=f"file:///w/{number % 7}.py")
        if number % 3 == 0:
            until(partial(has_asked, server, before))
        future.cancel()
    assert asking.ask("end = ").text
    until(lambda: process.num_fds() <= files + 12 and threading.active_count() <= until_then + 6)


def test_a_key_before_the_first_letter_is_judged_with_it(serve: Serve, front: Fronts) -> None:
    says, server, asking = begun(serve, front, branching, ready=True)
    asking.submit(BEFORE)
    until(lambda: server.asked("/infill"))
    future = asking.submit(BEFORE + "z")
    says.allow(1000)
    assert future.result(20).text == "other = 1"
    assert len(server.asked("/infill")) == 2


def test_the_front_ends_the_text_and_hangs_up(serve: Serve, front: Fronts) -> None:
    says = Stepwise(lambda _: "sum(items)\n" + "x = 1\n" * 10_000)
    server = serve(says)
    says.allow(11 + 3)
    assert front(server.url, completion_max_tokens=1024).ask("total = ", "\n").text == "sum(items)"
    says.allow(100_000)
    until(server.asked("/infill")[0].gone.is_set)
    assert says.said < 5_000


def test_a_beginning_is_shown_at_the_deadline_and_then_the_rest(serve: Serve, front: Fronts) -> None:
    says, server, asking = begun(serve, front, ready=True)
    says.allow(len(BODY) - 8)
    beginning = asking.ask(BEFORE, policy=QUICK)
    assert beginning.finish == "budget"
    assert BODY.startswith(beginning.text)
    assert beginning.text.count("\n") == 1
    says.allow(1000)
    until(lambda: asking.lates)
    assert asking.ask(BEFORE, policy=QUICK).text == BODY.rstrip()
    assert len(server.asked("/infill")) == 1


def test_a_slow_server_is_told_and_its_text_comes_late(serve: Serve, front: Fronts) -> None:
    says, _, asking = begun(serve, front, ready=True)
    says.allow(3)
    completion = asking.ask(BEFORE, policy=QUICK)
    assert completion.reason is not None
    assert (completion.text, completion.reason.code) == ("", "slow")
    says.allow(1000)
    until(lambda: asking.lates)
    assert asking.ask(BEFORE).finish == "typed-through"


def test_a_cancelled_request_is_worked_on_in_the_background(serve: Serve, front: Fronts) -> None:
    says, server, asking = begun(serve, front, ready=True)
    future = asking.submit(BEFORE, policy=Policy(background_ms=100, ahead=False))
    until(lambda: server.asked("/infill"))
    future.cancel()
    says.allow(2)

    def hung_up() -> bool:
        says.allow(1)
        return server.asked("/infill")[0].gone.is_set()

    until(hung_up)


def test_an_invoked_request_gets_alternatives(serve: Serve, front: Fronts) -> None:
    server = serve(LlamaServer(lambda _: "greedy\n"))
    completion = front(server.url).ask("x = ", "\n", Policy(alternatives=3, ahead=False), invoked=True)
    assert completion.text == "greedy"
    assert [other.text for other in completion.others] == ["variant_1", "variant_2"]
    assert "seed" not in server.asked("/infill")[0].body


def test_our_servers_alternatives_come_in_one_answer(serve: Serve, front: Fronts) -> None:
    def handler(request: Request) -> Reply:
        if request.path == "/infill":
            reply = {"content": "first", "stop": True, "stop_type": "eos"}
            yield as_json(reply | {"alternatives": ["second", "third", 7]})
        else:
            yield as_json({"build_info": "fastcoder-lsp 9", "data": [{"id": "toy"}]})

    server = serve(handler)
    completion = front(server.url).ask("x = ", "\n", Policy(alternatives=3, ahead=False), invoked=True)
    assert [completion.text, *(other.text for other in completion.others)] == ["first", "second", "third"]
    (asked,) = server.asked("/infill")
    assert asked.body["alternatives"] == 3


def test_what_follows_an_accepted_suggestion_is_asked_ahead(serve: Serve, front: Fronts) -> None:
    from fastcoder_lsp.core import CompletionRequest, Snapshot

    server = serve(LlamaServer(lambda _: "sum(items)\n"))
    asking = front(server.url)
    assert asking.service.preload().result(20)
    request = CompletionRequest(Snapshot("file:///w/a.py", "/w/a.py", "python", 1, "total = "), 8)
    asking.service.accepted(request, WHOLE)
    asking.service.accepted(request, Policy(ahead=True))
    until(lambda: asking.service.statistics().ahead == 1)
    assert len(server.asked("/infill")) == 1
    assert asking.ask("total = ").finish == "typed-through"


def test_a_document_that_is_closed_is_worked_on_no_more(serve: Serve, front: Fronts) -> None:
    says, server, asking = begun(serve, front)
    future = asking.submit(BEFORE)
    until(lambda: server.asked("/infill"))
    asking.service.document_renamed("file:///w/a.py", "file:///w/b.py")
    until(lambda: len(server.asked("/infill")) == 2)
    says.allow(1000)
    assert future.result(20).text == BODY.rstrip()
    assert asking.ask(BEFORE, uri="file:///w/b.py").finish == "typed-through"
    closed = asking.submit(BEFORE + "\n    ", uri="file:///w/b.py")
    asking.service.document_closed("file:///w/b.py")
    reason = closed.result(20).reason
    assert (reason and reason.code) == "changed"
