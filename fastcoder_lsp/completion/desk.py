"""Where requests are taken in, wait, and are answered: one slot, the latest request wins, each is answered once.

Owns the futures, and the lock over all that callers and the worker share. It never blocks a caller and never computes.
"""

import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, InvalidStateError
from dataclasses import dataclass, field

from fastcoder_lsp.completion.place import Place, nothing
from fastcoder_lsp.completion.policy import Policy
from fastcoder_lsp.completion.reuse import Recalled, SuggestionMemory
from fastcoder_lsp.completion.tally import Tally
from fastcoder_lsp.completion.task import Clock, Work
from fastcoder_lsp.completion.unfit import Rejections, Rule, in_secret, in_word
from fastcoder_lsp.core import Completion, CompletionRequest
from fastcoder_lsp.observe import Spans


@dataclass(slots=True, eq=False)
class Job:
    """A question, and everybody who asked it.

    `asked_ms`: when, by the desk's clock. The rest is the worker's: `adopted`, whether another question's work goes on
    for it; `before`, what had been done of that.
    """

    request: CompletionRequest
    place: Place
    policy: Policy
    asked_ms: float
    futures: "list[Future[Completion]]"
    spans: Spans = field(default_factory=Spans)
    adopted: bool = False
    before: Work = field(default_factory=Work)

    def wanted(self) -> bool:
        """Whether anybody still waits for the answer."""
        return not all(future.done() for future in self.futures)

    @property
    def alternatives(self) -> int:
        """So many candidates are wanted."""
        return self.policy.alternatives if self.request.invoked else 1


class Desk:
    """The slot, the chores, what was suggested of late, and the counts. Its methods are called with `changed` held."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.changed = threading.Condition()
        self.memory = SuggestionMemory()
        self.rejections = Rejections()
        self.tally = Tally()
        self.closing = False
        self.asked_ms = clock()
        """When somebody asked last."""
        self._job: Job | None = None
        self._upcoming: Job | None = None
        self._chores: deque[Callable[[], None]] = deque()

    def put(self, job: Job) -> None:
        """The newest question; whoever waits for an older one is answered."""
        self.supersede()
        self._job, self._upcoming = job, None
        self.changed.notify_all()

    def supersede(self) -> None:
        """Answer whoever waits, with nothing."""
        if self._job is not None:
            self.tally.count("superseded", self._answer(self._job, nothing(self._job.request, "superseded")))
            self._job = None

    def unfit(self, job: Job) -> Rule | None:
        """The rule by which nothing is to be suggested, if there is one. Who asks by a key gets all but secrets."""
        document, place, policy = job.request.snapshot.uri, job.place, job.policy
        if not policy.in_secrets and in_secret(place, job.request.snapshot.language):
            return "secret"
        if job.request.invoked:
            self.rejections.taken()
            return None
        self.rejections.asked(document, place, job.asked_ms)
        if not policy.in_words and job.request.selected is None and in_word(place):
            return "middle_of_word"
        return "rejections" if self.rejections.too_many(document, place, policy.rejections) else None

    def recall(self, job: Job) -> tuple[Recalled, ...]:
        """What is known to go on at the question's place, without the model; empty where the model is to be asked."""
        uri, place = job.request.snapshot.uri, job.place
        if job.alternatives > 1:
            return self.memory.recall_all(uri, place.before, place.after)
        recalled = self.memory.recall(uri, place.before, place.after)
        return () if recalled is None else (recalled,)

    def sharing(self, request: CompletionRequest) -> Job | None:
        """The question that waits, if it is the same one: a popup and ghost text at one place."""
        job = self.wanted()
        return job if job is not None and _same(job.request, request) else None

    def wanted(self) -> Job | None:
        """The question whose answer somebody waits for."""
        return self._job if self._job is not None and self._job.wanted() else None

    def answer(self, job: Job, completion: Completion, outcome: str) -> int:
        """Answer a question, and count it by its outcome; how many were told."""
        told = self._answer(job, completion)
        self.tally.count(outcome, told)
        self.saw(job, completion)
        if self._job is job:
            self._job = None
        return told

    def saw(self, job: Job, completion: Completion) -> None:
        """This is shown now, where it is anything."""
        if completion.text and not job.request.invoked and job.request.selected is None:
            self.rejections.shown(job.request.snapshot.uri, job.place, completion.text)

    def leave(self, chore: Callable[[], None]) -> None:
        """Something for the worker's thread, which alone touches the model."""
        self._chores.append(chore)
        self.changed.notify_all()

    def chore(self) -> Callable[[], None] | None:
        """The next thing left for the worker."""
        return self._chores.popleft() if self._chores else None

    def expect(self, job: Job) -> None:
        """What will be asked next, as it seems."""
        self._upcoming = job
        self.changed.notify_all()

    def upcoming(self) -> Job | None:
        """What will be asked next, if that is new."""
        upcoming, self._upcoming = self._upcoming, None
        return upcoming

    def busy(self) -> bool:
        """Whether there is anything for the worker."""
        return bool(self._chores) or self._upcoming is not None or self.wanted() is not None

    @staticmethod
    def _answer(job: Job, completion: Completion) -> int:
        return sum(answer(future, completion) for future in job.futures)


def answer(future: "Future[Completion]", completion: Completion) -> bool:
    """Give the answer unless there is one already, or nobody wants it."""
    try:
        future.set_result(completion)
    except InvalidStateError:
        return False
    return True


def _same(left: CompletionRequest, right: CompletionRequest) -> bool:
    """Whether two requests ask the same thing."""
    a, b = left.snapshot, right.snapshot
    same_text = a.uri == b.uri and a.version == b.version and a.text == b.text
    return same_text and (left.offset, left.selected, left.invoked) == (right.offset, right.selected, right.invoked)
