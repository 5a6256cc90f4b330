"""What is shown of a definition whose place somebody knows."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fastcoder_lsp.core import Definition
from fastcoder_lsp.index.terms import Terms
from fastcoder_lsp.index.word_index import WordIndex
from fastcoder_lsp.prompt.context import ContextSnippet
from fastcoder_lsp.prompt.definitions import MAX_CHARACTERS, MAX_LINE, MAX_LINES, head_of, heads
from fastcoder_lsp.prompt.retrieval import FileWords, query_at

PYTHON = '''import os


@dataclass
class Cart(
    Base,
):
    """What is bought."""

    items: list[Item]
    owner: str = "nobody"

    def add(self, item: Item, *, count: int = 1) -> None:
        for _ in range(count):
            self.items.append(item)

    async def pay(
        self,
        by: Card,
    ) -> Receipt:
        return await by.pay(self.total())


def total(cart: Cart) -> int:
    if cart:
        return 1
    return 0
'''
SCRIPT = """export class Cart extends Base {
  private items: Item[] = [];
  #owner?: string;

  constructor(readonly shop: Shop) {
    super();
    this.items.push(shop.gift);
  }
  async pay(by: Card): Promise<Receipt> {
    return by.pay(this.total);
  }
  // nothing
}

export interface Item { name: string }
"""


@pytest.mark.parametrize(
    ("text", "line", "head"),
    [
        (
            PYTHON,
            4,
            (
                'class Cart(\n    Base,\n):\n    items: list[Item]\n    owner: str = "nobody"\n'
                "    def add(self, item: Item, *, count: int = 1) -> None:\n    async def pay("
            ),
        ),
        (PYTHON, 23, "def total(cart: Cart) -> int:"),
        (PYTHON, 16, "    async def pay(\n        self,\n        by: Card,\n    ) -> Receipt:"),
        (
            SCRIPT,
            0,
            (
                "export class Cart extends Base {\n  private items: Item[] = [];\n"
                "  constructor(readonly shop: Shop) {\n  async pay(by: Card): Promise<Receipt> {"
            ),
        ),
        (SCRIPT, 14, "export interface Item { name: string }"),
    ],
)
def test_a_head_is_a_signature_or_what_a_class_has(text: str, line: int, head: str) -> None:
    assert head_of(text.split("\n"), line) == head


@given(st.text(alphabet="({[)}] \nclassdef:=x,'\t", max_size=400), st.integers(0, 30))
def test_a_head_of_anything_is_bounded(text: str, line: int) -> None:
    lines = text.split("\n")
    head = head_of(lines, min(line, len(lines) - 1))
    assert head.count("\n") < MAX_LINES
    assert all(one.rstrip() in {kept.rstrip() for kept in lines} for one in head.split("\n"))


def test_no_part_of_a_line_is_shown() -> None:
    """A secret that is cut may look like none."""
    long = " " * (MAX_LINE - 10) + "= 'xK9z4Qw8Rt2Lm7Pb3Vc6'"
    assert head_of(["class Cart:", f"    size{long}", "    owner: str"], 0) == "class Cart:\n    owner: str"
    assert head_of([f"class Cart:{long}", "    owner: str"], 0) == ""


def shown(
    use: str, files: dict[str, str], *definitions: Definition, pieces: tuple[ContextSnippet, ...] = ()
) -> list[str]:
    terms, index = Terms(), WordIndex()
    words = {key: FileWords(text, terms.of_lines(text)) for key, text in files.items()}
    for key, file in words.items():
        index.put(key, file.lines.terms_W)
    ask = query_at(use, len(use), index, terms)
    return [f"{one.path}:{one.line} {one.text}" for one in heads(ask, definitions, pieces, words.get, terms)]


FILES = {"cart.py": PYTHON, "other.py": "def unlike():\n    pass\n"}


def test_what_is_named_at_the_cursor_is_shown() -> None:
    cart = Definition("total", "cart.py", 23)
    found = shown(
        "x = total(", FILES, cart, cart, Definition("unlike", "other.py", 0), Definition("total", "gone.py", 0)
    )
    assert found == ["cart.py:24 def total(cart: Cart) -> int:"]


def test_a_definition_that_has_moved_is_found_by_its_name() -> None:
    moved = {"cart.py": PYTHON.replace("import os", "import os\nimport sys\nimport re")}
    assert shown("x = total(", moved, Definition("total", "cart.py", 23)) == [
        "cart.py:26 def total(cart: Cart) -> int:"
    ]
    assert shown("x = total(", FILES, Definition("total", "other.py", 0)) == []
    assert shown("x = total(", FILES, Definition("total", "cart.py", 900_000)) == []
    assert shown("total", {"cart.py": "a\ntotals = 1\n$total = 2\n"}, Definition("total", "cart.py", 1)) == []


def test_what_a_piece_holds_is_not_shown_twice() -> None:
    piece = ContextSnippet("cart.py", "\n".join(PYTHON.split("\n")[16:32]), 9.0, "cart.py", line=17)
    assert shown("x = total(", FILES, Definition("total", "cart.py", 23), pieces=(piece,)) == []


def test_heads_have_a_part_of_the_room() -> None:
    many = {f"m{number}.py": f"def make_{number}({'argument, ' * 12}):\n    pass\n" for number in range(16)}
    use = " ".join(f"make_{number}" for number in range(16))
    found = shown(use, many, *(Definition(f"make_{number}", f"m{number}.py", 0) for number in range(16)))
    assert 0 < len(found) < 16
    assert sum(len(one.partition(" ")[2]) for one in found) <= MAX_CHARACTERS
