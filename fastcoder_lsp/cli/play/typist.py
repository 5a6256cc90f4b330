"""The little that an editor does by itself while one types: indentation.

Pure text in, text out.
"""

OPENERS = (":", "{", "(", "[", "=>")


def indent_unit(text: str) -> str:
    """How the file indents: a tab, or the narrowest indentation in use (four spaces where there is none)."""
    indents = [line[: len(line) - len(line.lstrip())] for line in text.split("\n") if line.strip()]
    if any(indent.startswith("\t") for indent in indents):
        return "\t"
    widths = [len(indent) for indent in indents if len(indent) > 1]
    return " " * min(widths, default=4)


def newline(line_before: str, unit: str) -> str:
    """What Enter inserts behind `line_before`, the text of the line up to the cursor."""
    indent = line_before[: len(line_before) - len(line_before.lstrip())]
    return "\n" + indent + (unit if line_before.rstrip().endswith(OPENERS) else "")


def tab(line_before: str, unit: str) -> str:
    """What Tab inserts: up to the next stop."""
    return "\t" if unit == "\t" else " " * (len(unit) - len(line_before) % len(unit))


def backspace(line_before: str, unit: str) -> int:
    """How many characters Backspace removes: inside the indentation, down to the stop before."""
    if not line_before or line_before.strip(" ") or unit == "\t":
        return 1
    return (len(line_before) - 1) % len(unit) + 1
