"""Indentation of a suggestion: in the document's style, at a depth that the code above allows."""

from collections import Counter
from collections.abc import Callable

from fastcoder_lsp import syntax
from fastcoder_lsp.postprocess.text_around import NEAR, Blocks, TextAround, stand
from fastcoder_lsp.syntax import KNOWN, indent, lex, width

_DEEPEST_STEP = 8  # the largest step of indentation in columns
_SELDOM = 4  # a step of indentation that is so many times rarer than another one is that one, incompletely typed
_SAMPLE = 400  # lines that are read to learn a document's style


def indentation(text: str, around: TextAround) -> str:
    """`text` with its first line at an allowed depth, and all others moved along, in the document's style."""
    if not text.strip():
        return text
    if around.left.strip():
        return _in_line(text, around)
    return _on_empty_line(text, around)


def _in_line(text: str, around: TextAround) -> str:
    """For a cursor after text: one blank is enough, and further lines get the document's style."""
    first, newline, rest = text.partition("\n")
    if around.left[-1:] in " \t" and first.strip():
        first = first.lstrip(" \t")
    return first + newline + _in_style(rest, around)


def _on_empty_line(text: str, around: TextAround) -> str:
    body = text.lstrip("\n")
    leading = text[: len(text) - len(body)]
    if leading or "\n" in body[: len(body) - len(body.lstrip())]:
        return leading + _in_style(body, around)
    first, newline, rest = body.partition("\n")
    here, column = width(around.left), width(around.left + indent(first))
    blocks = around.blocks_above
    if blocks is not None and (_begins_statement(first) or blocks.allow(column)):
        return _in_block(first, newline + rest, blocks, around)
    if _doubled(first, here, around):
        return first.lstrip(" \t") + newline + _in_style(rest, around)
    if _free(first, column, here, around):
        return first + newline + _in_style(rest, around)
    rest = "\n".join(_moved(line, here - column) for line in rest.split("\n"))
    return first.lstrip(" \t") + newline + _in_style(rest, around)


def _begins_statement(first: str) -> bool:
    """Whether the column of the line `first` has a meaning."""
    word = first.lstrip(" \t")[:1]
    return word.isalnum() or (bool(word) and word in "_@\"'([{")


def _in_block(first: str, rest: str, blocks: Blocks, around: TextAround) -> str:
    """For a cursor where a Python statement begins, perhaps in the middle of its indentation.

    The line `first` moves to an open block that all the rest fits; the rest ends before a line that fits no block. ""
    if several blocks fit.
    """
    here, column = width(around.left), width(around.left + indent(first))
    columns = _columns_in(blocks, column, here, around)
    if column in columns:
        return first + _in_style_below(rest, around)
    found = [text for target in columns if (text := _moved_to(target, column, first, rest, blocks, around))]
    if not found and rest:
        return _in_block(first, rest.rpartition("\n")[0], blocks, around)
    return found[0] if len(found) == 1 else ""


def _moved_to(target: int, column: int, first: str, rest: str, blocks: Blocks, around: TextAround) -> str:
    """The text with its line `first` moved from `column` to `target`; `rest` moves along or stays."""
    here = width(around.left)
    blanks = _blanks(target, here, around)
    if blanks is None:
        return ""
    first = blanks + first.lstrip(" \t")
    along = "\n".join(_moved(line, target - column) for line in rest.split("\n"))
    for way in (along, rest) if here <= target < column < 2 * here else (rest, along):
        if _stands(first + way, blocks, around):
            return first + _in_style_below(way, around)
    return ""


def _stands(text: str, blocks: Blocks, around: TextAround) -> bool:
    """Whether all statements of `text`, and the one below it, begin at allowed columns."""
    start = len(around.near_before) - len(around.left)
    return stand(blocks, around.near_before + text, around.lexed_with(text), start, around.statement_below)


def _in_style_below(rest: str, around: TextAround) -> str:
    """`rest`, which begins with a line end if it is anything, in the document's blanks."""
    return rest[:1] + _in_style(rest[1:], around)


