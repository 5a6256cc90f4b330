"""The real server around a model that says the same text at every place, one character a step.

Run as a program by the tests: what they are about is the protocol, where a model would only add waiting.
"""

import argparse
import sys
import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

import numpy as np
import numpy.typing as npt

from fastcoder_lsp.cli.serve import leave, take_wire
from fastcoder_lsp.config import Settings
from fastcoder_lsp.core import (
    GREEDY,
    DraftTree,
    EngineInfo,
    Prefilled,
    Progress,
    Sampler,
    ShouldStop,
    StepCosts,
    Tokens,
    Verified,
)
from fastcoder_lsp.documents import Slots
from fastcoder_lsp.draft.none import NoDrafter
from fastcoder_lsp.engine.one_slot import OneSlot
from fastcoder_lsp.errors import ModelMissingError
from fastcoder_lsp.host.local import open_alone
from fastcoder_lsp.lsp.server import ServeOptions, serve
from fastcoder_lsp.prompt import PromptOptions
from fastcoder_lsp.runtime.costs import context_tokens
from fastcoder_lsp.runtime.parts import DecodeLimits, Model, Runtime, WorkspaceView
from tests.completion.toys import Letters, ToyPrompts

_MARK = 1


def sleep_until(file: Path, seconds: float) -> None:
    """Wait so long, and no longer once the file is there."""
    end = time.monotonic() + seconds
    while not file.exists() and (left := end - time.monotonic()) > 0:
        time.sleep(min(left, 0.005))


class ScriptedEngine:
    """Says `says` after every prompt, then an end token; `step_s` a step."""

    def __init__(self, says: str, step_s: float, waits: Callable[[float], None] = time.sleep) -> None:
        self.info = EngineInfo("scripted", "scripted", "made here", "none", 256, 100_000, 64)
        self._says = says.encode()
        self._step_s, self._waits = step_s, waits
        self._said = 0
        self._cached: tuple[int, ...] = ()

    def prefill(self, tokens: Tokens, should_stop: ShouldStop) -> Prefilled:
        done = not should_stop()
        self._cached, self._said = tuple(tokens) if done else (), 0
        return Prefilled(0, len(tokens) if done else 0, done=done)

    def step(
        self,
        tree: DraftTree,
        sampler: Sampler = GREEDY,
        allowed: Mapping[int, npt.NDArray[np.int64]] | None = None,
        top_k: int = 0,
    ) -> Verified:
        self._waits(self._step_s)
        print("a stray print must not reach the wire")  # noqa: T201
        token = self._says[self._said] if self._said < len(self._says) else 0
        self._said += 1
        self._cached += tuple(tree.tokens)
        return Verified((), (token,))

    def cached(self) -> tuple[int, ...]:
        return self._cached

    def close(self) -> None:
        pass


def scripted_runtime(model: Model, settings: Settings, _around: WorkspaceView, front: str) -> Runtime:
    """What a front has of a scripted model."""
    told = context_tokens(settings.context_enabled, model.costs.prefill_ms)
    return Runtime(
        slots=Slots(model.engines, front),
        tokenizer=model.tokenizer,
        prompts=ToyPrompts(lambda _: (_MARK,), PromptOptions(context_tokens=told)),  # what is said depends on nothing
        drafter=NoDrafter(),
        allow=lambda _: np.arange(256),
        limits=DecodeLimits(max_tokens=256),
        costs=model.costs,
    )


def main() -> None:
    """Serve until the client goes."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--says", default="suggested = 1")
    parser.add_argument("--step-ms", type=float, default=0.0)
    parser.add_argument("--load-ms", type=float, default=0.0)
    parser.add_argument("--prefill-ms", type=float, default=0.1)
    parser.add_argument("--until", type=Path, help="the file that ends all waiting")
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
        return Model(OneSlot(engine), Letters(), StepCosts((1, 8), (1.0, 2.0), arguments.prefill_ms))

    stdin, stdout = take_wire()
    sys.setswitchinterval(0.0005)
    # No datastore: it would want a real tokenizer.
    settings = {**budgets, "drafter": "none"}
    leave(serve(stdin, stdout, partial(open_alone, load, scripted_runtime), ServeOptions(settings, debug=True)))


if __name__ == "__main__":
    main()
