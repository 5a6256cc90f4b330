"""The user's repeated change, made at other places of the document: next edits without a model.

A replacement of tokens that the user made in two changes, the last one among them, is proposed where the line is like
one of those that they changed; `bench edits --replay` measures how much must be alike. A renamed variable is proposed
only where it is the same variable, and all its places together where a part would leave a name without its binding; one
change is enough where scopes prove the rest (`edits/renames`). The work is bounded, since a client may send any text.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from fastcoder_lsp.core import Change
from fastcoder_lsp.edits.minimal import NEAR_LINES, line_hunks
from fastcoder_lsp.edits.names import ANYWHERE, FILE, ScopedVariable, SyntaxScopes, scopes_of
from fastcoder_lsp.edits.renames import (
    MOST_CHANGES,
    MOST_DIFFERENT,
    MOST_LINES,
    TOKEN,
    changed_lines,
    is_name,
    renamed,
)
from fastcoder_lsp.edits.syntax_tree import is_parsed, quoting
from fastcoder_lsp.edits.values import MOST_EDITS, Edit, EditAnswer, EditQuestion
from fastcoder_lsp.syntax import MARKUP

SOURCE, RENAME = "analogy", "rename"  # the sources of an `EditAnswer` with these edits
LIKENESS: Final = 5
"""Points that a place needs: one for each token beside the replacement that is also beside one of the user's."""
BARE_LIKENESS: Final = 7  # the same where no word is replaced: insertions, and changes of punctuation
_MOST_BESIDE: Final = 6  # tokens on a side that give points
_WHOLE_SIDE: Final = 2  # more points for a side of the line that is the same as a whole
_MOST_TEXT: Final = 1_000_000  # characters of a document
_MOST_PLACES: Final = 1_000  # occurrences of the old tokens that are looked at
_MOST_LINE: Final = 1_000  # characters on each side of a place that are compared
_DATA: Final = MARKUP | {"css", "dockerfile", "ini", "json", "jsonc", "less", "makefile", "scss", "sql", "toml", "yaml"}
"""Languages without variables."""
WORD: Final = re.compile(r"[^\W\d]\w")
_IDENTIFIER: Final = re.compile(r"(?<!\w)(?<!\.)[^\W\d]\w*")


class MadePlace(NamedTuple):
    """A place of a replacement in line `line` of `path` as it is now, with the line's tokens on both sides."""

    change: int
    path: str
    line: int
    left: tuple[str, ...]
    right: tuple[str, ...]

    def likeness(self, left: Sequence[str], right: Sequence[str]) -> int:
        """How like the line of another place is, whose tokens are `left` and `right`."""
        return _alike(self.left[::-1], left[::-1]) + _alike(self.right, right)


@dataclass(frozen=True, slots=True)
class RepeatedChange:
    """The tokens `old` became `new` at `examples`."""

    old: str
    new: str
    examples: tuple[MadePlace, ...]


def analogous(question: EditQuestion) -> tuple[Edit, ...]:
    """The edits of `without_model`."""
    return without_model(question).edits


def without_model(question: EditQuestion) -> EditAnswer:
    """The rest of a rename, or the user's repeated changes near the cursor; empty where no place is certain enough."""
    if len(question.text) > _MOST_TEXT:
        return EditAnswer()
    if rest := renamed(question):
        return EditAnswer(rest, source=RENAME)
    return EditAnswer(_near(question), source=SOURCE)


def _near(question: EditQuestion) -> tuple[Edit, ...]:
    found = [group for one in repeated(question.history) for group in places(question, one)]
    if not found:
        return ()
    nearest = min((edit.start for group in found for edit in group), key=lambda at: abs(at - question.offset))
    near = list[Edit]()
    for group in sorted(found, key=lambda group: min(abs(edit.start - nearest) for edit in group)):
        between = min(question.text.count("\n", *sorted((edit.start, nearest))) for edit in group)
        apart = all(edit.end < other.start or other.end < edit.start for edit in group for other in near)
        if between <= NEAR_LINES and apart and len(near) + len(group) <= MOST_EDITS:
            near += group
    return tuple(sorted(near, key=lambda edit: edit.start))


