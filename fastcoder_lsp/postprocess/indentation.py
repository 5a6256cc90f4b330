"""Indentation of a suggestion: in the style of its document, at a depth that the code above allows.

The style is that of the near lines, else that of `TextAround.indentation`, else the custom of the language. Python
allows statements in the columns of its open blocks only: other ones are the interpreter's "unexpected indent" and
"unindent does not match". Elsewhere, a text may only repeat the blanks left of the cursor.
"""

from bisect import bisect_left
from collections.abc import Iterator
from math import gcd

from fastcoder_lsp import syntax
from fastcoder_lsp.postprocess.text_around import NEAR, TextAround
from fastcoder_lsp.syntax import CLOSER_OF, KNOWN, Lexed, indent, indentation_of, lex, steps, width

_SELDOM = 4  # a step of indentation that is so many times rarer than another one is that one, incompletely typed
_SAMPLE = 400  # lines that are read to learn a document's style
_CUSTOM = {"go": "\t", "go.mod": "\t"}
_NO_TABS = frozenset({"elm", "fsharp", "nim", "yaml"})
"""Languages in which a tab is an error."""


def indentation(text: str, around: TextAround) -> str:
    """`text` with its first line at an allowed depth, and all others moved along, in the document's style."""
    return _in_line(text, around) if around.left.strip() else _in_style(_on_empty_line(text, around), around)


def _in_line(text: str, around: TextAround) -> str:
    """For a cursor after text: one blank is enough, and further lines get the document's style."""
    first, newline, rest = text.partition("\n")
    if around.left[-1:] in " \t":
        first = first.lstrip(" \t")
    return first + newline + _in_style(_body(around.left + first, rest, around), around)


def _body(header: str, rest: str, around: TextAround) -> str:
    """The lines `rest` below `header`, a level deeper in the document's steps if theirs never occur in it."""
    begins = width(indent(header))
    own = width(indent(next((line for line in rest.split("\n") if line.strip()), ""))) - begins
    known, unit = steps(_near(around)), _unit(around)
    foreign = known[unit] and not known[own] and own > 0 and "\t" not in header + rest
    statement = lex(header.rstrip().removesuffix("{"), around.language)
    if not foreign or statement.stack or not syntax.opens_block(header, around.language):
        return rest

    return _outside_strings(rest, around, " " * own, " " * unit, begins)


def _on_empty_line(text: str, around: TextAround) -> str:
    lines = text.split("\n")
    leading = next(number for number, line in enumerate(lines) if line.strip())
    if leading:
        on_itself = not around.right.strip() and lines[leading].startswith(around.left)
        return "\n".join(lines[leading:])[len(around.left) :] if on_itself else text
    first, newline, rest = text.partition("\n")
    blocks = _blocks_above(around) if around.language == "python" else None
    if blocks is not None and first.lstrip(" \t")[0] not in ")]}":
        return _in_block(first, newline + rest, *blocks, around)
    return text.removeprefix(indent(first)) if indent(first) == around.left else text


def _blocks_above(around: TextAround) -> tuple[list[int], bool] | None:
    """The columns of the blocks in which the cursor's line may begin a Python statement, and whether it opens one.

    None if it continues a statement.
    """
    code, head = around.near_before[: len(around.near_before) - len(around.left)], around.head
    if head.quote or head.comment or head.stack or code.rstrip(" \t\n").endswith("\\"):
        return None
    columns = list[int]()
    for column in _statements(code, head):
        columns[bisect_left(columns, column) :] = [column]
    lines = (line for line in reversed(code.split("\n")) if syntax.code_only(line, "python").strip())
    return columns, bool(columns) and syntax.opens_block(next(lines, ""), "python")


def _statements(code: str, lexed: Lexed) -> Iterator[int]:
    """The columns of the lines that begin a Python statement."""
    inside, stack = list(lexed.spans), list[int]()
    for at, sign in lexed.signs:
        if sign in CLOSER_OF:
            stack.append(at)
        elif stack:
            inside.append((stack.pop(), at))
    inside.sort()
    at = start = reach = 0
    for line in code.split("\n"):
        while at < len(inside) and inside[at][0] < start:
            reach, at = max(reach, inside[at][1]), at + 1
        if reach <= start and line.strip() and line.lstrip()[0] != "#" and not code.endswith("\\\n", 0, start):
            yield width(indent(line))
        start += len(line) + 1


