"""What of a document is sent: whole lines around the cursor, none that looks like a secret.

Owns how much that is, and where it begins: not at another character with each key, so that a server which keeps what it
has computed of a prompt need not begin anew.
"""

from collections import OrderedDict
from dataclasses import dataclass
from pathlib import PurePath

from fastcoder_lsp.completion.question import Question
from fastcoder_lsp.workspace.secret_lines import without_secrets

BEFORE = 8_000
"""Characters before the cursor, at most."""
AFTER = 3_000
"""Characters after it, at most."""
_MOVES = 2_000
"""By so much at a time the beginning moves."""
_REMEMBERED = 8


@dataclass(frozen=True, slots=True)
class Piece:
    """Code of another file: its name within the workspace, and whole lines of it."""

    name: str
    text: str


@dataclass(frozen=True, slots=True)
class Excerpt:
    """All that a question sends of the user's.

    Attributes:
        before: the text before the cursor.
        after: the text after it.
        pieces: code of other files, the best last.
        name: the file's, without folders; "" where it has none.
        language: its LSP language id.
        max_tokens: the longest answer.
    """

    before: str
    after: str
    pieces: tuple[Piece, ...]
    name: str
    language: str
    max_tokens: int


class Excerpts:
    """Takes them, and remembers of the last ones which lines are left out."""

    def __init__(self) -> None:
        self._clean: OrderedDict[tuple[str, str], str] = OrderedDict()

    def take(self, question: Question, pieces: tuple[Piece, ...], max_tokens: int) -> Excerpt:
        """What `question` sends, with these `pieces` of other files."""
        snapshot, place = question.request.snapshot, question.place
        above = "".join(text.rstrip("\n") + "\n\n" for text in snapshot.neighbours)
        before, after = _last(above + place.before), place.after[:AFTER]
        if len(after) < len(place.after) and "\n" in after:
            after = after[: after.rindex("\n") + 1]
        lines, newline, left = before.rpartition("\n")
        right, newline_right, below = after.partition("\n")
        if right and not self._without_secrets(left + right, snapshot.language):
            right = ""
        return Excerpt(
            self._without_secrets(lines, snapshot.language) + newline + left,
            right + newline_right + self._without_secrets(below, snapshot.language),
            pieces,
            PurePath(snapshot.path).name if snapshot.path is not None else "",
            snapshot.language,
            max_tokens,
        )

    def _without_secrets(self, text: str, language: str) -> str:
        key = text, language
        clean = self._clean.get(key)
        if clean is None:
            clean = self._clean[key] = without_secrets(text, language)
            if len(self._clean) > _REMEMBERED:
                self._clean.popitem(last=False)
        else:
            self._clean.move_to_end(key)
        return clean


def window(text: str, offset: int) -> tuple[int, int]:
    """What of `text` is sent for a cursor at `offset`, characters from…to."""
    return offset - len(_last(text[:offset])), min(len(text), offset + AFTER)


def _last(before: str) -> str:
    """The end of `before`, from the start of a line where possible."""
    too_many = len(before) - BEFORE
    if too_many <= 0:
        return before
    at = -(-too_many // _MOVES) * _MOVES
    line = before.find("\n", at, at + _MOVES) + 1
    return before[line or at :]