def repeated(history: Sequence[Change]) -> list[RepeatedChange]:
    """The replacements that the last change of `history` made, and an earlier one, too."""
    examples: dict[tuple[str, str], list[MadePlace]] = {}
    lines = 0
    for number in range(len(history) - 1, max(len(history) - 1 - MOST_CHANGES, -1), -1):
        for line, old, new in changed_lines(history, number):
            lines += 1
            if lines > MOST_LINES:
                break
            for before, after, left, right in _replaced(old, new):
                if number == len(history) - 1 or (before, after) in examples:
                    example = MadePlace(number, history[number].path, line, left, right)
                    examples.setdefault((before, after), []).append(example)
    return [
        RepeatedChange(old, new, tuple(of))
        for (old, new), of in examples.items()
        if len({one.change for one in of}) > 1
    ]


def places(question: EditQuestion, replacement: RepeatedChange) -> list[list[Edit]]:
    """Where else the question's text wants the replacement: groups of edits that are made together.

    A place that the user passed over, between two that they changed, is left out; so is one in a string or comment,
    unless one that they changed is in one, too.
    """
    text, old = question.text, replacement.old
    needed = LIKENESS if WORD.search(old) else BARE_LIKENESS
    own = [one for one in replacement.examples if one.path == question.path]
    first, last = (min(one.line for one in own), max(one.line for one in own)) if own else (1, 0)
    found = list[int]()
    line, counted = 0, 0
    for at in _occurrences(text, replacement):
        line, counted = line + text.count("\n", counted, at), at
        left, right = beside(text, at, at + len(old))
        if not first <= line <= last and any(one.likeness(left, right) >= needed for one in replacement.examples):
            found.append(at)
    if not found:
        return []
    scopes, is_quoted = scopes_of(text, question.language), quoting(text, question.language)
    made = [_made_at(text, one) for one in own]
    quoted = {at for at in found if is_quoted(at)}
    if not any(map(is_quoted, made)):
        found = [at for at in found if at not in quoted]
    kept = [[at] for at in found if at in quoted]
    code = [at for at in found if at not in quoted]
    if scopes is None:
        known = is_parsed(question.language) or (is_name(old) and question.language not in _DATA)
        kept += [] if known else [[at] for at in code]  # no tree tells variables apart
    elif is_name(old) and is_name(replacement.new):
        if not made or not all(map(is_quoted, made)):
            kept = _renamed(scopes, replacement, code, made, question.path)
    else:
        kept += [[at] for at in code if _means_the_same(scopes, replacement, at, made)]
    return [[Edit(at, at + len(old), replacement.new) for at in group] for group in kept]


def _made_at(text: str, example: MadePlace) -> int:
    at = -1
    for _ in range(example.line):
        at = text.find("\n", at + 1)
    return at + 1 + sum(map(len, example.left))


def _renamed(
    scopes: SyntaxScopes, replacement: RepeatedChange, like: Sequence[int], made: Sequence[int], path: str
) -> list[list[int]]:
    """The places to rename of those that are like the user's, and of others that they need."""
    old, new = scopes.names(replacement.old), scopes.names(replacement.new)
    lines = {scopes.text.rfind("\n", 0, at) + 1 for at in made}
    before = [one for one in new if one.line in lines]  # these were the old name
    examples = [one for one in before if not one.free]
    foreign = [one for one in replacement.examples if one.path != path]
    members = len(examples) < len(before) or any(one.left[-1:] == (".",) for one in foreign)
    groups = [[one.at] for one in old if one.free and one.at in like] if members else []
    if not examples and (made or all(one.left[-1:] == (".",) for one in foreign)):
        return groups
    names = sorted([one for one in (*old, *examples) if not one.free], key=lambda one: one.at)
    owner = dict(zip(names, scopes.owners(names), strict=True))
    owners = {owner[one] for one in examples}
    variable = owners.pop() if len(owners) == 1 and not foreign else ANYWHERE
    region = variable.scope
    if region == FILE and not foreign:
        region = scopes.common([one.at for one in examples])
    places = [one for one in old if not one.free and owner[one] == variable and region in scopes.around(one.scope)]
    wanted = [one for one in places if one.at in like]
    if not wanted:
        return groups
    binds = any(one.bound and owner[one] == variable for one in examples)
    elsewhere = {one.scope for one in new if one.bound and one not in before}
    if binds or (any(one.bound for one in places) and not elsewhere & set(scopes.around(region))):
        passed = any(min(made, default=0) < one.at < max(made, default=0) for one in places)
        if (
            (passed and not binds)
            or len(places) > MOST_EDITS
            or any(one.shorthand or one.unclear or one.called for one in places)
        ):
            return groups
        return [*groups, [one.at for one in places]]
    beside = {one.line for one in wanted}
    return [*groups, *([one.at for one in places if one.line == line] for line in sorted(beside))]


