"""What is shown of a definition whose place is known, and which file tests which."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fastcoder_lsp.core import Definition, at_once, ready
from fastcoder_lsp.index.terms import Terms
from fastcoder_lsp.index.word_index import WordIndex
from fastcoder_lsp.prompt.context import ContextSnippet
from fastcoder_lsp.prompt.definitions import (
    MAX_CHARACTERS,
    MAX_EXAMINED,
    MAX_LINE,
    MAX_LINES,
    MAX_OUTLINE,
    counterpart_of,
    head_of,
    heads,
    outline,
    stem_of,
)
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
    found = at_once(heads(ask, definitions, pieces, lambda key: ready(words.get(key)), terms))
    return [f"{one.path}:{one.line} {one.text}" for one in found]


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


PAIRS = [
    ("shop/cart.py", "tests/test_cart.py"),
    ("shop/cart.py", "shop/cart_test.py"),
    ("shop/_cart.py", "tests/test_cart.py"),
    ("src/cart.ts", "src/cart.test.ts"),
    ("src/Cart.tsx", "src/Cart.spec.ts"),
    ("src/cart.js", "src/__tests__/cart.mjs"),
    ("cart.go", "cart_test.go"),
    ("src/main/java/shop/Cart.java", "src/test/java/shop/CartTest.java"),
    ("shop/Cart.cs", "shop.Tests/CartTests.cs"),
    ("src/cart.rs", "tests/cart.rs"),
    ("lib/cart.rb", "spec/cart_spec.rb"),
    ("lib/cart.ex", "test/cart_test.exs"),
    ("src/cart.cc", "src/cart_unittest.cpp"),
]


@pytest.mark.parametrize(("code", "test"), PAIRS)
def test_both_ways(code: str, test: str) -> None:
    others = ["README.md", "shop/basket.py", "tests/test_carton.py", "src/carts.ts", code, test]
    assert counterpart_of(code, others) == test
    assert counterpart_of(test, others) == code
    assert stem_of(code) == stem_of(test)
    assert stem_of(code) in test


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("a/cart.py", "b/cart.py"),
        ("a/cart.py", "tests/test_cart.ts"),
        ("tests/test_cart.py", "tests/cart_test.py"),
        ("a/__init__.py", "tests/test___init__.py"),
        ("src/index.ts", "src/index.test.ts"),
        ("a/contest.py", "a/con.py"),
        ("Testament.java", "ament.java"),
        ("", "test_.py"),
    ],
)
def test_others_do_not_belong_together(one: str, other: str) -> None:
    assert counterpart_of(one, [other]) is None


def test_the_nearest_one_is_taken() -> None:
    others = ["b/tests/test_cart.py", "a/tests/test_cart.py", "test_cart.py"]
    assert counterpart_of("a/cart.py", others) == "a/tests/test_cart.py"
    assert counterpart_of("b/cart.py", others) == "b/tests/test_cart.py"


def test_few_names_of_many_are_compared() -> None:
    below = [f"app/views/view_{number}.py" for number in range(10_000)]
    assert counterpart_of("app/app.py", [*below, "app/tests/test_app.py"]) == "app/tests/test_app.py"
    alike = iter([f"views/app_{number}.py" for number in range(10_000)])
    assert counterpart_of("app/app.py", alike) is None
    assert len(list(alike)) == 10_000 - MAX_EXAMINED


def test_an_outline_is_the_lines_that_define_something() -> None:
    text = "import os\n\n\nclass Cart:\n    total = 1\n\n    def add(self):\n        pass\n\n\nasync def pay(): ...\n"
    assert outline(text) == "class Cart:\n    def add(self):\nasync def pay(): ..."
    script = 'import x from "x";\nexport const a = 1;\ndescribe("cart", () => {\n  it("adds", () => {\n    let b;\n'
    assert outline(script) == 'export const a = 1;\ndescribe("cart", () => {\n  it("adds", () => {'
    assert outline(f"const a{' ' * 140}= 'xK9z4Qw8Rt2Lm7Pb3Vc6'\nconst b = 1") == "const b = 1", "no part of a line"
    assert 0 < len(outline("def f(): pass\n" * 10_000)) <= MAX_OUTLINE
    assert len(outline("def f" + "(" * 10_000_000)) <= MAX_OUTLINE
