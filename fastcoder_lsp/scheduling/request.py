"""An open request: its time, its answer, and more candidates for it.

Runs in the scheduler's thread. `Client.serve` does the work between the decisions made here.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

from fastcoder_lsp.completion import reasons
from fastcoder_lsp.completion.protocol import Counted
from fastcoder_lsp.completion.question import Answer, Clock, Question
from fastcoder_lsp.completion.suggestions import Suggestion
from fastcoder_lsp.core import CacheLost, Counts, DraftTree, Reason
from fastcoder_lsp.decode.loop import DecodeRequest
from fastcoder_lsp.decode.tree import Healing
from fastcoder_lsp.observe import Spans
from fastcoder_lsp.scheduling.budget import MOST_MS, Budgets
from fastcoder_lsp.scheduling.current import CurrentGeneration
from fastcoder_lsp.scheduling.generation import Generation, LocalGeneration
from fastcoder_lsp.scheduling.prefetch import Prefill

EARLY_TOKENS = 8  # candidates branch from the first one within so many tokens; later branches would look the same
TOP_K = 3  # how many tokens are considered at each position
ATTEMPTS = 5  # the most branches that are decoded in search of candidates that look different


@dataclass(frozen=True, slots=True)
class Branch:
    """Another beginning: `tokens`, whose last one is below the model's first choice by `gap` in its logit."""

    tokens: tuple[int, ...]
    gap: float


class Alternatives:
    """The search for alternatives to the finished candidate `first`; at most `most` candidates with it.

    They branch from the greedy text at the early tokens that the model was least certain of, and continue greedily. All
    share the prompt in the KV cache, and one pass over the first tokens finds all branches. `found` has the candidates
    so far, the plain answer first; `counts` is the work for the others.
    """

    def __init__(self, first: LocalGeneration, most: int) -> None:
        self.found: list[Suggestion] = [first.made()]
        self.counts = Counts()
        self.finished = most < 2 or not self.found[0].text
        self._first, self._most = first, most
        self._engine = first.runtime.engine_for(first.snapshot.uri)
        self._prompt = Prefill(self._engine, first.latency, first.clock, first.request.prompt[:-1])
        self._branches: list[Branch] | None = None
        self.branch: LocalGeneration | None = None

    def work(self, room_ms: float) -> bool:
        """Do one piece of work; returns False where none fits into `room_ms`."""
        if not self._prompt.finished:
            return self._prompt.work(room_ms)
        if self._branches is None:
            return self._look(room_ms)
        if self.branch is None:
            self._begin()
            return True
        if not self.branch.finished:
            return self.branch.work(room_ms)
        self._take(self.branch)
        return True

    def close(self) -> None:
        """End the search, and keep the whole lines of the unfinished candidate."""
        if self.branch is not None:
            self._take(self.branch)
        self.finished = True

    def _look(self, room_ms: float) -> bool:
        """One pass over the first tokens, which finds the alternatives to each."""
        first, latency = self._first, self._first.latency
        said = first.tokens()[:EARLY_TOKENS]
        chain = DraftTree.chain((first.request.prompt[-1], *said[:-1]))
        if latency.step_ms(len(chain)) > room_ms:
            return False
        started = first.clock()
        try:
            verified = self._engine.step(chain, top_k=TOP_K)
        except CacheLost:  # the caches evict each other, and would do so again
            self._engine.prefill(first.request.prompt[:-1], lambda: False)
            verified = self._engine.step(chain, top_k=TOP_K)
        latency.stepped(len(chain), first.clock() - started)
        self.counts = replace(self.counts, steps=self.counts.steps + 1)
        if verified.top_ids_NK is None or verified.top_logits_NK is None:
            self._branches = []
        else:
            self._branches = branches(
                first.request, said, verified.top_ids_NK.tolist(), verified.top_logits_NK.tolist()
            )[:ATTEMPTS]
        self.finished = not self._branches
        return True

    def _begin(self) -> None:
        if not self._branches:
            self.finished = True
            return
        first = self._first
        begun = from_branch(first.request, self._branches.pop(0))
        if begun is not None:
            head, request = begun
            self.branch = LocalGeneration(
                first.runtime, first.latency, first.clock, first.snapshot, first.place, request, head
            )

    def _take(self, branch: LocalGeneration) -> None:
        """End a branch; keep it as a candidate if its text differs from all others."""
        self.branch, self.counts = None, self.counts + branch.counts()
        suggestion = branch.useful()
        shown = {" ".join(known.text.split()) for known in self.found}
        if suggestion.text and " ".join(suggestion.text.split()) not in shown:
            self.found.append(suggestion)
        self.finished = len(self.found) >= self._most or not self._branches


