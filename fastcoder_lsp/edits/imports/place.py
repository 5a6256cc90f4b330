"""Where a file wants one more import: in a statement of the same source, or in its group, in the group's order."""

import re
from bisect import bisect_right
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Final

from fastcoder_lsp.edits.imports.facts import ImportTarget
from fastcoder_lsp.edits.imports.order import best_key, best_place
from fastcoder_lsp.edits.imports.values import ImportLine, ImportStyle, ImportSyntax
from fastcoder_lsp.edits.values import Edit
from fastcoder_lsp.syntax import lex

_MOST_BETWEEN: Final = 20  # lines between two groups of the imports at the top
_SEGMENT: Final = re.compile(r"[^\w]+")
_ENDED: Final = re.compile(r"[;{}\w)'\"]\s*$")


def code_statements(syntax: ImportSyntax, text: str, language: str) -> list[ImportLine]:
    """The import statements outside comments and strings."""
    lines = syntax.statements(text)
    if not lines:
        return lines
    spans = lex(text[: lines[-1].start], language).spans
    starts = [start for start, _ in spans]

    def quoted(at: int) -> bool:
        number = bisect_right(starts, at) - 1
        return number >= 0 and spans[number][0] < at < spans[number][1]  # Go's entries begin with a string

    last = lex(text[: lines[-1].start], language)
    ended = bool(last.quote or last.comment)
    return [line for line in lines if not quoted(line.start) and not (ended and line is lines[-1])]


