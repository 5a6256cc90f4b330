"""The real server and the shared process around a scripted model; each writes which functions lead to its work.

python -P -m tests.completion.traced_process serve --folder DIR
python -P -m tests.completion.traced_process host --folder DIR --key KEY --linger S [--detach]

A question crosses four threads: the handler's and the writer's of the server, the reader's and the scheduler's of the
shared process. Its answer crosses the scheduler's (the emitter) and the connection's (the listener). Each way through a
thread is a line of the file of that name in DIR: the functions from the one that takes the question or the answer in to
the one that leaves it to the next thread, to the engine, or to the future that the handler awaits.
"""

import argparse
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue
from types import CodeType, FrameType

import fastcoder_lsp
from fastcoder_lsp.cli.host import left_behind
from fastcoder_lsp.cli.serve import leave, take_wire
from fastcoder_lsp.completion.protocol import Answered, Ask, HostListener, ModelHost
from fastcoder_lsp.completion.waiting import resolve
from fastcoder_lsp.config import Settings, cache_folder
from fastcoder_lsp.config.environment import python_command
from fastcoder_lsp.core import Progress
from fastcoder_lsp.host.client_connection import ClientConnection
from fastcoder_lsp.host.connection import Channel, Outbox
from fastcoder_lsp.host.host_log import log_to_stderr
from fastcoder_lsp.host.listening import Address
from fastcoder_lsp.host.local import ModelServer
from fastcoder_lsp.host.process import LazyModelServer, run_host
from fastcoder_lsp.host.selector import BackendSelector
from fastcoder_lsp.host.shared_process import SharedProcessHost
from fastcoder_lsp.host.spawn import FindOrStart
from fastcoder_lsp.lsp.methods import METHODS
from fastcoder_lsp.lsp.server import ServeOptions, serve
from fastcoder_lsp.runtime.parts import Model
from fastcoder_lsp.scheduling.client import Client
from fastcoder_lsp.scheduling.scheduler import Scheduler
from fastcoder_lsp.workspace.document import OpenTexts
from tests.completion.toys import toy_model
from tests.lsp.scripted_server import ScriptedEngine, scripted_runtime

PACKAGE = str(Path(fastcoder_lsp.__file__).parent)
VERSION = "traced"


@dataclass(frozen=True)
class Part:
    """The way through one thread.

    Attributes:
        takes: the functions that take a message in.
        itself: whether the way begins at such a function, not at the one that calls it.
        leaves: whether a call, of this frame or of the builtin function that it calls, leaves the question to others.
        holds: whether this frame holds the question; one on the way has to.
    """

    takes: frozenset[CodeType]
    leaves: Callable[[FrameType, object], bool]
    holds: Callable[[FrameType], bool]
    itself: bool = False


def trace(folder: Path, parts: Mapping[str, Part]) -> None:
    """Write each way through these parts to the file of its name, with the functions of the package."""
    first = {part: set(part.takes) if part.itself else set[CodeType]() for part in parts.values()}

    def profile(frame: FrameType, event: str, builtin: object) -> None:
        if event not in {"call", "c_call"}:
            return
        for name, part in parts.items():
            if event == "call" and frame.f_code in part.takes and frame.f_back is not None:
                first[part].add((frame if part.itself else frame.f_back).f_code)
            if part.leaves(frame, builtin) and (way := way_to(frame, first[part], part.holds)):
                with (folder / name).open("a") as lines:
                    lines.write(" ".join(way) + "\n")

    sys.setprofile(profile)
    threading.setprofile(profile)


def way_to(frame: FrameType, first: AbstractSet[CodeType], holds: Callable[[FrameType], bool]) -> list[str]:
    """The package's functions from the first one to this frame; none if they don't begin there or hold no question."""
    way, held = list[str](), False
    here: FrameType | None = frame
    while here is not None:
        if here.f_code.co_filename.startswith(PACKAGE):
            way.append(here.f_code.co_qualname)
        held = held or holds(here)
        if here.f_code in first:
            return way[::-1] if held else []
        here = here.f_back
    return []


def asks(frame: FrameType) -> bool:
    return isinstance(frame.f_locals.get("command"), Ask)