def branches(
    request: DecodeRequest, said: tuple[int, ...], top_ids: list[list[int]], top_logits: list[list[float]]
) -> list[Branch]:
    """Where the text can branch, the most likely branches first.

    `top_ids`, `top_logits`: the best ids of each position of `said` and their logits. Tokens that end the text, or
    contradict what the user has typed, are left out.
    """
    found, healing = [], Healing(request.healing, request.piece, request.allow)
    for position, token in enumerate(said):
        logits = dict(zip(top_ids[position], top_logits[position], strict=True))
        best = logits.get(token, max(logits.values()))
        for other, logit in logits.items():
            if other != token and other not in request.end_ids and healing.after(other) is not None:
                found.append(Branch((*said[:position], other), best - logit))
        after = healing.after(token)
        assert after is not None, "what was said agrees with what was typed"
        healing = after
    return sorted(found, key=lambda branch: (branch.gap, len(branch.tokens)))


def from_branch(request: DecodeRequest, branch: Branch) -> tuple[str, DecodeRequest] | None:
    """The branch's text so far, and the request that continues it; None where the text ends there."""
    said = b"".join(map(request.piece, branch.tokens))
    new = said[len(request.healing) :]
    try:
        head = new.decode()
    except UnicodeDecodeError:  # it ends inside a character
        return None
    if request.cut(head) is not None or len(branch.tokens) >= request.max_tokens:
        return None
    return head, replace(
        request,
        prompt=(*request.prompt, *branch.tokens),
        max_tokens=request.max_tokens - len(branch.tokens),
        healing=request.healing[len(said) :],
        cut=_cut_after(head, request.cut),
        outdated=(),
    )


def _cut_after(head: str, cut: Callable[[str], int | None]) -> Callable[[str], int | None]:
    def rest(text: str) -> int | None:
        length = cut(head + text)
        return None if length is None else max(length - len(head), 0)

    return rest


_TRIED = 2
"""A request may run its first pieces (a stretch of its prompt, and a step) even if they look too slow, while half of
its budget is left. Otherwise one stall would distort the estimate for good."""


@dataclass(frozen=True, slots=True)
class RequestTime:
    """The time of a request at one moment."""

    budget_ms: float  # from its arrival, without the time that the answer itself needs
    room_ms: float  # what is left of the budget
    longer_ms: float  # what is left while there is nothing to show; by key that may be more
    limit_ms: float  # the longest that it waits, from its arrival

    @property
    def wait_ms(self) -> float:
        """How long it may wait for more text."""
        return self.room_ms if self.room_ms > 0 else self.longer_ms