def _in_block(first: str, rest: str, columns: list[int], opened: bool, around: TextAround) -> str:
    """For a cursor where a Python statement begins, perhaps in the middle of its indentation.

    The line `first` moves to the only open block that it may be in; the lines `rest` move along if they were meant as
    deep. "" if several blocks fit.
    """
    here, column = width(around.left), width(around.left + indent(first))
    found = _columns_in(columns, opened, column, here, around)
    if column in found:
        return first + rest
    below = around.statement_below
    if len(found) > 1 and below is not None:
        opens = syntax.opens_block(first, "python")
        found = [one for one in found if (one < below if opens else one == below)]
    if len(found) != 1 or found[0] < here:
        return ""
    if here <= found[0] < column < 2 * here:
        rest = "\n".join(_moved(line, found[0] - column) for line in rest.split("\n"))
    return " " * (found[0] - here) + first.lstrip(" \t") + rest


def _columns_in(columns: list[int], opened: bool, column: int, here: int, around: TextAround) -> list[int]:
    """Columns where a statement may begin that the model began at `column`."""
    if not columns:
        return [here]
    if not opened:
        if here in columns:
            return [column if column in columns else here]
        return [one for one in columns if one > here]
    limit = columns[-1]
    body = limit + _unit(around)
    if column == body or body < here:
        return [column]
    known = steps(_near(around))
    return [body if column > here or _SELDOM * known[here - limit] < known[body - limit] else here]


def _in_style(text: str, around: TextAround) -> str:
    """`text` with the indentation of its lines in the document's style.

    Near lines of the document decide between tabs and spaces, unless they have both. Without any, levels get the width
    of the other sources, too.
    """
    if around.language == "makefile":
        return _with_recipes(text, around)
    lines = text.split("\n")
    inner = {line[0] for line in lines if line[:1] in (" ", "\t") and line.strip() and line.strip()[0] != "*"}
    near = _near(around)
    kinds = {line[0] for line in near if line[:1] in (" ", "\t") and line.strip()[0] != "*"}
    unit = around.indentation or _CUSTOM.get(around.language, "")
    if kinds:
        unit = "\t" if kinds == {"\t"} else " " * _unit(around) * (kinds == {" "})
    if len(inner) != 1 or not unit or around.head.quote or around.head.comment:
        return text
    if inner == {"\t"}:
        return _outside_strings(text, around, "\t", unit)
    to_tabs = unit == "\t"
    own = _own_unit(lines, around)
    if (around.language in _NO_TABS) if to_tabs else (kinds or not own or around.language not in KNOWN):
        return text
    return _outside_strings(text, around, " " * (own or 4), unit)


def _with_recipes(text: str, around: TextAround) -> str:
    """`text` of a makefile, where the lines of a recipe begin with a tab."""
    lines, above = text.split("\n"), around.left if around.left.strip() else around.above
    for number, line in enumerate(lines):
        in_recipe = above.startswith("\t") or syntax.opens_block(above, "makefile")
        if line.startswith(" ") and line.strip() and in_recipe:
            lines[number] = "\t" + line.lstrip()
        above = lines[number] if line.strip() else above
    return "\n".join(lines)


def _outside_strings(text: str, around: TextAround, own: str, unit: str, begins: int = 0) -> str:
    """`text` with `unit` in place of each `own` of indentation from the column `begins` on.

    Lines that begin in a string or comment of several lines stay.
    """
    spans = lex(text, around.language).spans
    kept, start = [], 0
    for line in text.split("\n"):
        inside = any(begin < start < end for begin, end in spans)
        blanks = indent(line)
        kept.append(line if inside else blanks[:begins] + blanks[begins:].replace(own, unit) + line[len(blanks) :])
        start += len(line) + 1
    return "\n".join(kept)


def _own_unit(lines: list[str], around: TextAround) -> int:
    """The step of `lines`, which their first indented one is deeper than the line above by; 0 if that is unknown."""
    above = around.left if around.left.strip() else around.above
    depth = width(indent(above)) // 4 + syntax.opens_block(above, around.language)
    columns = [len(indent(line)) for line in lines if line.startswith(" ")]
    step = gcd(*columns)
    return step // depth if depth and columns[0] == step and step % depth == 0 else step


def _moved(line: str, columns: int) -> str:
    if not columns or not line.strip() or "\t" in indent(line):
        return line
    return " " * columns + line if columns > 0 else line[min(len(indent(line)), -columns) :]


def _unit(around: TextAround) -> int:
    return width(indentation_of(_near(around)) or around.indentation) or 4


def _near(around: TextAround) -> list[str]:
    """The document's near lines that have text."""
    lines = [*(around.near_before[-NEAR:] + around.right).split("\n")[-_SAMPLE:], *around.below[:_SAMPLE]]
    return [line for line in lines if line.strip()]
