"""A drafter that fails costs speed, never an answer.

Its first failure is logged, then it drafts no more in this decode.
"""

import logging
from collections.abc import Callable, Mapping
from typing import TypeVar

from fastcoder_lsp.core import NO_DRAFT, CacheLost, Draft, DraftContext, Drafter, DraftTree, Verified

logger = logging.getLogger(__name__)
Answer = TypeVar("Answer")


class GuardedDrafter:
    """A drafter behind a guard; the same interface, and nothing that it raises gets through."""

    def __init__(self, drafter: Drafter) -> None:
        self.name, self.traits = drafter.name, drafter.traits
        self._drafter = drafter
        self._failed = False

    def begin(self, context: DraftContext) -> None:
        """A new decode starts, which gives a failed drafter another chance."""
        self._failed = False
        self._ask(lambda: self._drafter.begin(context), None)

    def propose(self, context: DraftContext, nodes: int) -> Draft:
        """The drafter's guesses; none where there is no room for any, or it has failed in this decode."""
        if self._failed or nodes < 1:
            return NO_DRAFT
        return self._ask(lambda: self._drafter.propose(context, nodes), NO_DRAFT)

    def observe(self, tree: DraftTree, verified: Verified) -> None:
        """Tell the drafter what became of the last tree, unless it has failed in this decode."""
        if not self._failed:
            self._ask(lambda: self._drafter.observe(tree, verified), None)

    def forget(self, document: str) -> None:
        """The document is closed; a failed drafter is told too."""
        self._ask(lambda: self._drafter.forget(document), None)

    def rename(self, old: str, new: str) -> None:
        """The document has another URI; a failed drafter is told too."""
        self._ask(lambda: self._drafter.rename(old, new), None)

    def keep(self) -> None:
        """Have the drafter write what it learnt to the disk."""
        self._ask(self._drafter.keep, None)

    def warm_up(self) -> None:
        """Have the drafter compile what only some texts lead to."""
        self._ask(self._drafter.warm_up, None)

    def figures(self) -> Mapping[str, float]:
        """What the drafter has counted of its own work."""
        return self._ask(self._drafter.figures, {})

    def _ask(self, question: Callable[[], Answer], otherwise: Answer) -> Answer:
        """The drafter's answer; `otherwise` where it raises."""
        try:
            return question()
        except CacheLost:  # it reads what the next prefill makes anew: nothing is wrong with it
            return otherwise
        except Exception:  # a guess must not cost an answer
            self._failed = True
            logger.exception("drafter %s failed; decoding continues without drafts", self.name)
            return otherwise
