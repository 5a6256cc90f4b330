"""What most drafters do alike: a drafter derives from this and says what it does otherwise.

Owns the parts of `core.Drafter` that are the same for nearly all: who it is, and that what it remembers goes by
document. Compiles nothing.
"""

from collections.abc import Mapping
from typing import Any

from fastcoder_lsp.core import Draft, DraftContext, DrafterTraits, DraftTree, StepCosts, Verified
from fastcoder_lsp.documents import PerDocument
from fastcoder_lsp.draft.pricing import Forecast
from fastcoder_lsp.draft.specification import Specification


class BaseDrafter:
    """A drafter with a name and traits that learns nothing, and whose memory, where it has one, goes by document.

    Args:
        specification: the name and traits that it has until it is given others.
        memory: what it remembers of each document; None: nothing outlives a decode.
    """

    def __init__(self, specification: Specification[Any], memory: PerDocument[Any] | None = None) -> None:
        self.name: str = specification.name
        self.traits: DrafterTraits = specification.traits
        self._memory = memory

    def begin(self, context: DraftContext) -> None:
        """A new decode starts: by default there is nothing to prepare."""

    def propose(self, context: DraftContext, nodes: int) -> Draft:
        """At most `nodes` guesses below the last token of `context`: each drafter's own."""
        raise NotImplementedError

    def observe(self, tree: DraftTree, verified: Verified) -> None:
        """What became of the last tree: by default nothing is learnt of it, for the next context tells enough."""

    def forget(self, document: str) -> None:
        """The document is closed: drop what is remembered of it."""
        if self._memory is not None:
            self._memory.forget(document)

    def rename(self, old: str, new: str) -> None:
        """The document has another URI: what is remembered of it follows."""
        if self._memory is not None:
            self._memory.rename(old, new)

    def keep(self) -> None:
        """Write what was learnt to the disk: by default nothing is kept there."""

    def warm_up(self) -> None:
        """Have compiled what `begin`, `propose` and `observe` do not always run: by default there is nothing more."""

    def forecast(self, costs: StepCosts | None) -> Forecast | None:  # noqa: ARG002 the interface
        """What a draft takes and brings, before one was asked for; by default nobody knows.

        Args:
            costs: of the steps of the engine that verifies; None: nobody timed them.
        """
        return None

    def figures(self) -> Mapping[str, float]:
        """What it has counted of its own work, for reports: by default nothing."""
        return {}
