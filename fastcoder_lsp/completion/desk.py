"""Where requests are taken in, wait, and are answered: one slot, the latest request wins, each is answered once.

Owns the futures, and the lock over all that callers and the worker share. It never blocks a caller and never computes.
"""

import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, InvalidStateError
from dataclasses import dataclass, field, replace

from fastcoder_lsp.completion import reasons
from fastcoder_lsp.completion.pace import Clock
from fastcoder_lsp.completion.place import Place, nothing
from fastcoder_lsp.completion.policy import Policy
from fastcoder_lsp.completion.reuse import Recalled, SuggestionMemory
from fastcoder_lsp.completion.shown import Shown
from fastcoder_lsp.completion.tally import Tally
from fastcoder_lsp.completion.task import Work
from fastcoder_lsp.completion.unfit import Rejections, Rule, in_word
from fastcoder_lsp.core import Completion, CompletionRequest, Late, Reason
from fastcoder_lsp.observe import Spans
from fastcoder_lsp.workspace.secret_lines import in_secret


@dataclass(slots=True, eq=False)
class Job:
    """A question, and everybody who asked it.

    `asked_ms`: when, by the desk's clock. `patient`: who asked has waited for the model to be loaded. The rest is the
    worker's: `adopted`, whether another question's work goes on for it; `before`, what had been done of that; `pieces`:
    how many pieces of work were done for it.
    """

    request: CompletionRequest
    place: Place
    policy: Policy
    asked_ms: float
    futures: "list[Future[Completion]]"
    spans: Spans = field(default_factory=Spans)
    patient: bool = False
    adopted: bool = False
    before: Work = field(default_factory=Work)
    pieces: int = 0

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
        self.last: Shown | None = None
        """The last question, once it is answered, and with what; None where nothing more is wanted for it."""
        self._job: Job | None = None
        self._upcoming: Job | None = None
        self._chores: deque[Callable[[], None]] = deque()

    def put(self, job: Job) -> None:
        """The newest question; whoever waits for an older one is answered before."""
        self._job, self._upcoming = job, None
        self.changed.notify_all()

    def supersede(self, reason: Reason) -> None:
        """Answer whoever waits, with nothing."""
        self.last = None
        if self._job is not None:
            told = self._answer(self._job, nothing(self._job.request, "superseded", reason))
            self.tally.count("superseded", told)
            self._job = None

    def unfit(self, job: Job) -> Rule | None:
        """The rule by which nothing is to be suggested, if there is one. Who asks by a key gets all but secrets."""
        document, place, policy = job.request.snapshot.uri, job.place, job.policy
        if not policy.in_secrets and in_secret(place.before, job.request.snapshot.language):
            return "secret"
        if job.request.invoked:
            self.rejections.taken()
            return None
        self.rejections.asked(document, place, job.asked_ms)
        if not policy.in_words and job.request.selected is None and in_word(place):
            return "middle_of_word"
        return "rejections" if self.rejections.too_many(document, place, policy.rejections) else None

    def recall(self, job: Job) -> tuple[Recalled, ...]:
        """What is known to go on at the question's place, without the model; empty where the model is to be asked.

        Who was just told that the text is there gets it, and is not made to wait for other candidates.
        """
        uri, place = job.request.snapshot.uri, job.place
        if job.alternatives > 1 and not (self.last is not None and self.last.told_of(uri, place)):
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

    def loaded(self) -> None:
        """The model is there: whoever waited for that has all the time of who asked by a key."""
        job, now = self._job, self.clock()
        if job is not None and job.asked_ms != now:
            job.asked_ms, job.patient = now, True

    def given_up(self) -> None:
        """Nobody waits any more for a question that the model was not there for: it is answered when it is made."""
        job = self._job
        if job is not None and not job.wanted():
            self.expect(job)
            self.last = Shown(job.request, job.place)

    def answer(self, job: Job, completion: Completion, outcome: str) -> None:
        """Answer a question, and count it by its outcome."""
        told = self._answer(job, completion)
        self.tally.count(outcome, told)
        if self._job is job:
            self._job = None
            if told and outcome != "failed":
                self.saw(job, completion)

    def saw(self, job: Job, completion: Completion) -> None:
        """This is shown now, where it is anything."""
        self.last = Shown.of(job.request, job.place, completion)
        if completion.text and not job.request.invoked and job.request.selected is None:
            self.rejections.shown(job.request.snapshot.uri, job.place, completion.text)

    def late(self) -> Late | None:
        """The place of the last question, if more is known to go on there by now than its answer showed."""
        last = self.last
        if last is None or self.wanted() is not None:
            return None
        known = self.memory.recall(last.request.snapshot.uri, last.place.before, last.place.after)
        if known is None or not last.grows_to(known.text):
            return None
        self.last = replace(last, text=known.text, told=True)
        return last.late()

    def closed(self, uri: str) -> None:
        """A document was closed: nothing is kept for it, and nobody waits for an answer in it."""
        self.memory.forget(uri)
        if self._job is not None and self._job.request.snapshot.uri == uri:
            self.supersede(reasons.changed())
        if self._upcoming is not None and self._upcoming.request.snapshot.uri == uri:
            self._upcoming = None
        if self.last is not None and self.last.request.snapshot.uri == uri:
            self.last = None

    def renamed(self, old: str, new: str) -> None:
        """A document has another name: whoever waits for an answer in it goes on waiting."""
        self.memory.rename(old, new)
        for job in (self._job, self._upcoming):
            if job is not None and job.request.snapshot.uri == old:
                job.request = replace(job.request, snapshot=replace(job.request.snapshot, uri=new))
        if self.last is not None and self.last.request.snapshot.uri == old:
            self.last = None

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