class ImportPlaces:
    """The imports of one text, and the edits that add one of a target.

    `home`: the beginning of the part of the text that wants it; `leads`: whether a form that the text lacks comes
    before all others; `single`: each statement imports one name.
    """

    def __init__(
        self,
        syntax: ImportSyntax,
        text: str,
        language: str,
        path: str,
        is_own: Callable[[str], bool],
        target: ImportTarget,
        home: int = 0,
        *,
        leads: Callable[[str], bool | None] = lambda _: None,
        single: bool = False,
    ) -> None:
        self._single, self._target, self._leads = single, target, leads
        self._syntax, self._text, self._path, self._is_own = syntax, text, path, is_own
        self.lines = code_statements(syntax, text, language)
        self._top = _at_the_top(text, syntax.siblings(self.lines, target) or syntax.of_home(text, self.lines, home))
        self._groups = _grouped(text, syntax.sorted_with(self._top))

    def added(self, name: str, source: str) -> Edit:
        """The edit that imports the target, whose source is spelled like this, under a name."""
        target = self._target
        form = self._syntax.form(target)
        same = [line for line in self._top if line.source == source and line.form == form]
        if len({line.start for line in same}) == 1 and not (self._single and len(same[0].names) == 1):
            edit = self._syntax.extended(self._text, same[0], name, target)
            if edit is not None:
                return edit
        statement = self._syntax.rendered(name, target, source, self._style())
        if not self._groups:
            at, before, after = self._syntax.first_place(self._text)
            return Edit(at, at, f"{before}{statement}{after}")
        return self._new_line(statement)

    def _style(self) -> ImportStyle:
        said = [self._text[line.start : line.end] for line in self.lines]
        if not said:
            lines = self._text.split("\n", 400)[:400]
            ends = sum(line.rstrip().endswith(";") for line in lines)
            others = sum(line.rstrip().endswith((")", "'", '"')) for line in lines)
            quote = '"' if self._text.count('"') > self._text.count("'") else "'"
            return ImportStyle(quote, ends >= others)
        quote = '"' if sum('"' in one for one in said) * 2 > len(said) else "'"
        return ImportStyle(quote, sum(one.split("//")[0].rstrip().endswith(";") for one in said) * 2 >= len(said))

    def _new_line(self, statement: str) -> Edit:
        syntax = self._syntax
        block = self._groups[0][0].form == "entry"
        parsed = syntax.statements(f"import (\n\t{statement}\n)\n" if block else self._of_one(statement))
        new = parsed[0]
        categories = [[self._category(line) for line in group] for group in self._groups]
        own = self._category(new)
        having = [number for number, group in enumerate(categories) if own in group]
        key = best_key(self._groups, syntax.keys)
        if having:
            number = max(having, key=lambda n: (self._nearness(new, n, own, categories), categories[n].count(own), n))
            return self._in_group(new, statement, self._groups[number], key)
        everything = [line for group in self._groups for line in group]
        leads = self._leads(new.form) if all(new.form != line.form for line in everything) else None
        if leads is not None:
            at = everything[0].start if leads else everything[-1].end
            return Edit(at, at, f"{statement}\n\n" if leads else f"\n\n{statement}")
        if self._is_separated(categories):
            return self._own_group(statement, own, categories)
        place = best_place(new, everything, key)
        beside = everything[max(place - 1, 0)]
        group = next(group for group in self._groups if beside in group)
        return self._in_group(new, statement, group, key)

    def _of_one(self, statement: str) -> str:
        return f"import {statement}" if self._syntax.name == "go" else statement

    def _category(self, line: ImportLine) -> int | str:
        return self._syntax.category(line, self._path, self._is_own)

    def _nearness(self, new: ImportLine, number: int, own: int | str, categories: Sequence[Sequence[int | str]]) -> int:
        """How many segments of its source the nearest statement of a group shares."""
        parts = _SEGMENT.split(new.source)
        alike = (
            sum(1 for _ in _common(parts, _SEGMENT.split(line.source)))
            for line, category in zip(self._groups[number], categories[number], strict=True)
            if category == own
        )
        return max(alike, default=0)

    def _is_separated(self, categories: Sequence[Sequence[int | str]]) -> bool:
        if any(len(set(group)) > 1 for group in categories):
            return False
        return len(categories) > 1 or self._syntax.separates

    def _in_group(
        self, new: ImportLine, statement: str, group: Sequence[ImportLine], key: Callable[..., tuple[object, ...]]
    ) -> Edit:
        place = best_place(new, group, key)
        first = group[0]
        lead = self._text[self._text.rfind("\n", 0, first.start) + 1 : first.start]
        if first.form == "import" and self._syntax.name == "go":
            return self._as_block(statement, group, place)
        if place:
            at = group[place - 1].end
            return Edit(at, at, f"\n{_indent(lead)}{statement}")
        return Edit(first.start, first.start, f"{statement}\n{_indent(lead)}")

    def _as_block(self, statement: str, group: Sequence[ImportLine], place: int) -> Edit:
        """Go: single imports become a block, unless there are several."""
        if len(group) > 1:
            at = group[place - 1].end if place else group[0].start
            return Edit(at, at, f"\nimport {statement}" if place else f"import {statement}\n")
        line = group[0]
        old = self._text[line.start : line.end].removeprefix("import").strip()
        both = [old, statement] if place else [statement, old]
        return Edit(line.start, line.end, "import (\n" + "".join(f"\t{one}\n" for one in both) + ")")

    def _own_group(self, statement: str, own: int | str, categories: Sequence[Sequence[int | str]]) -> Edit:
        number = next((n for n, group in enumerate(categories) if str(group[0]) > str(own)), len(categories))
        lead = self._text[self._text.rfind("\n", 0, self._groups[0][0].start) + 1 : self._groups[0][0].start]
        if self._groups[0][0].form == "import" and self._syntax.name == "go":
            if len(categories) == 1 and len(self._groups[0]) == 1:
                line = self._groups[0][0]
                old = self._text[line.start : line.end].removeprefix("import").strip()
                first, second = (old, statement) if number else (statement, old)
                return Edit(line.start, line.end, f"import (\n\t{first}\n\n\t{second}\n)")
            statement = f"import {statement}"
        if number < len(categories):
            at = self._groups[number][0].start
            return Edit(at, at, f"{statement}\n\n{_indent(lead)}")
        at = self._groups[-1][-1].end
        return Edit(at, at, f"\n\n{_indent(lead)}{statement}")


def _indent(lead: str) -> str:
    return lead if not lead.strip() else ""


def _common(one: Sequence[str], other: Sequence[str]) -> list[str]:
    found = list[str]()
    for left, right in zip(one, other, strict=False):
        if left != right:
            break
        found.append(left)
    return found


def _at_the_top(text: str, lines: Sequence[ImportLine]) -> list[ImportLine]:
    """The statements before the first long piece of other code."""
    for number, (line, after) in enumerate(pairwise(lines)):
        between = text[line.end : after.start].split("\n")
        if sum(bool(one.strip()) for one in between) > _MOST_BETWEEN:
            return list(lines[: number + 1])
    return list(lines)


def _grouped(text: str, lines: Sequence[ImportLine]) -> list[list[ImportLine]]:
    """Statements without a blank line or other code between them."""
    groups = list[list[ImportLine]]()
    for line in lines:
        if groups:
            between = text[groups[-1][-1].end : line.start]
            rest = [one.strip() for one in between.split("\n")[1:-1]]
            comments = all(one.startswith(("#", "//", "/*", "*")) and not one.startswith("#i") for one in rest)
            if "\n" not in between or comments:
                groups[-1].append(line)
                continue
        groups.append([line])
    return groups
