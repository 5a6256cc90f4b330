"""Who types key by key at a simulated model that hears every token of its KV caches, with other code to be shown."""

from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field

from fastcoder_lsp.completion.protocol import HostListener
from fastcoder_lsp.completion.question import Policy
from fastcoder_lsp.completion.service import CompletionService
from fastcoder_lsp.core import (
    Completion,
    CompletionRequest,
    Late,
    Prefilled,
    Progress,
    ShouldStop,
    Snapshot,
    Tokens,
)
from fastcoder_lsp.documents import Slots
from fastcoder_lsp.draft.base import NoDrafter
from fastcoder_lsp.prompt import PromptBuilder, PromptOptions, allowed
from fastcoder_lsp.prompt.retrieval import LatestPrompt
from fastcoder_lsp.runtime.parts import DecodeLimits, Model, Runtime
from fastcoder_lsp.scheduling.direct import SchedulerHost
from fastcoder_lsp.scheduling.scheduler import Scheduler
from tests.completion.listening import Heard
from tests.completion.simulated import COSTS, Clock, TurnByTurn
from tests.prompt.test_context import SNIPPETS, Given
from tests.prompt.toy_tokenizers import of_family
from tests.scheduling.shared import Caches, Slot

QWEN = of_family("Qwen2.5-Coder")
URI = "file:///main.py"
KEY_MS = 330.0
WORDS = [QWEN.encode(word)[0] for word in ("a", "b", "(", ")", "\n")]
END, PREFIX = min(QWEN.end_ids), QWEN.control["<|fim_prefix|>"]


class TokenSlot(Slot):
    """Says what all tokens in its cache decide together, of a prompt those from its text on, or all."""

    def __init__(self, caches: "TokenCaches", *, spare: bool) -> None:
        super().__init__(caches.clock, lambda _: "", caches)
        self._all, self._spare = caches, spare

    def prefill(self, tokens: Tokens, should_stop: ShouldStop) -> Prefilled:
        if self._spare and self._all.full:
            self.give_up()
            return Prefilled(0, 0, done=False)
        return super().prefill(tokens, should_stop)

    def works(self, rows: int, *, prefill: bool) -> None:
        super().works(rows, prefill=prefill)
        self._all.computed += rows if prefill else rows - 1

    def choose(self, tokens: Tokens, among: Sequence[int]) -> int:
        heard = tokens if self._all.whole else tokens[tokens.index(PREFIX) :]
        chosen = hash(tuple(heard)) % 8
        if isinstance(among, range):  # all tokens
            return END if chosen > 6 else WORDS[chosen % len(WORDS)]
        return among[chosen % len(among)]


class TokenCaches(Caches):
    """As many as are wanted. `full`: whether there is room for no second one. `computed`: tokens of prompts."""

    def __init__(self, clock: Clock, *, whole: bool) -> None:
        super().__init__(clock, lambda _: "", 100)
        self.clock, self.full, self.whole, self.computed = clock, False, whole, 0

    def slot(self, name: str) -> Slot:
        return self.engines.setdefault(name, TokenSlot(self, spare=False))

    def second_cache(self, name: str) -> Slot:
        return self.spare.setdefault(name, TokenSlot(self, spare=True))

    def exchange(self, name: str) -> None:
        super().exchange(name)
        taken = self.engines[name]
        assert isinstance(taken, TokenSlot)
        taken._spare = False

    def swap(self, name: str) -> None:
        super().swap(name)
        for slot, spare in ((self.engines[name], False), (self.spare[name], True)):
            assert isinstance(slot, TokenSlot)
            slot._spare = spare


@dataclass
class Typist(TurnByTurn):
    """One front with a document, and with `budget` tokens of other files' code, which is `given`; 0: none.

    `later`: a first prompt goes without that code. `prompts`: a builder to go on with. `whole`: the code changes what
    the model says. `slower`: a factor on its work. `costs`: tokens of prompts computed from each key to its answer.
    """

    budget: int = 300
    given: Given = field(default_factory=lambda: Given(SNIPPETS))
    later: bool = True
    prompts: PromptBuilder | None = None
    whole: bool = False
    policy: Policy = field(default_factory=lambda: Policy(automatic_ms=260, invoked_ms=900, background_ms=4000))
    costs: list[int] = field(default_factory=list)
    slower: float = 1.0
    lates: list[Late] = field(default_factory=list)
    before: str = "".join(f"value_{number} = compute({number})\n" for number in range(40))
    after: str = "\nz = 1\n"
    uri: str = URI
    version: int = 0
    edited: bool = True

    def __post_init__(self) -> None:
        options = PromptOptions(limit=1400 + self.budget, context_tokens=self.budget, context_later=self.later)
        self.clock = Clock()
        costs = COSTS.times(self.slower)
        self.caches = TokenCaches(self.clock, whole=self.whole)

        def load(_: Progress) -> Model:
            self.caches = TokenCaches(self.clock, whole=self.whole)
            return Model(self.caches, QWEN, costs)

        self.scheduler = Scheduler[Model](load, self.clock)
        self.builder = self.prompts or PromptBuilder(QWEN, options, self.given)

        def make(model: Model) -> Runtime:
            return Runtime(
                slots=Slots(model.engines),
                tokenizer=QWEN,
                prompts=self.builder,
                drafter=NoDrafter(),
                allow=lambda remaining: allowed(QWEN, remaining),
                limits=DecodeLimits(max_tokens=24),
                costs=costs,
            )

        def open_host(listener: HostListener) -> SchedulerHost:
            return SchedulerHost(self.scheduler, listener, make)

        self.service = CompletionService(open_host, Heard(lates=self.lates), clock=self.clock)
        self.service.preload()
        self.work()

    def ask(self, *, invoked: bool = False) -> "Future[Completion]":
        self.version += 1
        path, written = self.uri.removeprefix("file://"), self.before + self.after
        text = Snapshot(self.uri, path, "python", self.version, written, edited=self.edited)
        return self.service.submit(CompletionRequest(text, len(self.before), invoked=invoked), self.policy)

    def answer(self, *, invoked: bool = False) -> Completion:
        before, asked = self.computed(), self.ask(invoked=invoked)
        while not asked.done():
            self.scheduler.turn()
        self.costs.append(self.computed() - before)
        return asked.result(0)

    def type(self, text: str, key_ms: float = KEY_MS) -> None:
        for key in text:
            self.before += key
            pressed = self.clock.ms
            self.answer()
            self.rest(pressed + key_ms - self.clock.ms)

    def do(self) -> None:
        """What was told is heard."""
        for _ in range(3):
            self.scheduler.turn()

    def computed(self) -> int:
        return self.caches.computed

    def prompt(self) -> LatestPrompt:
        latest = self.builder.shown(self.uri)
        assert latest is not None
        return latest

    def shown(self) -> list[str]:
        shown = self.builder.shown(self.uri)
        return [one.path for one in shown.found.snippets] if shown is not None else []

    def prepared(self) -> int:
        spare = self.caches.spare.get(f"\n{self.uri}")
        return len(spare.cached()) if spare is not None else 0