def sends_question(frame: FrameType) -> bool:
    """Whether one of the encoded messages has the tag of a question."""
    return any(b"\xa3Ask" in body for body in frame.f_locals.get("bodies", ()))


def puts(_: FrameType, builtin: object) -> bool:
    return getattr(builtin, "__name__", "") == "put" and isinstance(getattr(builtin, "__self__", None), SimpleQueue)


def is_called_by(frame: FrameType, code: CodeType) -> bool:
    return frame.f_back is not None and frame.f_back.f_code is code


HANDLERS = frozenset(handler.__code__ for _, handler in METHODS if hasattr(handler, "__code__"))
SERVER = {
    "handler": Part(HANDLERS, lambda frame, _: frame.f_code is Outbox.make.__code__, asks, itself=True),
    "listener": Part(
        frozenset((SharedProcessHost.hear.__code__,)),
        lambda frame, _: frame.f_code is resolve.__code__,
        lambda frame: isinstance(frame.f_locals.get("event"), Answered),
        itself=True,
    ),
    "writer": Part(
        frozenset((Outbox.take.__code__,)),
        lambda _, builtin: getattr(builtin, "__name__", "") == "sendall",
        sends_question,
    ),
}
SHARED_PROCESS = {
    "reader": Part(frozenset((Channel.receive.__code__,)), puts, asks),
    "scheduler": Part(
        frozenset((Scheduler._receive.__code__,)),
        lambda frame, _: frame.f_code is ScriptedEngine.step.__code__,
        lambda _: True,
    ),
    "emitter": Part(
        frozenset((Client._answer.__code__,)),
        lambda frame, _: frame.f_code is Outbox.make.__code__ and is_called_by(frame, ClientConnection.on.__code__),
        lambda frame: isinstance(frame.f_locals.get("event"), Answered),
        itself=True,
    ),
}


def serve_traced(folder: Path) -> None:
    trace(folder, SERVER)

    def command(address: Address, settings: Settings) -> Sequence[str]:
        place = ("--folder", str(address.folder), "--key", address.key, "--linger", str(settings.host_linger_s))
        return python_command("tests.completion.traced_process", "host", *place)

    def shared(
        listener: HostListener, settings: Settings, folders: Mapping[Path, Settings], texts: OpenTexts
    ) -> ModelHost:
        return SharedProcessHost(listener, settings, folders, texts, FindOrStart([folder], command, VERSION))

    def open_host(
        listener: HostListener, settings: Settings, folders: Mapping[Path, Settings], texts: OpenTexts
    ) -> ModelHost:
        return BackendSelector(shared, shared, listener, settings, folders, texts)

    stdin, stdout = take_wire()
    settings = {"drafter": "none", "budget.automatic_ms": 60_000, "host.linger_s": 10}  # it would want a real tokenizer
    leave(serve(stdin, stdout, open_host, ServeOptions(settings)))


class Shared(LazyModelServer):
    """The scripted model for all clients."""

    def __init__(self) -> None:
        self._server: ModelServer | None = None

    def open(
        self, listener: HostListener, settings: Settings, folders: Mapping[Path, Settings], texts: OpenTexts
    ) -> ModelHost:
        def load(_settings: Settings, _progress: Progress) -> Model:
            return toy_model(ScriptedEngine("suggested = 1", 0.0))

        if self._server is None:
            self._server = ModelServer(load, scripted_runtime, settings, cache_folder())
        return self._server.open(listener, settings, folders, texts)

    def probe(self, reply: Callable[[], object]) -> None:
        reply()

    def close(self, wait_s: float) -> None:
        if self._server is not None:
            self._server.close(wait_s)


def host_traced(arguments: argparse.Namespace) -> None:
    trace(arguments.folder, SHARED_PROCESS)
    log_to_stderr()
    leave(run_host(arguments.folder, arguments.key, arguments.linger, Shared(), VERSION))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("role", choices=("serve", "host"))
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--key")
    parser.add_argument("--linger", type=float)
    parser.add_argument("--detach", action="store_true")
    arguments = parser.parse_args()
    if arguments.role == "serve":
        serve_traced(arguments.folder)
    elif not (arguments.detach and left_behind()):
        host_traced(arguments)


if __name__ == "__main__":
    main()
