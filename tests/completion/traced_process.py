"""The real server and the shared process around a scripted model; each writes which functions lead to its work.

python -P -m tests.completion.traced_process serve --folder DIR
python -P -m tests.completion.traced_process host --folder DIR --key KEY --linger S [--detach]

Of the server it is the way from a method's handler to the command that is left for the shared process; of that process,
from the scheduler's cycle to a step of the engine. The way is a line of DIR/server, and DIR/host.
"""

import argparse
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import CodeType, FrameType

import fastcoder_lsp
from fastcoder_lsp.cli.host import left_behind
from fastcoder_lsp.cli.serve import leave, take_wire
from fastcoder_lsp.completion.protocol import Ask, HostListener, ModelHost
from fastcoder_lsp.config import Settings, cache_folder
from fastcoder_lsp.config.environment import python_command
from fastcoder_lsp.core import Progress
from fastcoder_lsp.host.connection import Outbox
from fastcoder_lsp.host.host_log import log_to_stderr
from fastcoder_lsp.host.listening import Address
from fastcoder_lsp.host.local import ModelServer
from fastcoder_lsp.host.process import LazyModelServer, run_host
from fastcoder_lsp.host.remote import SharedProcessHost
from fastcoder_lsp.host.selector import BackendSelector
from fastcoder_lsp.host.spawn import FindOrStart
from fastcoder_lsp.lsp.methods import METHODS
from fastcoder_lsp.lsp.server import ServeOptions, serve
from fastcoder_lsp.runtime.parts import Model
from fastcoder_lsp.scheduling.scheduler import Scheduler
from fastcoder_lsp.workspace.document import OpenTexts
from tests.completion.toys import toy_model
from tests.lsp.scripted_server import ScriptedEngine, scripted_runtime

PACKAGE = str(Path(fastcoder_lsp.__file__).parent)
VERSION = "traced"


def trace(first: frozenset[CodeType], last: CodeType, file: Path, wanted: Callable[[FrameType], bool]) -> None:
    """Write a line for each call of `last` that `first` leads to: the package's functions from one to the other.

    `wanted`: asked of each frame between; one of them has to be.
    """

    def profile(frame: FrameType, event: str, _: object) -> None:
        if event != "call" or frame.f_code is not last:
            return
        path, found = list[str](), False
        here: FrameType | None = frame
        while here is not None:
            if here.f_code.co_filename.startswith(PACKAGE):
                path.append(here.f_code.co_qualname)
            found = found or wanted(here)
            if here.f_code in first:
                break
            here = here.f_back
        else:
            return
        if found:
            with file.open("a") as lines:
                lines.write(" ".join(reversed(path)) + "\n")

    sys.setprofile(profile)
    threading.setprofile(profile)


def asks(frame: FrameType) -> bool:
    return isinstance(frame.f_locals.get("command"), Ask)


def serve_traced(folder: Path) -> None:
    handlers = frozenset(handler.__code__ for _, handler in METHODS if hasattr(handler, "__code__"))
    trace(handlers, Outbox.make.__code__, folder / "server", asks)

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
    trace(
        frozenset((Scheduler.turn.__code__,)), ScriptedEngine.step.__code__, arguments.folder / "host", lambda _: True
    )
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
