"""The real server around a model that says the same text at every place, one character a step.

Run as a program by the tests: what they are about is the protocol, where a model would only add waiting.
"""

import argparse
import sys
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path

from fastcoder_lsp.cli.serve import leave, take_wire
from fastcoder_lsp.completion.protocol import Command, HostListener, ModelHost
from fastcoder_lsp.config import Settings
from fastcoder_lsp.core import Engine, Progress
from fastcoder_lsp.engine.one_slot import OneSlot
from fastcoder_lsp.errors import ModelMissingError
from fastcoder_lsp.host.local import open_alone
from fastcoder_lsp.lsp.server import ServeOptions, serve
from fastcoder_lsp.prompt import PromptOptions
from fastcoder_lsp.runtime.costs import context_tokens
from fastcoder_lsp.runtime.edit_model import EditModel, EditModels
from fastcoder_lsp.runtime.parts import Model, Runtime, WorkspaceView
from fastcoder_lsp.workspace.document import OpenTexts
from tests.completion.toys import QUICK, Letters, ToyPrompts, toy_runtime
from tests.edits.toys import ReplacingEngine, edit_runtime
from tests.fake_engine import MARK, SayingEngine


def sleep_until(file: Path, seconds: float) -> None:
    """Wait so long, and no longer once the file is there."""
    end = time.monotonic() + seconds
    while not file.exists() and (left := end - time.monotonic()) > 0:
        time.sleep(min(left, 0.005))


class ScriptedEngine(SayingEngine):
    """Says `says` after every prompt, then an end token; `step_s` a step."""

    def __init__(self, says: str, step_s: float, waits: Callable[[float], None] = time.sleep) -> None:
        def wait() -> None:
            waits(step_s)
            print("a stray print must not reach the wire")  # noqa: T201

        super().__init__(says, wait, "scripted")


def scripted_runtime(
    model: Model,
    settings: Settings,
    _around: WorkspaceView,
    front: str,
    edits: Engine | None = None,
    models: EditModels | None = None,
) -> Runtime:
    """What a front has of a scripted model, and of an edit model if there is one, ready or loaded when first asked."""
    told = context_tokens(settings.context_enabled, model.costs.prefill_ms)
    prompts = ToyPrompts(lambda _: (MARK,), PromptOptions(context_tokens=told))  # what is said depends on nothing
    runtime = toy_runtime(model, prompts, front, max_tokens=256)
    if models is not None:
        return replace(runtime, edit_model=partial(models.of, settings, front))
    if edits is None:
        return runtime
    edit_model = edit_runtime(edits, front)
    return replace(runtime, edit_model=lambda: edit_model)


class FollowingHost:
    """A host in this process whose open texts follow the commands, as `BackendSelector` has them do."""

    def __init__(self, host: ModelHost, texts: OpenTexts) -> None:
        self._host, self._texts = host, texts
        self.facts, self.close = host.facts, host.close

    def send(self, command: Command) -> None:
        command.follow_in(self._texts)
        self._host.send(command)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--says", default="suggested = 1")
    parser.add_argument("--step-ms", type=float, default=0.0)
    parser.add_argument("--load-ms", type=float, default=0.0)
    parser.add_argument("--edits-load-ms", type=float, default=0.0)
    parser.add_argument("--prefill-ms", type=float, default=0.1)
    parser.add_argument("--until", type=Path, help="the file that ends all waiting")
    parser.add_argument("--replaces", nargs=2, help="what the edit model replaces, and by what")
    parser.add_argument("--budget-ms", type=int, default=60_000)
    arguments = parser.parse_args()
    waits = time.sleep if arguments.until is None else partial(sleep_until, arguments.until)
    budgets = {f"budget.{kind}_ms": arguments.budget_ms for kind in ("automatic", "invoked")}
    budgets["budget.background_ms"] = 60_000

    def load(settings: Settings, progress: Progress) -> Model:
        if settings.model != "auto":
            raise ModelMissingError(f"no model {settings.model}", "fetch it: fastcoder-lsp model pull")
        for share in (0.0, 0.5):
            progress(share, "weights")
            waits(arguments.load_ms / 2e3)
        engine = ScriptedEngine(arguments.says, arguments.step_ms / 1e3, waits)
        return Model(OneSlot(engine), Letters(), replace(QUICK, prefill_ms=arguments.prefill_ms))

    edits = None
    if arguments.replaces is not None:
        old, new = arguments.replaces
        edits = ReplacingEngine(old, new, partial(waits, arguments.step_ms / 1e3))

    def load_edits(settings: Settings, _stopped: threading.Event, progress: Progress) -> EditModel:
        progress(0.5, "weights")
        waits(arguments.edits_load_ms / 1e3)
        if edits is None:
            raise ModelMissingError(f"no model {settings.edits_model}", "fetch it: fastcoder-lsp model pull")
        return edit_runtime(edits).model

    models = EditModels(load_edits) if arguments.edits_load_ms else None
    make = partial(scripted_runtime, edits=edits, models=models)

    def open_host(
        listener: HostListener, settings: Settings, folders: Mapping[Path, Settings], texts: OpenTexts
    ) -> FollowingHost:
        return FollowingHost(open_alone(load, make, listener, settings, folders, texts), texts)

    stdin, stdout = take_wire()
    sys.setswitchinterval(0.0005)
    # No datastore: it would want a real tokenizer.
    settings = {**budgets, "drafter": "none"}
    leave(serve(stdin, stdout, open_host, ServeOptions(settings, debug=True)))


if __name__ == "__main__":
    main()
