"""Indentation of a suggestion: in the style of its document, at a depth that the code above allows.

The style is that of the near lines, else that of `TextAround.indentation`, else the custom of the language.
"""

from fastcoder_lsp import syntax
from fastcoder_lsp.postprocess.text_around import CONTINUED, NEAR, Blocks, TextAround, stand
from fastcoder_lsp.syntax import KNOWN, indent, indentation_of, lex, steps, width

_SELDOM = 4  # a step of indentation that is so many times rarer than another one is that one, incompletely typed
_SAMPLE = 400  # lines that are read to learn a document's style
_CUSTOM = {"go": "\t", "go.mod": "\t"}
_NO_TABS = frozenset({"elm", "fsharp", "nim", "yaml"})
"""Languages in which a tab is an error."""
_UNITS = (4, 2, 8, 3)  # columns of one level, the commonest first


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
        on_itself = _takes(lines[leading], around)
        return "\n".join(lines[leading:])[len(around.left) :] if on_itself else text
    first, newline, rest = text.partition("\n")
    here, column = width(around.left), width(around.left + indent(first))
    blocks = around.blocks_above
    python = around.language == "python"
    if python and blocks is not None and (_begins_statement(first) or blocks.allow(column)):
        return _in_block(first, newline + rest, blocks, around)
    if _doubled(first, here, around):
        return first.lstrip(" \t") + newline + rest
    if python or blocks is None or not _begins_statement(first) or _free(column, here, blocks):
        return text
    rest = "\n".join(_moved(line, here - column) for line in rest.split("\n"))
    return first.lstrip(" \t") + newline + rest


def _takes(line: str, around: TextAround) -> bool:
    """Whether the empty line of the cursor takes the text's first `line`; else it stays, and parts blocks."""
    if around.right.strip() or not line.startswith(around.left):
        return False
    last = around.near_before[: len(around.near_before) - len(around.left)].rstrip(" \t").removesuffix("\n")
    last = last[last.rfind("\n") + 1 :]
    if last.strip() and width(indent(last)) > width(indent(line)):
        return False
    return bool(around.left or around.head.openers) or syntax.opens_block(last, around.language)


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
        return first + rest
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
        if stand(first + way, blocks, around):
            return first + way
    return ""


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
    known = steps(_near(around))
    return [body if column > here or _SELDOM * known[here - limit] < known[body - limit] else here]


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
    if here > width(indent(around.above)) or syntax.opens_block(around.above, around.language):
        return here > width(indent(around.above))
    line = around.near_before.rfind(around.above)
    is_entry = bool(around.head.openers) and around.head.openers[-1][0] < line  # the line above is one, too
    in_prose = bool(around.head.quote or around.head.comment) or around.language not in KNOWN
    return is_entry or in_prose or not around.above.rstrip().endswith(CONTINUED)


def _free(column: int, here: int, blocks: Blocks) -> bool:
    """Whether a statement of a language with braces may begin at `column` with the cursor at `here`."""
    if blocks.opened and blocks.allow(here):
        return column == here  # the cursor's column is the new block's
    return here in {0, column} or blocks.allow(column) or column in blocks.columns


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
        unit = "\t" if kinds == {"\t"} and not _aligned(near) else " " * _unit(around) * (kinds == {" "})
    if len(inner) != 1 or not unit or around.head.quote or around.head.comment or _aligned(lines):
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
        begins = line.startswith(" ") and not (number == 0 and around.left.isspace())
        if begins and line.strip() and in_recipe and not above.endswith("\\"):
            lines[number] = "\t" + line.lstrip()
        above = lines[number] if line.strip() else above
    return "\n".join(lines)


def _aligned(lines: list[str]) -> bool:
    return any("\t" in indent(line) and " " in indent(line) for line in lines)


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
    columns = [len(indent(line)) for line in lines if line.startswith(" ") and "\t" not in indent(line)]
    fit = [step for step in _UNITS if all(count % step == 0 for count in columns)]
    return min(fit, key=lambda step: abs(columns[0] // step - depth), default=0) if columns else 0


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
