"""Guards decoding against faulty drafters: a failure costs speed, never an answer.

The first failure is logged, and the drafter drafts no more in this decode.
"""

import logging
from collections.abc import Callable, Mapping
from typing import TypeVar

from fastcoder_lsp.core import NO_DRAFT, CacheLost, Draft, DraftContext, Drafter, DraftTree, Verified

logger = logging.getLogger(__name__)
Answer = TypeVar("Answer")


class GuardedDrafter:
    """A drafter that passes calls to another one and catches its exceptions."""

    def __init__(self, drafter: Drafter) -> None:
        self.name, self.traits = drafter.name, drafter.traits
        self._drafter = drafter
        self._failed = False

    def begin(self, context: DraftContext) -> None:
        """Begin a decode, which gives a failed drafter another chance."""
        self._failed = False
        self._ask(lambda: self._drafter.begin(context), None)

    def propose(self, context: DraftContext, nodes: int) -> Draft:
        """The drafter's guesses; none if there is no room, or if it has failed in this decode."""
        if self._failed or nodes < 1:
            return NO_DRAFT
        return self._ask(lambda: self._drafter.propose(context, nodes), NO_DRAFT)

    def observe(self, tree: DraftTree, verified: Verified) -> None:
        """Pass on the outcome of the last tree, unless the drafter has failed in this decode."""
        if not self._failed:
            self._ask(lambda: self._drafter.observe(tree, verified), None)

    def forget(self, document: str) -> None:
        """Pass on that the document is closed, to a failed drafter, too."""
        self._ask(lambda: self._drafter.forget(document), None)

    def rename(self, old: str, new: str) -> None:
        """Pass on the document's new URI, to a failed drafter, too."""
        self._ask(lambda: self._drafter.rename(old, new), None)

    def keep(self) -> None:
        """Let the drafter write what it learnt to the disk."""
        self._ask(self._drafter.keep, None)

    def warm_up(self) -> None:
        """Let the drafter compile code that only some texts need."""
        self._ask(self._drafter.warm_up, None)

    def figures(self) -> Mapping[str, float]:
        """The drafter's own counts."""
        return self._ask(self._drafter.figures, {})

    def _ask(self, question: Callable[[], Answer], otherwise: Answer) -> Answer:
        """The drafter's answer; `otherwise` if it raises."""
        try:
            return question()
        except CacheLost:  # not the drafter's fault: the next prefill restores the cache
            return otherwise
        except Exception:  # a draft must never cost an answer
            self._failed = True
            logger.exception("drafter %s failed; decoding continues without drafts", self.name)
            return otherwise
