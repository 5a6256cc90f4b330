"""`bench wire`: what passes between an editor's server and the shared process adds to a request.

The front is in this process, the host in one of its own, as in use; its model takes no time, so that the wire is left.
"""

import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from typing_extensions import override

from benchmarks.harness import Reported, write
from fastcoder_lsp.bench.report import print_table
from fastcoder_lsp.cli.options import option
from fastcoder_lsp.completion.protocol import (
    Answered,
    Ask,
    Command,
    DocumentChanged,
    Event,
    HostFacts,
    HostListener,
    Load,
    LoadFinished,
    Made,
    ModelHost,
)
from fastcoder_lsp.completion.question import Answer, Policy, Question, place_of
from fastcoder_lsp.completion.suggestions import CachedSuffix, Suggestion
from fastcoder_lsp.config import Settings
from fastcoder_lsp.config.environment import neutral_folder, python_command
from fastcoder_lsp.core import CompletionRequest, Snapshot
from fastcoder_lsp.errors import ResourceError
from fastcoder_lsp.host.address import named_address
from fastcoder_lsp.host.connection import greet
from fastcoder_lsp.host.listening import Address
from fastcoder_lsp.host.process import LazyModelServer, run_host
from fastcoder_lsp.host.remote import SharedProcessHost
from fastcoder_lsp.workspace.document import OpenTexts

EXAMPLE = "wire --json wire.json"
KEY, BUILD = "benchmark", "bench wire"
TAKEN = "taken"
"""The span that holds when the host had the question, in milliseconds of `time.perf_counter`."""
_ANSWER_S = 30.0
_LINGER_S = 20.0
_LOOK_S = 0.02


@dataclass(frozen=True, slots=True, kw_only=True)
class Options(Reported):
    """Type into a document and ask at every key of a shared process whose model answers at once.

    The figures are the time from the question until that process has it, and from its answer until the editor's server
    has that, by a clock that both share.
    """

    requests: int = option("keys", 2000, metavar="N")
    lines: int = option("lines of the document", 2000, metavar="N")
    pause_ms: float = option("time between two keys", 5.0, metavar="MS")


def run(options: Options) -> int:
    with tempfile.TemporaryDirectory() as folder:
        command = python_command(__name__, folder)
        process = subprocess.Popen(command, cwd=neutral_folder(), stdin=subprocess.DEVNULL)
        try:
            times = measure(Path(folder), options.requests, options.lines, options.pause_ms)
        finally:
            process.terminate()
            process.wait()
    parts = {"question": times[:, 0], "answer": times[:, 1], "both": times.sum(1)}
    rows = [[name, *(f"{value:.2f}" for value in np.percentile(ms, (50, 95, 99)))] for name, ms in parts.items()]
    print_table(f"{len(times)} questions, document of {options.lines} lines", ("ms", "p50", "p95", "p99"), rows)
    write(options, "wire", {name: ms.tolist() for name, ms in parts.items()})
    return 0


def measure(folder: Path, requests: int, lines: int, pause_ms: float) -> npt.NDArray[np.float64]:
    asker = AskingFront()
    address = named_address(folder, KEY)
    _wait_for(address)
    front = SharedProcessHost(asker.on, Settings(), {}, OpenTexts(), lambda _: greet(address, BUILD), pauses_s=(0.05,))
    half = "    value = compute(value, other)\n" * (lines // 2)
    taken = []
    for number in range(1, requests + 2):
        typed = "abcdefghij "[number % 11] * (number % 60)
        asked = time.perf_counter() * 1e3
        text = f"{half}{typed}\n{half}"
        front.send(DocumentChanged(Path("/project/a.py"), text))
        front.send(Ask(asker.question(number, text, len(half) + len(typed))))
        if (came := asker.wait(number, _ANSWER_S)) is None:
            raise ResourceError("the host does not answer", "Run it again with FASTCODER_TRACEBACK=1.")
        if number > 1:  # the first one waits for the process
            taken.append((came[0] - asked, came[1] - came[0]))
        time.sleep(pause_ms / 1e3)
    front.close(1.0)
    return np.array(taken)


def _wait_for(address: Address) -> None:
    until = time.monotonic() + _ANSWER_S
    while time.monotonic() < until:
        with suppress(OSError):
            greet(address, BUILD).channel.close()
            return
        time.sleep(_LOOK_S)
    raise ResourceError("the host does not begin", "Run it again with FASTCODER_TRACEBACK=1.")


class InstantHost(ModelHost):
    """A `ModelHost` that answers every question at once with the same line, and says when it had the question."""

    def __init__(self, listener: HostListener, *_: object) -> None:
        self._listener = listener

    @override
    def send(self, command: Command) -> None:
        match command:
            case Ask(question):
                taken = time.perf_counter() * 1e3
                text = "return a suggestion of usual length"
                self._listener(Made(question.uri, Suggestion(question.place, text)))
                answer = Answer("shown", (CachedSuffix(text, 0),), "stop", ms={TAKEN: taken})
                self._listener(Answered(question.number, answer))
            case Load(ticket):
                self._listener(LoadFinished(ticket, True))

    @override
    def facts(self) -> HostFacts:
        return HostFacts()

    @override
    def close(self, wait_s: float) -> None:
        """Nothing to do."""


class Instant(LazyModelServer):
    @override
    def open(self, *front: Any) -> ModelHost:
        return InstantHost(*front)

    @override
    def probe(self, reply: Callable[[], object]) -> None:
        reply()

    @override
    def close(self, wait_s: float) -> None:
        """Nothing to do."""


class AskingFront:
    def __init__(self) -> None:
        self._came = threading.Event()
        self._answer = (0, 0.0, 0.0)

    def question(self, number: int, text: str, offset: int) -> Question:
        request = CompletionRequest(Snapshot("file:///project/a.py", "/project/a.py", "python", number, text), offset)
        now = time.perf_counter()
        return Question(number, request, place_of(request), Policy(), time.monotonic() * 1e3, now)

    def wait(self, number: int, seconds: float) -> tuple[float, float] | None:
        """(when the host had the question, when its answer was told), in ms; None where none came in time."""
        until = time.monotonic() + seconds
        while self._answer[0] != number:
            if not self._came.wait(until - time.monotonic()):
                return None
            self._came.clear()
        return self._answer[1:]

    def on(self, event: Event) -> None:
        if isinstance(event, Answered):
            if TAKEN in event.answer.ms:  # else the host is not there yet
                self._answer = (event.number, event.answer.ms[TAKEN], time.perf_counter() * 1e3)
            self._came.set()


if __name__ == "__main__":
    sys.exit(run_host(Path(sys.argv[1]), KEY, _LINGER_S, Instant(), BUILD))
