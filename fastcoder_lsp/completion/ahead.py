"""What is done while nobody waits: finishing what was begun, preparing what will probably be asked.

Owns its order and how much of it there is: so many milliseconds of work after a request, and none long after it.
Whoever waits at a place for a suggestion that was not there in time is told when there is one. Runs in the service's
worker, one piece at a time, and whoever asks comes first.
"""

import logging
import math
from collections.abc import Callable

from fastcoder_lsp.completion.budget import Budgets
from fastcoder_lsp.completion.composer import Composer
from fastcoder_lsp.completion.desk import Desk, Job
from fastcoder_lsp.completion.host import Host, Loaded
from fastcoder_lsp.completion.preparation import Preparation
from fastcoder_lsp.completion.task import Task
from fastcoder_lsp.core import CompletionRequest, Late
from fastcoder_lsp.observe import Spans

logger = logging.getLogger(__name__)

MOST_MS = 8500.0
"""Of work after a request, whatever is allowed: ten seconds after it all is quiet…"""
OWED_MS = 30_000.0
"""…unless nothing was shown at the place yet and nobody has set another limit: the text is made for whoever waits."""
_CHARGED_MS = 1000.0
"""A piece of work that took longer was interrupted; it is not charged with what it did not use."""


class Leisure:
    """The work that nobody waits for.

    Args:
        desk: says when somebody asked last.
        host: the model.
        composer: what it was saying when it was last wanted.
        idle_ms: after so long without a request the document in view is prepared for the next one.
        on_late: told of what was made after its question had to be answered.
    """

    def __init__(
        self, desk: Desk, host: Host, composer: Composer, idle_ms: float, on_late: Callable[[Late], None]
    ) -> None:
        self._desk, self._host, self._composer, self._idle_ms = desk, host, composer, idle_ms
        self._on_late = on_late
        self._granted_ms = self._left_ms = self._owed_ms = 0.0
        self._unprepared: CompletionRequest | None = None
        self._preparation: Preparation | None = None

    def grant(self, job: Job, budgets: Budgets) -> None:
        """A question was asked: so much work may follow its answer."""
        self._granted_ms = self._left_ms = min(budgets.background_ms, MOST_MS)
        self._owed_ms = 0.0 if job.policy.background_ms else max(OWED_MS - self._left_ms, 0.0)
        self._unprepared, self._preparation = job.request if job.policy.ahead else None, None

    def advance(self) -> float:
        """The next piece; returns 0, or for how many milliseconds there will be nothing to do."""
        started, loaded = self._desk.clock(), self._host.loaded
        with self._desk.changed:
            asked_ms, last = self._desk.asked_ms, self._desk.last
        task = self._composer.task
        unfinished = task is not None and not task.finished
        owed = unfinished and last is not None and not last.text
        room = self._left_ms + (self._owed_ms if owed else 0.0)
        if room <= 0 or loaded is None:
            return math.inf
        if task is not None and unfinished:
            self._finish(task, room, owed=owed)
        elif self._unprepared is None:
            return math.inf
        elif (wait := asked_ms + self._idle_ms - started) > 0:
            return min(wait, self._idle_ms)  # a clock that jumped back makes it no longer
        else:
            self._prepare(self._unprepared, loaded, room)
        self._left_ms -= min(max(self._desk.clock() - started, 0.0), _CHARGED_MS)
        return 0.0

    def foresee(self, job: Job) -> None:
        """Make what nobody waits for yet, or any more: what follows a suggestion that was taken whole, for one."""
        loaded, uri, place = self._host.loaded, job.request.snapshot.uri, job.place
        if loaded is None:
            return
        self.grant(job, Budgets.of(job.policy, loaded.pace.costs))
        with self._desk.changed:
            known = self._desk.memory.recall(uri, place.before, place.after)
        if known is None and self._composer.serving(uri, place) is None:
            self._composer.begin(job.request, job.asked_ms, Spans(), ahead=True)

    def forget(self, uri: str | None = None) -> None:
        """A document was closed, or all is over."""
        if self._unprepared is not None and uri in {None, self._unprepared.snapshot.uri}:
            self._unprepared = self._preparation = None

    def _finish(self, task: Task, room_ms: float, *, owed: bool) -> None:
        """A piece of what was begun; what comes of it is told where somebody waits for it.

        As long as there is much time, one is done even where none seems to fit: else what was learnt of a stall would
        never be found wrong.
        """
        if not task.advance(room_ms, in_any_case=2 * room_ms > self._granted_ms):
            self._left_ms = -self._owed_ms
            return
        composer = self._composer
        made = task.useful() if owed or task.finished else None
        if task.finished:
            composer.count()
            with self._desk.changed:
                self._desk.tally.count("ahead" if composer.ahead else "background")
        if made is not None and made.text:
            composer.remember(made)
            self._tell_late()

    def _tell_late(self) -> None:
        with self._desk.changed:
            late = self._desk.late()
        if late is None:
            return
        try:
            self._on_late(late)
        except Exception:  # whoever listens must not stop the worker
            logger.exception("a listener for late suggestions failed")

    def _prepare(self, request: CompletionRequest, loaded: Loaded, room_ms: float) -> None:
        """The user paused: move the prompt's anchor here, and bring the KV cache up to date."""
        if self._preparation is None:
            prompt = loaded.runtime.prompts.settle(request.snapshot, request.offset)
            self._preparation = Preparation(loaded.runtime.engine, loaded.pace, self._desk.clock, prompt.tokens[:-1])
        preparation = self._preparation
        if not preparation.advance(room_ms) or preparation.finished:
            with self._desk.changed:
                self._desk.tally.count("ahead")
                self._desk.tally.count("prefilled", preparation.prefilled)
            self._unprepared = self._preparation = None
