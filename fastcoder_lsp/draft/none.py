"""No drafts: plain decoding, the baseline that every other drafter is compared with."""

from fastcoder_lsp.core import NO_DRAFT, Draft, DraftContext, DraftTree, Verified


class NoDrafter:
    """Never guesses."""

    name = "none"
    top_k = 0

    def begin(self, context: DraftContext) -> None:
        """Nothing to prepare."""

    def propose(self, context: DraftContext, nodes: int) -> Draft:  # noqa: ARG002 - the interface
        """No guess."""
        return NO_DRAFT

    def observe(self, tree: DraftTree, verified: Verified) -> None:
        """Nothing to learn."""

    def forget(self, document: str) -> None:
        """Nothing to drop."""

    def rename(self, old: str, new: str) -> None:
        """Nothing to carry over."""
