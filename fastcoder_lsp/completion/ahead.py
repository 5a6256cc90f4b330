"""What is done while nobody waits: finishing what was begun, preparing what will probably be asked.

Owns its order and how much of it there is: so many milliseconds of work after a request, and none long after it. Runs
in the service's worker, one piece at a time, and whoever asks comes first.
"""

import math

from fastcoder_lsp.completion.budget import Budgets
from fastcoder_lsp.completion.composer import Composer
from fastcoder_lsp.completion.desk import Desk, Job
from fastcoder_lsp.completion.host import Host
from fastcoder_lsp.completion.preparation import Preparation
from fastcoder_lsp.core import CompletionRequest
from fastcoder_lsp.observe import Spans

REST_MS = 9000.0
"""So long after the last request nothing is begun any more: by ten seconds all is quiet."""


class Leisure:
    """The work that nobody waits for.

    Args:
        desk: says when somebody asked last.
        host: the model.
        composer: what it was saying when it was last wanted.
        idle_ms: after so long without a request the document in view is prepared for the next one.
    """

    def __init__(self, desk: Desk, host: Host, composer: Composer, idle_ms: float) -> None:
        self._desk, self._host, self._composer, self._idle_ms = desk, host, composer, idle_ms
        self._left_ms = 0.0
        self._unprepared: CompletionRequest | None = None
        self._preparation: Preparation | None = None

    def grant(self, job: Job, budgets: Budgets) -> None:
        """A question was asked: so much work may follow its answer."""
        self._left_ms, self._preparation = budgets.background_ms, None
        self._unprepared = job.request if job.policy.ahead else None

    def advance(self) -> float:
        """The next piece; returns 0, or for how many milliseconds there will be nothing to do."""
        now = self._desk.clock()
        with self._desk.changed:
            asked_ms = self._desk.asked_ms
        room = min(self._left_ms, asked_ms + REST_MS - now)
        if room <= 0 or self._host.runtime is None:
            return math.inf
        task = self._composer.task
        if task is not None and not task.finished:
            self._finish(room)
        elif self._unprepared is None:
            return math.inf
        elif (wait := asked_ms + self._idle_ms - now) > 0:
            return wait
        else:
            self._prepare(self._unprepared, room)
        self._left_ms -= self._desk.clock() - now
        return 0.0

    def foresee(self, job: Job) -> None:
        """A suggestion was taken whole: make the one that follows it, which nobody has asked for."""
        runtime, uri, place = self._host.runtime, job.request.snapshot.uri, job.place
        if runtime is None:
            return
        self.grant(job, Budgets.of(job.policy, runtime.costs))
        with self._desk.changed:
            known = self._desk.memory.recall(uri, place.before, place.after)
        if known is None and self._composer.serving(uri, place) is None:
            self._composer.begin(job.request, job.asked_ms, Spans(), ahead=True)

    def forget(self, uri: str | None = None) -> None:
        """A document was closed, or all is over."""
        if self._unprepared is not None and uri in {None, self._unprepared.snapshot.uri}:
            self._unprepared = self._preparation = None

    def _finish(self, room_ms: float) -> None:
        composer = self._composer
        if not composer.advance(room_ms):
            self._left_ms = 0.0
            return
        task = composer.task
        if task is not None and task.finished:
            composer.count()
            composer.remember(task.made())
            with self._desk.changed:
                self._desk.tally.count("ahead" if composer.ahead else "background")

    def _prepare(self, request: CompletionRequest, room_ms: float) -> None:
        """The user paused: move the prompt's anchor here, and bring the KV cache up to date."""
        runtime, pace = self._host.runtime, self._host.pace
        assert runtime is not None
        assert pace is not None
        if self._preparation is None:
            prompt = runtime.prompts.settle(request.snapshot, request.offset)
            self._preparation = Preparation(runtime.engine, pace, self._desk.clock, prompt.tokens[:-1])
        preparation = self._preparation
        if not preparation.advance(room_ms) or preparation.finished:
            with self._desk.changed:
                self._desk.tally.count("ahead")
                self._desk.tally.count("prefilled", preparation.prefilled)
            self._unprepared = self._preparation = None
