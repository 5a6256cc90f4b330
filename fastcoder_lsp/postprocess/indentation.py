"""Indentation of a suggestion: the document's own blanks, at a depth that the code above allows."""

import re

from fastcoder_lsp import syntax
from fastcoder_lsp.postprocess.place import Place
from fastcoder_lsp.syntax import indent, width

_SAMPLE = 400
"""Lines looked at to learn a document's habit."""


def indentation(text: str, place: Place) -> str:
    """`text` with the first line at an allowed depth and all others in the document's blanks, moved along with it."""
    if not text.strip():
        return text
    if place.left.strip():
        return _in_line(text, place)
    return _on_empty_line(text, place)


def _in_line(text: str, place: Place) -> str:
    """The cursor stands after text: one blank is enough, further lines get the document's blanks."""
    first, newline, rest = text.partition("\n")
    if place.left[-1:] in " \t" and first.strip():
        first = first.lstrip(" \t")
    return first + newline + _in_style(rest, place)


def _on_empty_line(text: str, place: Place) -> str:
    """The cursor stands where a line begins."""
    body = text.lstrip("\n")
    leading = text[: len(text) - len(body)]
    if leading or "\n" in body[: len(body) - len(body.lstrip())]:
        return leading + _in_style(body, place)
    first, newline, rest = body.partition("\n")
    here = width(place.left)
    column = width(place.left + indent(first))
    wanted = column if column in _allowed(place, here) else here
    if wanted != column:
        rest = "\n".join(_moved(line, wanted - column) for line in rest.split("\n"))
    extra = _blanks(wanted, place)[len(place.left) :] if wanted > here else ""
    return extra + first.lstrip(" \t") + newline + _in_style(rest, place)


def _allowed(place: Place, here: int) -> set[int]:
    """Columns at which a statement may begin under the code above: of each block that is open, and one deeper."""
    allowed = {here}
    lines = [line for line in place.near_before.split("\n")[:-1] if line.strip()][-_SAMPLE:]
    if not lines:
        return allowed
    above = lines[-1]
    limit = width(indent(above))
    allowed.add(limit)
    if here <= limit and (syntax.opens_block(above, place.language) or _continues(above)):
        allowed |= {limit + unit for unit in (_unit(place), 2 * _unit(place), 2, 4)}
        if (bracket := re.search(r"[(\[{](?=[^()\[\]{}]*$)", above)) is not None:
            allowed.add(width(indent(above)) + bracket.end() - len(indent(above)))
    for line in reversed(lines):
        columns = width(indent(line))
        if columns < limit:
            limit = columns
            allowed.add(columns)
    return allowed


def _continues(line: str) -> bool:
    """Whether a statement goes on below `line`, at whatever depth its author likes."""
    return line.rstrip().endswith((",", "\\", "+", "-", "*", "/", "=", "|", "&", ".", "?", ":", "(", "[", "{", ">"))


def _in_style(text: str, place: Place) -> str:
    """`text`, of which every line begins a line of the document, with the document's blanks before its lines."""
    if not text:
        return text
    tabs = _tabs(place)
    if tabs is None:
        return text
    lines = text.split("\n")
    if tabs:
        unit = _own_unit(lines, width(indent(place.left)) // 4)
        return "\n".join(_with_tabs(line, unit) for line in lines)
    return "\n".join(_with_spaces(line, _unit(place)) for line in lines)


def _with_tabs(line: str, unit: int) -> str:
    blanks = indent(line)
    if " " not in blanks:
        return line
    tabs = blanks.count("\t")
    spaces = len(blanks) - tabs
    return "\t" * (tabs + spaces // unit) + " " * (spaces % unit) + line[len(blanks) :]


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


def _blanks(columns: int, place: Place) -> str:
    """Indentation up to `columns`, beginning with what stands left of the cursor."""
    missing = columns - width(place.left)
    if _tabs(place):
        return place.left + "\t" * (missing // 4) + " " * (missing % 4)
    return place.left + " " * missing


def _tabs(place: Place) -> bool | None:
    """Whether the document is indented with tabs; None for one without indentation."""
    tabs = spaces = 0
    for line in _indented(place):
        tabs += line.startswith("\t")
        spaces += line.startswith("  ")
    return None if tabs == spaces else tabs > spaces


def _unit(place: Place) -> int:
    """The document's step of indentation in columns."""
    steps: dict[int, int] = {}
    last = 0
    for line in _indented(place):
        columns = width(indent(line))
        if columns > last:
            steps[columns - last] = steps.get(columns - last, 0) + 1
        last = columns
    likely = [step for step in steps if step in {1, 2, 3, 4, 8}]
    return max(likely, key=lambda step: steps[step]) if likely else 4


def _indented(place: Place) -> list[str]:
    """Lines of the document near the cursor, the empty ones left out."""
    lines = [*place.near_before.split("\n")[-_SAMPLE:], *place.below[:_SAMPLE]]
    return [line for line in lines if line.strip()]
