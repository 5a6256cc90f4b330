"""What of a document is sent: the lines around the cursor, none that looks like a secret.

Owns how much that is. A server that is given a prompt gets whole lines, from a beginning that does not move with each
key, so that what it has computed of one serves the next. This program's own server cleans what the model says, and sees
for that as far as a front does: by less it would take brackets for open that close further down.
"""

import re
from dataclasses import dataclass, replace
from pathlib import PurePath

from fastcoder_lsp.completion.question import Question
from fastcoder_lsp.decode.stop import LineRule, stop_rule
from fastcoder_lsp.postprocess.text_around import FAR
from fastcoder_lsp.workspace.secret_lines import in_secret, spans_lines, without_secrets

BEFORE = 8_000
"""Characters before the cursor, at most."""
AFTER = 3_000
"""Characters after it, at most."""
REACH = FAR + 1
"""The same on both sides for this program's own server: one more than is read tells that there is more."""
_MOVES = 2_000
"""By so much at a time the beginning moves."""
_REMEMBERED = 20_000
_LINE, _BLOCK = 4_000, 16_000
"""Characters of a line on either side of where it is cut, and of what may be a private key's block before it."""
_KEY_ENDS = "-----END "
_CURSOR = "\0"
"""Put where it stands, to see whether its line is left out."""
_HALVES = re.compile("[\ud800-\udfff]")
"""Of characters, which no UTF-8 can say: an edit may have parted them."""
_MARK = re.compile(
    r"<(?=[|｜][^|｜<>\s]{1,40}[|｜]>|fim-\w{1,40}>|(?:fim|file|repo|gh|issue|jupyter|commit|empty|pr)_\w{1,40}>"
    r"|filename>|reponame>|/?s>|unk>|pad>|/?(?:PRE|SUF|MID|EOT)>)"
)
"""What the families of models have as control tokens (`prompt.templates`, their tokenizers' special tokens)."""


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
        one_line: whether the answer ends with the cursor's line, which a server may as well know: a connection that was
            hung up on at the end of a line has to be made anew.
    """

    before: str
    after: str
    pieces: tuple[Piece, ...]
    name: str
    language: str
    max_tokens: int
    one_line: bool = False

    def unmarked(self) -> "Excerpt":
        """The same for a server that may take marks in a text for marks of the prompt: a blank stands in each."""
        return replace(
            self,
            before=_unmarked(self.before),
            after=_unmarked(self.after),
            pieces=tuple(Piece(_unmarked(piece.name), _unmarked(piece.text)) for piece in self.pieces),
            name=_unmarked(self.name),
        )


class Excerpts:
    """Takes them, and remembers of the last lines whether they look like secrets."""

    def __init__(self) -> None:
        self._judged: dict[tuple[str, str], bool] = {}

    def take(self, question: Question, pieces: tuple[Piece, ...], max_tokens: int, *, far: bool = False) -> Excerpt:
        """What `question` sends, with these `pieces` of other files; `far`: to this program's own server."""
        snapshot, place = question.request.snapshot, question.place
        above = "".join(text.rstrip("\n") + "\n\n" for text in snapshot.neighbours)
        all_before, all_after, language = above + place.before, place.after, snapshot.language
        before, after = (all_before[-REACH:], all_after[:REACH]) if far else (_last(all_before), _first(all_after))
        cut, end = len(all_before) - len(before), len(after)
        lines, newline, left = before.rpartition("\n")
        lines = _from_a_cut(all_before[max(0, cut - _BLOCK) : cut], lines, language)
        right, newline_right, below = after.partition("\n")
        below = _to_a_cut(below, all_after[end : end + _LINE], language)
        if right and not self._without_secrets(left + right, language):
            right = ""
        return Excerpt(
            _whole(self._without_secrets(lines, language) + newline + left),
            _whole(right + newline_right + self._without_secrets(below, language)),
            tuple(Piece(_whole(piece.name), _whole(piece.text)) for piece in pieces),
            _whole(PurePath(snapshot.path).name) if snapshot.path is not None else "",
            language,
            max_tokens,
            isinstance(stop_rule(place.before, place.after, language), LineRule),
        )

    def _without_secrets(self, text: str, language: str) -> str:
        """`workspace.secret_lines.without_secrets`, which judges each line by itself where no secret spans several."""
        if spans_lines(text):
            return without_secrets(text, language)
        if len(self._judged) > _REMEMBERED:
            self._judged.clear()
        return "\n".join(line for line in text.split("\n") if self._may_go(line, language))

    def _may_go(self, line: str, language: str) -> bool:
        key = line, language
        judged = self._judged.get(key)
        if judged is None:
            judged = self._judged[key] = not line or bool(without_secrets(line, language))
        return judged


def stays_here(question: Question) -> bool:
    """Whether nothing is asked: a secret stands left of the cursor, and would go along with its line.

    It may have begun in a line above.
    """
    if question.policy.in_secrets:
        return False
    before, language = question.place.before, question.request.snapshot.language
    left = before[before.rfind("\n") + 1 :][-_LINE:]
    if in_secret(before, language) or (left and not without_secrets(left, language)):
        return True
    near = f"{before[-_BLOCK:]}{_CURSOR}"
    return spans_lines(near) and not without_secrets(near, language).endswith(_CURSOR)


def window(text: str, offset: int) -> tuple[int, int]:
    """What of `text` is sent for a cursor at `offset`, characters from…to."""
    return offset - len(_last(text[:offset])), min(len(text), offset + AFTER)


def _from_a_cut(gone: str, lines: str, language: str) -> str:
    """`lines` without the rest of a secret that begins in what is `gone` before: of a line, or of a private key."""
    if not gone:
        return lines
    line, _, rest = lines.partition("\n")
    head = gone[gone.rfind("\n") + 1 :][-_LINE:]
    # Where nothing stands left of the cursor, that is a secret only within a key.
    if in_secret(f"{gone}{line}\n", ""):
        return lines.partition(_KEY_ENDS)[2].partition("\n")[2]
    return rest if head and not without_secrets(head + line[:_LINE], language) else lines


def _to_a_cut(lines: str, gone: str, language: str) -> str:
    """`lines` without the beginning of a line that looks like a secret together with what is `gone` of it."""
    above, newline, line = lines.rpartition("\n")
    tail = gone.partition("\n")[0]
    return above + newline if tail and not without_secrets(line[-_LINE:] + tail, language) else lines


def _unmarked(text: str) -> str:
    return _MARK.sub("< ", text)


def _whole(text: str) -> str:
    """`text` without halves of characters; as long."""
    return _HALVES.sub("\ufffd", text)


def _first(after: str) -> str:
    """The beginning of `after`, up to the end of a line where possible."""
    near = after[:AFTER]
    return near[: near.rindex("\n") + 1] if len(near) < len(after) and "\n" in near else near


def _last(before: str) -> str:
    """The end of `before`, from the start of a line where possible."""
    too_many = len(before) - BEFORE
    if too_many <= 0:
        return before
    at = -(-too_many // _MOVES) * _MOVES
    line = before.find("\n", at, at + _MOVES) + 1
    return before[line or at :]