def _columns_in(blocks: Blocks, column: int, here: int, around: TextAround) -> list[int]:
    """Columns where a statement may begin that the model began at `column`."""
    if not blocks.columns:
        return [here]
    limit, below = blocks.columns[-1], around.statement_below
    if not blocks.opened:
        if here in blocks.columns:
            return [column if column in blocks.columns else here]
        return [one for one in blocks.columns if one > here]
    body = limit + _unit(around)
    if below is not None and limit < below < body:
        body = below
    if column == body or body < here:
        return [column]
    if here <= limit:
        return [column if column > limit or here in blocks.columns else body]
    steps = _steps(around)
    return [body if column > here or _SELDOM * steps[here - limit] < steps[body - limit] else here]


def _blanks(target: int, here: int, around: TextAround) -> str | None:
    """The blanks from the column `here` to `target`, in the style of the lines above."""
    if target == here:
        return ""
    known = (indent(line) for line in reversed(around.near_before[-NEAR:].split("\n")) if line.strip())
    same = next((blanks for blanks in known if width(blanks) == target and blanks.startswith(around.left)), None)
    if same is not None:
        return same[len(around.left) :]
    return " " * (target - here) if "\t" not in around.left and target > here else None


def _doubled(first: str, here: int, around: TextAround) -> bool:
    """Whether the line `first` repeats the blanks left of the cursor, as if it began the line."""
    if not around.left or indent(first) != around.left:
        return False
    return here > width(indent(around.above)) or not (
        _continues(around.above) or syntax.opens_block(around.above, around.language)
    )


def _free(first: str, column: int, here: int, around: TextAround) -> bool:
    """Whether the line `first` may begin at `column`, or its column is unknown."""
    word = first.lstrip(" \t")[:1]
    if column == here or not (word.isalnum() or word in "_@\"'") or around.language not in {*KNOWN} - {"python"}:
        return True
    if around.head.quote or around.head.comment or any(sign in "([`" for _, sign in around.head.stack):
        return True
    return not (around.left and column > here) or column in _allowed(around, column, here)


def _allowed(around: TextAround, column: int, here: int) -> set[int]:
    """Columns at which a statement may begin below the code above: of each open block, and one deeper."""
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
    """Whether a statement continues below `line`, at any depth."""
    return line.rstrip().endswith((",", "\\", "+", "-", "*", "/", "=", "|", "&", ".", "?", "(", "[", ">"))


def _in_style(text: str, around: TextAround) -> str:
    """`text`, whose lines begin lines of the document, with its indentation in the document's style.

    Changed only if the document near the cursor uses only tabs or only spaces, and the text only the other kind.
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
    return any("\t" in indent(line) and " " in indent(line) for line in lines)


def _outside_strings(text: str, around: TextAround, restyled: Callable[[str], str]) -> str:
    """`text`, restyled except for lines that begin in a string or comment of several lines."""
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
    columns = [len(indent(line)) for line in lines if line.startswith(" ") and "\t" not in indent(line)]
    steps = [step for step in (4, 2, 8, 3) if all(count % step == 0 for count in columns)]
    return min(steps, key=lambda step: abs(min(columns) // step - depth), default=4) if columns else 4


def _moved(line: str, columns: int) -> str:
    if not columns or not line.strip() or "\t" in indent(line):
        return line
    return " " * columns + line if columns > 0 else line[min(len(indent(line)), -columns) :]


def _unit(around: TextAround) -> int:
    steps = _steps(around)
    return max(steps, key=lambda step: steps[step]) if steps else 4


def _steps(around: TextAround) -> Counter[int]:
    steps, last = Counter[int](), 0
    for line in _indented(around):
        columns = width(indent(line))
        if columns - last in {1, 2, 3, 4, 8}:
            steps[columns - last] += 1
        last = columns
    return steps


def _indented(around: TextAround) -> list[str]:
    kept, last = [], 0
    for line in [*around.near_before[-NEAR:].split("\n")[-_SAMPLE:], *around.below[:_SAMPLE]]:
        if line.strip():
            columns = width(indent(line))
            if columns <= last + _DEEPEST_STEP:
                kept.append(line)
                last = columns
    return kept
