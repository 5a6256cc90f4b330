"""Which file tests which, by its name, and what is shown of it."""

import pytest

from fastcoder_lsp.prompt.definitions import MAX_EXAMINED, MAX_OUTLINE, counterpart_of, outline, stem_of

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
