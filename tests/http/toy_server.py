"""The real server on a real port of loopback, over a model that says what a test wants."""

import http.client
import itertools
import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import uvicorn

from fastcoder_lsp.completion.protocol import HostListener
from fastcoder_lsp.completion.question import Policy
from fastcoder_lsp.core import EngineInfo, Prefilled, Progress, StepCosts, Verified
from fastcoder_lsp.documents import Slots
from fastcoder_lsp.draft.none import NoDrafter
from fastcoder_lsp.engine.one_slot import OneSlot
from fastcoder_lsp.http.app import make_app
from fastcoder_lsp.http.guard import AccessRules
from fastcoder_lsp.http.server import configuration
from fastcoder_lsp.http.sessions import SessionPool
from fastcoder_lsp.runtime.parts import DecodeLimits, Model, Runtime
from fastcoder_lsp.scheduling.direct import SchedulerHost
from fastcoder_lsp.scheduling.scheduler import Scheduler
from tests.completion.toys import END, Letters, ToyPrompts

PREFIX = "def total(items):\n    "
LETTERS = 200
WAIT_S = 60.0


class Says:
    """An engine that says a text, letter by letter, after whatever prompt it gets.

    `step_s`: how long a step takes at least; `may_step`: steps wait for it; `texts`: other texts, by their prompts.
    """

    info = EngineInfo("toy", "toy-model", "made here", "none", 256, 100_000, 64)

    def __init__(self, text: str, step_s: float = 0.0) -> None:
        self.text, self.step_s, self.may_step = text, step_s, threading.Event()
        self.may_step.set()
        self.prompts: list[int] = []
        self.texts: dict[tuple[int, ...], str] = {}
        self.steps = 0
        self._cache: list[int] = []
        self._called = threading.Lock()

    def prefill(self, tokens: Any, _should_stop: object) -> Prefilled:
        with self._one_caller():
            self.prompts.append(len(tokens))
            self._cache = list(tokens)
            return Prefilled(0, len(self._cache), done=True)

    def step(self, tree: Any, *_arguments: object) -> Verified:
        with self._one_caller():
            self._cache += tree.tokens
            self.steps += 1
            time.sleep(self.step_s)
            assert self.may_step.wait(WAIT_S)
            length = self._cache.index(1) + 1  # token 1 is the last of every prompt
            text, place = self.texts.get(tuple(self._cache[:length]), self.text), len(self._cache) - length
            return Verified((), (ord(text[place]) if place < len(text) else END,))

    def cached(self) -> tuple[int, ...]:
        return tuple(self._cache)

    def close(self) -> None:
        self._cache.clear()

    @contextmanager
    def _one_caller(self) -> Iterator[None]:
        """Fails where another thread is inside: an engine has one caller at a time (`core.Engines`)."""
        assert self._called.acquire(blocking=False), "two threads use the engine at once"
        try:
            yield
        finally:
            self._called.release()


class ToyServer:
    """The server, and what it asks.

    Args:
        says: of the model: a text that it says everywhere, or what it says after a text.
        step_s: how long each of its steps takes at least.
        door: what is let in.
        answer_s: how long an answer may take.
    """

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
        self._server = uvicorn.Server(configuration(self._app))
        self._thread = threading.Thread(target=self._server.run, daemon=True)
        self._thread.start()
        self.until(lambda: self._server.started)
        self.port: int = self._server.servers[0].sockets[0].getsockname()[1]
        assert self.desks.preload().result(WAIT_S)

    def _app(self) -> Any:
        self.desks = SessionPool(self.open, Policy(background_ms=1, ahead=False), LETTERS)
        return make_app(self.desks, self._door, 4096, self._answer_s)

    def open(self, listener: HostListener) -> SchedulerHost:
        """A place for one more listener; all of them have one model, and one thread that uses it."""
        return SchedulerHost(self._scheduler, listener, self._runtime)

    def _load(self, _: Progress) -> Model:
        return Model(OneSlot(self.engine), Letters(), StepCosts((1, 8), (1.0, 2.0), 0.1))

    def _runtime(self, model: Model) -> Runtime:
        return Runtime(
            slots=Slots(model.engines, str(next(self._numbers))),
            tokenizer=model.tokenizer,
            prompts=ToyPrompts(self._prompt),
            drafter=NoDrafter(),
            allow=lambda _: np.arange(256),
            limits=DecodeLimits(max_tokens=LETTERS),
            costs=model.costs,
        )

    def _prompt(self, before: str) -> tuple[int, ...]:
        if self.holds:
            self.engine.may_step.clear()
        self.asked.append(before)
        prompt = (*(ord(letter) % 200 + 2 for letter in before[-50:]), 1)
        if self._says is not None:
            self.engine.texts[prompt] = self._says(before)
        return prompt

    def call(
        self, path: str, body: Any = None, *, method: str = "", headers: dict[str, str] | None = None
    ) -> tuple[int, Any]:
        """The status and the body, as a value where it is JSON; `body` may be bytes."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=WAIT_S)
        try:
            data = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
            connection.request(method or ("GET" if body is None else "POST"), path, data, headers or {})
            response = connection.getresponse()
            text = response.read().decode()
            is_json = (response.getheader("content-type") or "").startswith("application/json")
            return response.status, json.loads(text) if is_json else text
        finally:
            connection.close()

    def until(self, holds: Callable[[], object]) -> None:
        """Wait for it."""
        end = time.monotonic() + WAIT_S
        while not holds():
            assert time.monotonic() < end, "it does not come"
            time.sleep(0.002)

    def until_asked(self, prompts: int) -> None:
        """Wait until the model was asked so many."""
        self.until(lambda: len(self.asked) >= prompts)

    def close(self) -> None:
        self._server.should_exit = True
        self._thread.join(WAIT_S)
        self.desks.close(1.0)
        self.engine.may_step.set()
        self._scheduler.close()
        self._worker.join(WAIT_S)
        assert not self._thread.is_alive()
        assert not self._worker.is_alive()
