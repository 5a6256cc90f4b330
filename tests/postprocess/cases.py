"""Golden cases of what is shown, in a literal form: a document with the text that the model said between two marks.

    --- python: the line's own arguments are new
    foo(▮a, b▮)

A third mark divides that text: only its beginning is shown.

    --- python: the statement below is not said again
    ▮a = 1▮
    b = 2▮
    b = 2

Where the suggestion overwrites text, `>>>` separates the document from the document after accepting.

    --- python: the editor's closer is written over
    foo(▮a) + 1▮)
    >>>
    foo(▮a) + 1▮

`→` is a tab, `·` a blank where nobody would see one, `¶` the end of a document without a last line end.
The cases of one rule are a table in `tables/`.
"""

import re
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from fastcoder_lsp.postprocess import TextAround, covered

MARK = "▮"


@dataclass(frozen=True, slots=True)
class Case:
    """What the model said in a document (`said`), and the document as it is accepted (`shown`), between two marks."""

    title: str
    language: str
    said: str
    shown: str

    def around(self) -> TextAround:
        before, _, after = self.parts()
        return TextAround(before, after, self.language)

    def parts(self) -> tuple[str, str, str]:
        before, said, after = self.said.split(MARK)
        return before, said, after

    def within(self, above: str, below: str) -> "Case":
        """The same with more of a document above, and below after two empty lines."""
        said, shown = (f"{above}{text}\n\n{below}" for text in (self.said, self.shown))
        return replace(self, said=said, shown=shown)

    def document(self, shown: str) -> str:
        """The document with `shown` accepted, between two marks."""
        before, _, after = self.parts()
        return before + MARK + shown + MARK + after[covered(shown, self.around()) :]


def table(name: str) -> list[Case]:
    text, found = Path(__file__).with_name("tables").joinpath(f"{name}.txt").read_text(encoding="utf-8"), []
    for block in re.split(r"^--- ", text, flags=re.MULTILINE)[1:]:
        head, _, body = block.partition("\n")
        language, _, title = head.partition(": ")
        said, _, shown = body.partition(">>>\n")
        before, *parts, after = said.split(MARK)
        said = f"{before}{MARK}{''.join(parts)}{MARK}{after}"
        shown = shown or f"{before}{MARK}{parts[0]}{MARK}{after}"
        found.append(Case(title, language, _text(said), _text(shown)))
    return found


def of_tables(*names: str) -> pytest.MarkDecorator:
    """Run a test with each case of these tables."""
    cases = [(f"{name}: {case.language}, {case.title}", case) for name in names for case in table(name)]
    return pytest.mark.parametrize("case", [case for _, case in cases], ids=[named for named, _ in cases])


def _text(literal: str) -> str:
    text = literal.replace("→", "\t").replace("·", " ")
    return text.removesuffix("¶\n")
