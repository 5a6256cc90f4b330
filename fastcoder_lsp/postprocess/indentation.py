"""Indentation of a suggestion: the document's own blanks, at a depth that the code above allows."""

from collections.abc import Callable

from fastcoder_lsp import syntax
from fastcoder_lsp.postprocess.text_around import NEAR, TextAround
from fastcoder_lsp.syntax import KNOWN, indent, lex, width

_DEEPEST_STEP = 8
"""Columns by which a block is indented at most."""
_SAMPLE = 400
"""Lines looked at to learn a document's habit."""


def indentation(text: str, around: TextAround) -> str:
    """`text` with the first line at an allowed depth and all others in the document's blanks, moved along with it."""
    if not text.strip():
        return text
    if around.left.strip():
        return _in_line(text, around)
    return _on_empty_line(text, around)


def _in_line(text: str, around: TextAround) -> str:
    """The cursor stands after text: one blank is enough, further lines get the document's blanks."""
    first, newline, rest = text.partition("\n")
    if around.left[-1:] in " \t" and first.strip():
        first = first.lstrip(" \t")
    return first + newline + _in_style(rest, around)


def _on_empty_line(text: str, around: TextAround) -> str:
    """The cursor stands where a line begins."""
    body = text.lstrip("\n")
    leading = text[: len(text) - len(body)]
    if leading or "\n" in body[: len(body) - len(body.lstrip())]:
        return leading + _in_style(body, around)
    first, newline, rest = body.partition("\n")
    here = width(around.left)
    if _doubled(first, here, around):
        return first.lstrip(" \t") + newline + _in_style(rest, around)
    column = width(around.left + indent(first))
    if _free(first, column, here, around):
        return first + newline + _in_style(rest, around)
    rest = "\n".join(_moved(line, here - column) for line in rest.split("\n"))
    return first.lstrip(" \t") + newline + _in_style(rest, around)


def _doubled(first: str, here: int, around: TextAround) -> bool:
    """Whether the line `first` says the blanks left of the cursor once more, as if it began the line."""
    if not around.left or indent(first) != around.left:
        return False
    return here > width(indent(around.above)) or not (
        _continues(around.above) or syntax.opens_block(around.above, around.language)
    )


def _free(first: str, column: int, here: int, around: TextAround) -> bool:
    """Whether the line `first` may begin at `column`, or nobody can say where it has to."""
    word = first.lstrip(" \t")[:1]
    if column == here or not (word.isalnum() or word in "_@\"'") or around.language not in KNOWN:
        return True
    if around.head.quote or around.head.comment or any(sign in "([`" for _, sign in around.head.stack):
        return True
    if around.language != "python" and not (around.left and column > here):
        return True
    return column in _allowed(around, column, here) or (around.language == "python" and bool(around.head.stack))


def _allowed(around: TextAround, column: int, here: int) -> set[int]:
    """Columns at which a statement may begin under the code above: of each block that is open, and one deeper."""
    lines = [line for line in around.near_before.split("\n")[:-1] if line.strip()]
    if not lines or _continues(lines[-1]):
        return {column}
    limit = min(width(indent(lines[-1])), around.statement_above())
    if column > limit and here <= limit and syntax.opens_block(lines[-1], around.language):
        return {column}
    allowed = {here, width(indent(lines[-1])), limit}
    for line in reversed(lines):
        columns = width(indent(line))
        if columns < limit:
            limit = columns
            allowed.add(columns)
    return allowed if around.whole_before or column >= limit else {column}


def _continues(line: str) -> bool:
    """Whether a statement goes on below `line`, at whatever depth its author likes."""
    return line.rstrip().endswith((",", "\\", "+", "-", "*", "/", "=", "|", "&", ".", "?", "(", "[", ">"))


def _in_style(text: str, around: TextAround) -> str:
    """`text`, of which every line begins a line of the document, with the document's blanks before its lines.

    Only where the document near the cursor knows one kind of blanks, and the text only the other.
    """
    lines = text.split("\n")
    inner = {line[0] for line in lines if line[:1] in (" ", "\t") and line.strip() and line.strip()[0] != "*"}
    near = {line[:2] for line in _indented(around) if line[:1] in (" ", "\t") and line.strip()[0] != "*"}
    if not near or len(inner) != 1 or around.head.quote or around.head.comment or _aligned(lines):
        return text
    tabs = [blanks[0] == "\t" for blanks in near]
    if inner == {" "} and all(tabs) and not _aligned(_indented(around)):
        unit = _own_unit(lines, width(indent(around.left)) // 4)
        return _outside_strings(text, around, lambda line: _with_tabs(line, unit))
    if inner == {"\t"} and not any(tabs):
        return _outside_strings(text, around, lambda line: _with_spaces(line, _unit(around)))
    return text


def _aligned(lines: list[str]) -> bool:
    """Whether tabs and spaces stand together before some line."""
    return any("\t" in indent(line) and " " in indent(line) for line in lines)


def _outside_strings(text: str, around: TextAround, restyled: Callable[[str], str]) -> str:
    """`text` with its lines restyled that do not begin in a string or a comment of several lines."""
    spans = lex(text, around.language).spans
    kept, start = [], 0
    for line in text.split("\n"):
        inside = any(begin < start < end for begin, end in spans)
        kept.append(line if inside else restyled(line))
        start += len(line) + 1
    return "\n".join(kept)


def _with_tabs(line: str, unit: int) -> str:
    blanks = indent(line)
    return "\t" * (len(blanks) // unit) + " " * (len(blanks) % unit) + line[len(blanks) :]


def _with_spaces(line: str, unit: int) -> str:
    blanks = indent(line)
    return blanks.replace("\t", " " * unit) + line[len(blanks) :]


def _own_unit(lines: list[str], depth: int) -> int:
    """The step by which lines that use spaces are indented: what brings the least of them nearest to `depth`."""
    columns = [len(indent(line)) for line in lines if line.startswith(" ") and "\t" not in indent(line)]
    steps = [step for step in (4, 2, 8, 3) if all(count % step == 0 for count in columns)]
    return min(steps, key=lambda step: abs(min(columns) // step - depth), default=4) if columns else 4


def _moved(line: str, columns: int) -> str:
    if columns >= 0 or not line.strip():
        return line
    blanks = indent(line)
    return blanks[: max(0, len(blanks) + columns)] + line[len(blanks) :] if "\t" not in blanks else line


def _unit(around: TextAround) -> int:
    """The document's step of indentation in columns."""
    steps: dict[int, int] = {}
    last = 0
    for line in _indented(around):
        columns = width(indent(line))
        if columns > last:
            steps[columns - last] = steps.get(columns - last, 0) + 1
        last = columns
    likely = [step for step in steps if step in {1, 2, 3, 4, 8}]
    return max(likely, key=lambda step: steps[step]) if likely else 4


def _indented(around: TextAround) -> list[str]:
    """Lines of the document near the cursor; not the empty ones, nor those that go on far right of the line above."""
    kept, last = [], 0
    for line in [*around.near_before[-NEAR:].split("\n")[-_SAMPLE:], *around.below[:_SAMPLE]]:
        if line.strip():
            columns = width(indent(line))
            if columns <= last + _DEEPEST_STEP:
                kept.append(line)
                last = columns
    return kept
