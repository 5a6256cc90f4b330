"""How much of a document the model sees, and when the prompt's anchor moves."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class PromptOptions:
    """Budgets in tokens, all inside `limit`; what they leave is for the typed part and the control tokens.

    Attributes:
        limit: the longest prompt, context included.
        prefix_share: share of what the context leaves for the text before the anchor.
        refill_share: share of the prefix budget that a new window fills, so that it can grow before it must move.
        suffix_share: the same for the text after the cursor.
        context_tokens: budget for snippets of other files.
        context_later: whether a document's first prompt for who types on goes without them.
        lines_above: lines above the cursor's that a new anchor leaves after the middle mark.
        typed_lines, typed_tokens: the anchor moves once more than this stands after the middle mark.
        anchored: False for the plain order, the whole text before the cursor in the prefix part.
        documents: for how many documents an anchor is remembered.
    """

    limit: int = 1400
    prefix_share: float = 0.56
    refill_share: float = 0.75
    suffix_share: float = 0.20
    context_tokens: int = 0
    context_later: bool = False
    lines_above: int = 8
    typed_lines: int = 24
    typed_tokens: int = 320
    anchored: bool = True
    documents: int = 32

    @property
    def prefix_tokens(self) -> int:
        """The budget of the text before the anchor."""
        return max(1, int((self.limit - self.context_tokens) * self.prefix_share))

    @property
    def suffix_tokens(self) -> int:
        """The budget of the text after the cursor."""
        return max(0, int((self.limit - self.context_tokens) * self.suffix_share))
