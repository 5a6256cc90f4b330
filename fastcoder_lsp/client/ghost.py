"""Ghost text as values: what is shown at the cursor, what typing leaves of it, what accepting makes of the document.

Pure text; knows neither the server nor the screen.
"""

import re
from dataclasses import dataclass

from fastcoder_lsp.client.client import ReceivedSuggestion

# A word with the space before it, or a run of signs, or space alone: what editors take as one step of "accept word".
_WORD = re.compile(r"\s*(?:\w+|[^\w\s]+)|\s+")


@dataclass(frozen=True, slots=True)
class Ghost:
    """`text` (never empty) stands at the cursor; accepting replaces the next `replaces` characters of the document."""

    text: str
    replaces: int
    suggestion: ReceivedSuggestion

    def after_typing(self, typed: str) -> "Ghost | None":
        """What is left once the user typed `typed` at the cursor; None where that is something else, or all of it."""
        rest = self.text.removeprefix(typed)
        return Ghost(rest, self.replaces, self.suggestion) if rest and self.text.startswith(typed) else None

    def word(self) -> str:
        """The part that "accept word" takes."""
        match = _WORD.match(self.text)
        assert match is not None
        return match.group()

    def accept(self, text: str, cursor: int) -> tuple[str, int]:
        """The document and the cursor once all of it is accepted."""
        return text[:cursor] + self.text + text[cursor + self.replaces :], cursor + len(self.text)


def ghost_of(suggestion: ReceivedSuggestion | None, text: str, cursor: int) -> Ghost | None:
    """The ghost text for a suggestion; None where it cannot be shown at the cursor or would change nothing."""
    if suggestion is None or not suggestion.start <= cursor <= suggestion.end:
        return None
    typed = text[suggestion.start : cursor]
    if not suggestion.text.startswith(typed):
        return None
    rest, replaced = suggestion.text[len(typed) :], text[cursor : suggestion.end]
    return Ghost(rest, len(replaced), suggestion) if rest and rest != replaced else None