def _means_the_same(scopes: SyntaxScopes, replacement: RepeatedChange, at: int, made: Sequence[int]) -> bool:
    """Whether each name that the change adds or drops is the same variable there as at one of the user's places."""
    old, new = (set(_IDENTIFIER.findall(side)) for side in (replacement.old, replacement.new))
    names = [(word, [one for one in scopes.names(word) if not one.free]) for word in old ^ new]

    def meaning(place: int) -> list[ScopedVariable | str]:
        """The variables that the names mean; an added one may be any parameter of that name."""
        found = list[ScopedVariable | str]()
        for word, uses in names:
            owner = scopes.owner_at(place, uses)
            given = word in new and any(one.parameter and one.scope == owner.scope for one in uses)
            found.append("parameter" if given else owner)
        return found

    there, *own = map(meaning, (at, *made))
    foreign = len(made) < len(replacement.examples)
    return there in own or (foreign and all(owner == ANYWHERE for owner in there))


def _replaced(old: str, new: str) -> Iterator[tuple[str, str, tuple[str, ...], tuple[str, ...]]]:
    """(old, new, tokens left of it, tokens right of it) of each replacement in a line."""
    tokens, after = TOKEN.findall(old), TOKEN.findall(new)
    hunks = line_hunks(tokens, after)
    if not hunks or hunks[-1][1] - hunks[0][0] + hunks[-1][3] - hunks[0][2] > MOST_DIFFERENT:
        return
    if len({(*tokens[a:b], "→", *after[c:d]) for a, b, c, d in hunks}) > 1:  # parts of one replacement
        hunks = [(hunks[0][0], hunks[-1][1], hunks[0][2], hunks[-1][3])]
    for a, b, c, d in hunks:
        before, then = "".join(tokens[a:b]), "".join(after[c:d])
        if "\n" not in before + then and (before + then).strip():
            left, right = tokens[:a], tokens[b:]
            if "\n" in left:
                left = left[len(left) - left[::-1].index("\n") :]
            yield before, then, tuple(left), tuple(right[: right.index("\n")] if "\n" in right else right)


def _occurrences(text: str, replacement: RepeatedChange) -> Iterator[int]:
    old, new = replacement.old, replacement.new
    ends = {("", "")}
    if not WORD.search(old):  # punctuation, or an insertion: with a token on each side
        ends = {("".join(one.left[-1:]), "".join(one.right[:1])) for one in replacement.examples}
    anchors = "|".join(
        f"(?<={re.escape(before)}){_whole(re.escape(old), old)}(?={re.escape(after)})" for before, after in sorted(ends)
    )
    inside = [found.start() for found in re.finditer(f"(?={re.escape(old)})", new)]
    for number, found in enumerate(re.finditer(anchors, text)):
        at = found.start()
        if number >= _MOST_PLACES:
            return
        if not any(at >= before and text.startswith(new, at - before) for before in inside if new):
            yield at


def _whole(pattern: str, old: str) -> str:
    head = r"(?<!\w)" if old[:1].isalnum() or old[:1] == "_" else ""
    tail = r"(?!\w)" if old[-1:].isalnum() or old[-1:] == "_" else ""
    return f"{head}{pattern}{tail}"


def beside(text: str, start: int, end: int) -> tuple[list[str], list[str]]:
    """The tokens of a line on the two sides of a place."""
    first = max(text.rfind("\n", 0, start) + 1, start - _MOST_LINE)
    last = text.find("\n", end, end + _MOST_LINE)
    last = last if last >= 0 else min(end + _MOST_LINE, len(text))
    return TOKEN.findall(text[first:start]), TOKEN.findall(text[end:last])


def _alike(side: Sequence[str], other: Sequence[str]) -> int:
    most = min(len(side), len(other))
    same = next((at for at in range(most) if side[at] != other[at]), most)
    points = sum(not token.isspace() for token in side[:same])
    return min(points, _MOST_BESIDE) + (_WHOLE_SIDE if same == len(side) == len(other) else 0)
