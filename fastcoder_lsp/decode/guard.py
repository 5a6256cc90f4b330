"""A drafter that fails costs speed, never an answer.

Its first failure is logged, then it drafts no more in this decode.
"""

import logging

from fastcoder_lsp.core import NO_DRAFT, Draft, DraftContext, Drafter, DraftTree, Verified

logger = logging.getLogger(__name__)


class GuardedDrafter:
    """A drafter behind a guard; the same interface, and nothing that it raises gets through."""

    def __init__(self, drafter: Drafter) -> None:
        self.name = drafter.name
        self.top_k = drafter.top_k
        self.late = bool(getattr(drafter, "late", False))
        """Whether it may be told of a step while the next one is verified; few drafters say anything of it."""
        self._drafter = drafter
        self._failed = False

    def begin(self, context: DraftContext) -> None:
        """See `core.Drafter`; a new decode gives a failed drafter another chance."""
        self._failed = False
        try:
            self._drafter.begin(context)
        except Exception as failure:  # noqa: BLE001 - a guess must not cost an answer
            self._fail(failure)

    def propose(self, context: DraftContext, nodes: int) -> Draft:
        """See `core.Drafter`."""
        if self._failed or nodes < 1:
            return NO_DRAFT
        try:
            return self._drafter.propose(context, nodes)
        except Exception as failure:  # noqa: BLE001 - as above
            self._fail(failure)
            return NO_DRAFT

    def observe(self, tree: DraftTree, verified: Verified) -> None:
        """See `core.Drafter`."""
        if self._failed:
            return
        try:
            self._drafter.observe(tree, verified)
        except Exception as failure:  # noqa: BLE001 - as above
            self._fail(failure)

    def forget(self, document: str) -> None:
        """See `core.Drafter`."""
        try:
            self._drafter.forget(document)
        except Exception as failure:  # noqa: BLE001 - as above
            self._fail(failure)

    def rename(self, old: str, new: str) -> None:
        """See `core.Drafter`."""
        try:
            self._drafter.rename(old, new)
        except Exception as failure:  # noqa: BLE001 - as above
            self._fail(failure)

    def _fail(self, failure: Exception) -> None:
        self._failed = True
        logger.error("drafter %s failed; decoding goes on without drafts", self.name, exc_info=failure)