class ActiveRequest:
    """The newest question of a client, until it is answered or withdrawn.

    Attributes:
        asked_ms: start of its budget.
        pieces: how many pieces of work it has had.
        served: whether work on it has begun.
    """

    def __init__(self, current: CurrentGeneration, question: Question, clock: Clock) -> None:
        self.question, self._current, self._clock = question, current, clock
        self.spans = Spans.since(question.opened_s)
        self.asked_ms, self._waited_for_model = question.asked_ms, False
        self.pieces, self.served = 0, False
        self._adopted, self._before = False, Counts()
        self._settled = 0
        self._alternatives: Alternatives | None = None

    @property
    def branch(self) -> Generation | None:
        """The alternative being decoded, if any."""
        return self._alternatives.branch if self._alternatives is not None else None

    def waited_for_model(self) -> None:
        """The model is loaded: the budget starts now, and is at least that of a request by key."""
        now = self._clock()
        if self.asked_ms != now:
            self.asked_ms, self._waited_for_model = now, True

    def take(self) -> None:
        """Continue the client's generation where it serves this question; otherwise begin a new one."""
        self._alternatives = None
        question, generation = self.question, self._current.serving(self.question)
        if question.again and (generation is None or generation.interim):
            self._begin(whole=True)
            return
        if generation is None or (question.candidates > 1 and not self._can_branch(generation)):
            self._begin()
            return
        self._before = generation.counts()
        self._adopted = generation.adopt(self.asked_ms, self.spans)
        self._current.emit(Counted("adopted", 1))

    def worked(self, generation: Generation) -> None:
        """Count a piece of work; drop a server's text that differs from what the user typed."""
        self.pieces += 1
        if generation.waits and not generation.agrees(self.question.place):
            self._begin()

    def leave(self) -> Counts:
        """Stop serving it: drop the search for alternatives; returns its work."""
        alternatives, self._alternatives, self.served = self._alternatives, None, False
        return alternatives.counts if alternatives is not None else Counts()

    # Its time ---------------------------------------------------------------------------------------------------------

    def time(self, generation: Generation, budgets: Budgets, now: float) -> RequestTime:
        """Its time at the moment `now`."""
        allowed_ms, patience_ms = self._allowed_ms(budgets), self._patience_ms(budgets)
        limit_ms, answer_ms = max(allowed_ms, patience_ms), generation.answer_ms()
        past_ms = now + answer_ms - self.asked_ms
        return RequestTime(allowed_ms - answer_ms, allowed_ms - past_ms, limit_ms - past_ms, limit_ms)

    def _allowed_ms(self, budgets: Budgets) -> float:
        """Its budget, from `asked_ms`."""
        if self._waited_for_model:
            return max(budgets.invoked_ms, budgets.automatic_ms)
        if self.question.again:
            return self._patience_ms(budgets)
        return budgets.invoked_ms if self.question.request.invoked else budgets.automatic_ms

    def _patience_ms(self, budgets: Budgets) -> float:
        """How long it waits while there is nothing to show; longer by key, unless the settings limit the time."""
        if not self.question.request.invoked:
            return budgets.automatic_ms
        return budgets.invoked_ms if self.question.policy.invoked_ms else max(budgets.invoked_ms, MOST_MS)

    def _tries(self, time: RequestTime) -> bool:
        """Whether a piece runs even where it seems not to fit."""
        return self.pieces < _TRIED and 2 * time.room_ms > time.budget_ms

    def _work_late(self, generation: Generation, time: RequestTime) -> bool:
        """Do a piece of work that seems not to fit, or that the user waits for; returns False for neither."""
        if self._tries(time):
            self.pieces += generation.work(time.room_ms, in_any_case=True)
            return True
        if generation.work(time.longer_ms):
            self.worked(generation)
            return True
        return False

    def new_lines(self, generation: Generation) -> str:
        """The lines of a raw answer so far, if there are more of them than at the last call; else ""."""
        lines = generation.settled()
        if len(lines) <= self._settled:
            return ""
        self._settled = len(lines)
        return lines

    # Its answer -------------------------------------------------------------------------------------------------------

    def finished(self, generation: Generation, room_ms: float) -> Answer | None:
        """The answer of a finished generation; None if more work is needed, for example for alternatives."""
        if not generation.agrees(self.question.place):  # post-processing differs from what the user typed
            self._begin()
            return None
        if self._look_further(generation, room_ms):
            return None
        return self._answer(generation, self._candidates(generation), generation.finish)

    def early(self, generation: Generation, time: RequestTime) -> Answer | None:
        """The answer before the generation ends: its rest would be held back, or an overdue request began it."""
        if generation.finished:
            return None
        if generation.is_unsure(self.question):
            return self._answer(generation, Suggestion(self.question.place, ""), "stop", reasons.unsure())
        if self._is_overdue(generation, time):
            return self._beginning(generation)
        return self._beginning(generation, "stop") if generation.is_enough(self.question) else None

    def out_of_time(self, generation: Generation, time: RequestTime) -> Answer | None:
        """The answer where no piece fits any more; None if one was worth doing all the same."""
        if (answer := self._beginning(generation)) is not None or self._work_late(generation, time):
            return answer
        return self._too_slow(generation, time)

    def before_others(self, generation: Generation, time: RequestTime) -> Answer | None:
        """The answer if the deadline passes before the next piece, whose time is `time`; else None."""
        if generation.finished:
            done = self.question.candidates < 2 and generation.agrees(self.question.place)
            return self.finished(generation, 0.0) if done else None
        fits = generation.fits(time.room_ms)
        if fits and not self._is_overdue(generation, time):
            return None
        if (answer := self._beginning(generation)) is not None or fits or self._tries(time):
            return answer
        return None if generation.fits(time.longer_ms) else self._too_slow(generation, time)

    def _beginning(self, generation: Generation, finish: str = "budget") -> Answer | None:
        """The useful beginning of an unfinished generation; None where there is none. `finish`: why it ends."""
        begun_ms = self._clock()
        with self.spans.measure("post"):
            beginning = generation.enough(self.question) if finish == "stop" else generation.useful()
        generation.answered(self._clock() - begun_ms)
        if beginning.rest(self.question.place) is None:
            return None
        self._current.emit(Counted("budgeted", 1 if finish == "budget" else 0))
        return self._answer(generation, beginning, finish)

    def _too_slow(self, generation: Generation, time: RequestTime) -> Answer:
        """The empty answer: there is nothing to show, and no time left."""
        self._current.emit(Counted("budgeted_empty", 1))
        over_ms = max(self._clock() - self.asked_ms - time.limit_ms, 0.0)
        too_slow = generation.why_slow(time.limit_ms, over_ms, invoked=self.question.request.invoked)
        return self._answer(generation, Suggestion(self.question.place, ""), "budget", too_slow)

    def _begin(self, *, whole: bool = False) -> None:
        self._adopted, self._before = False, Counts()
        self._current.begin(self.question, self.asked_ms, self.spans, whole=whole)

    def _can_branch(self, generation: Generation) -> bool:
        return generation.place == self.question.place and generation.can_branch()

    def _is_overdue(self, generation: Generation, time: RequestTime) -> bool:
        over_ms = self.asked_ms - generation.begun_ms - time.room_ms
        return self._adopted and not generation.finished and over_ms >= 0

    def _look_further(self, generation: Generation, room_ms: float) -> bool:
        if self.question.candidates < 2 or generation.made().others is not None:
            return False
        if self._alternatives is None:
            assert isinstance(generation, LocalGeneration), "a server's alternatives come with its text"
            self._current.made(generation.made())
            self._alternatives = Alternatives(generation, self.question.candidates)
        alternatives = self._alternatives
        if not alternatives.finished and not alternatives.work(room_ms):
            alternatives.close()
        return not alternatives.finished

    def _candidates(self, generation: Generation) -> Suggestion:
        made = generation.made()
        if self._alternatives is not None:
            made = replace(made, others=tuple(self._alternatives.found[1:]))
        if made.others is not None:
            for other in reversed(made.others):
                self._current.made(other)
            self._current.emit(Counted("alternatives", len(made.others)))
        return made

    def _answer(
        self, generation: Generation, suggestion: Suggestion, finish: str, reason: Reason | None = None
    ) -> Answer:
        """The answer to the question from `suggestion`; `reason`: why it is empty, if not the generation's."""
        question = self.question
        candidates = (suggestion, *(suggestion.others or ()))
        rests = [rest for one in candidates if (rest := one.rest(question.place)) is not None]
        held = not question.request.invoked and bool(rests) and rests[0].is_unsure(question.policy.quiet.limits)
        rests = [] if held else rests
        info = generation.info
        answer = Answer(
            "shown" if rests else "empty",
            tuple(rests),
            finish,
            reason=None if rests else reasons.unsure() if held else reason or generation.why_nothing(),
            counts=generation.counts() - self._before,
            ms=self.spans.close(),
            model=info.model,
            engine=info.name,
            trace=generation.trace(),
            context=generation.context,
        )
        self._current.count()
        if not held:
            self._current.made(suggestion)
        return answer
