"""The real server on a real port of loopback, over a model that says what a test wants."""

import itertools
import threading
import time
from collections.abc import Callable
from typing import Any

from fastcoder_lsp.completion.protocol import HostListener
from fastcoder_lsp.completion.question import Policy
from fastcoder_lsp.core import Prefilled, Progress, ShouldStop, Tokens
from fastcoder_lsp.http.app import make_app
from fastcoder_lsp.http.guard import AccessRules
from fastcoder_lsp.http.server import configuration
from fastcoder_lsp.http.sessions import SessionPool
from fastcoder_lsp.runtime.parts import Model, Runtime
from fastcoder_lsp.scheduling.direct import SchedulerHost
from fastcoder_lsp.scheduling.scheduler import Scheduler
from tests.completion.toys import ToyPrompts, toy_model, toy_runtime
from tests.fake_engine import SayingEngine, marked
from tests.opened import WAIT_S, Served, until

PREFIX = "def total(items):\n    "
LETTERS = 200


class Says(SayingEngine):
    """Says a text, letter by letter, after whatever prompt it gets.

    `step_s`: how long a step takes at least; `may_step`: steps wait for it; `says_after`: other texts, by prompt.
    """

    def __init__(self, text: str, step_s: float = 0.0) -> None:
        super().__init__(lambda prompt: self.says_after.get(tuple(prompt), self.text), self._wait, "toy-model")
        self.text, self.step_s, self.may_step = text, step_s, threading.Event()
        self.may_step.set()
        self.prompts: list[int] = []
        self.says_after: dict[tuple[int, ...], str] = {}

    def prefill(self, tokens: Tokens, should_stop: ShouldStop) -> Prefilled:
        self.prompts.append(len(tokens))
        return super().prefill(tokens, lambda: False)

    def _wait(self) -> None:
        time.sleep(self.step_s)
        assert self.may_step.wait(WAIT_S)


class ToyServer(Served):
    """The server over a model that says `says`, a text or the text after a text, in steps of `step_s` at least."""

    def __init__(
        self,
        says: str | Callable[[str], str],
        *,
        step_s: float = 0.0,
        door: AccessRules | None = None,
        answer_s: float = 30.0,
    ) -> None:
        self.engine = Says(says if isinstance(says, str) else "", step_s)
        self._says = None if isinstance(says, str) else says
        self.asked: list[str] = []
        """What stood before the cursor, of each prompt."""
        self.holds = False
        """Whether the model waits, at each new prompt, until it may step."""
        self.desks: SessionPool
        self._numbers = itertools.count()
        self._scheduler: Scheduler[Model] = Scheduler(self._load)
        self._worker = threading.Thread(target=self._scheduler.run, daemon=True)
        self._worker.start()
        self._door, self._answer_s = door or AccessRules(), answer_s
        self._ready = threading.Event()
        self.serve(configuration(self._app))
        assert self.desks.preload().result(WAIT_S)

    def _app(self) -> Any:
        self.desks = SessionPool(self.open, Policy(background_ms=1, ahead=False), LETTERS)
        return make_app(self.desks, self._door, 4096, self._answer_s)

    def open(self, listener: HostListener) -> SchedulerHost:
        """A place for one more listener; all of them have one model, and one thread that uses it."""
        return SchedulerHost(self._scheduler, listener, self._runtime)

    def _load(self, _: Progress) -> Model:
        return toy_model(self.engine)

    def _runtime(self, model: Model) -> Runtime:
        prompts = ToyPrompts(self._prompt)
        return toy_runtime(model, prompts, str(next(self._numbers)), max_tokens=LETTERS)

    def _prompt(self, before: str) -> tuple[int, ...]:
        if self.holds:
            self.engine.may_step.clear()
        self.asked.append(before)
        prompt = marked(before[-50:])
        if self._says is not None:
            self.engine.says_after[prompt] = self._says(before)
        return prompt

    def call(self, path: str, body: Any = None, **named: Any) -> tuple[int, Any]:
        return self.exchange(path, body, **named)[:2]

    def until_asked(self, prompts: int) -> None:
        until(lambda: len(self.asked) >= prompts)

    def close(self) -> None:
        self.stop()
        self.desks.close(1.0)
        self.engine.may_step.set()
        self._scheduler.close()
        self._worker.join(WAIT_S)
        assert not self._worker.is_alive()


Start = Callable[..., ToyServer]
