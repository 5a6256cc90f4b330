"""The rest of a rename after one change: all places of the variable, and no other name's."""

import ast
import random
import re
import sysconfig
from collections import Counter
from pathlib import Path

import pytest

from fastcoder_lsp.core import Change
from fastcoder_lsp.core.differences import whole_lines
from fastcoder_lsp.edits.analogy import analogous
from fastcoder_lsp.edits.history import EditHistory
from fastcoder_lsp.edits.minimal import apply
from fastcoder_lsp.edits.values import EditQuestion
from tests.edits.python_renames import functions, parameters, renamed_tree

OLD, NEW = "price", "amount"


def question(text: str, history: tuple[Change, ...], language: str) -> EditQuestion:
    return EditQuestion(1, "a", "a.py", language, 1, text, len(text), history)


def followed(before: str, after: str, language: str) -> str:
    """A text after the user changed it and took the edit that is offered; each changed line is one change."""
    old, new = whole_lines(before), whole_lines(after)
    changed = [at for at, line in enumerate(old) if line != new[at]]
    history = tuple(Change("a.py", at, old[at], new[at]) for at in changed)
    return apply(after, analogous(question(after, history, language)))


CASES = dict(re.findall(r"### (.*)\n((?:(?!###).*\n)+)", Path(__file__).with_suffix(".txt").read_text("utf-8")))
"""Name, beginning with a language → a text: the user renames `«price»`, and the rest of the rename is at `‹price›`."""


@pytest.mark.parametrize("name", CASES)
def test_the_other_places_are_offered_at_once(name: str) -> None:
    text = CASES[name]
    before, after = re.sub("[«»‹›]", "", text), re.sub("[‹›]", "", text.replace(f"«{OLD}»", NEW))
    wanted = re.sub(f"«{OLD}»|‹{OLD}›", NEW, text)
    assert followed(before, after, name.partition(":")[0]) == wanted


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("def f(price, amount):\n    return price + amount\n", "def f(amount, amount):\n    return price + amount\n"),
        ("def f(price):\n    amount = 2\n    return price\n", "def f(amount):\n    amount = 2\n    return price\n"),
        ("def f(price):\n    return amount(price)\n", "def f(amount):\n    return amount(price)\n"),
        ("def f(price):\n    price = 2\n    return price\n", "def f(amount):\n    price = 2\n    return price\n"),
        ("price = 1\nprice = 2\nprint(price)\n", "price = 1\namount = 2\nprint(price)\n"),
        ("def f(price):\n    return g(price, price)\n", "def f(price):\n    return g(len, price)\n"),
        ("def f(x):\n    return x.price + price\n", "def f(x):\n    return x.amount + price\n"),
        ("import price\nx = price.a\ny = price.b\n", "import price\nx = amount.a\ny = price.b\n"),
        ("def f(x: price):\n    y: price = x\n", "def f(x: amount):\n    y: price = x\n"),
        ("from x import *\ndef f(price):\n    print(price)\n", "from x import *\ndef f(price):\n    print(amount)\n"),
        ("from x import price\nprint(price)\n", "from x import amount\nprint(price)\n"),
        (
            "from x import (\n    a,\n    price,\n)\nprint(price)\n",
            "from x import (\n    a,\n    amount,\n)\nprint(price)\n",
        ),
        ("# price\nprint(price)\n", "# amount\nprint(price)\n"),
    ],
)
def test_nothing_is_offered_without_proof(before: str, after: str) -> None:
    assert followed(before, after, "python") == after


def test_a_shorthand_property_keeps_its_name() -> None:
    before = "function f(price) {\n  return { price };\n}\n"
    after = before.replace("(price)", "(amount)")
    assert followed(before, after, "javascript") == after.replace("{ price }", "{ price: amount }")


@pytest.mark.parametrize("pause", [100.0, 5_000.0], ids=["at once", "with pauses"])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_a_name_may_be_typed_letter_by_letter(pause: float, end: str) -> None:
    text = f"def f(price):{end}    return price{end}"
    wanted, now, history = (
        text.replace("price", "amount"),
        0.0,
        EditHistory(lambda _: True, lambda _uri, _above, lines: [False] * len(lines)),
    )
    at = text.index("price")
    for new in ["", *(NEW[: count + 1] for count in range(len(NEW)))]:
        after = f"{text[:at]}{new}{text[text.index(')') :]}"
        history.note("a", "a.py", text, after, now)
        text, now = after, now + pause
    offered = analogous(question(text, history.changes(now), "python"))
    assert apply(text, offered) == wanted


def test_an_undone_rename_is_not_followed() -> None:
    text = "def f(price):\n    return price\n"
    after = text.replace("(price", "(amount")
    history = EditHistory(lambda _: True, lambda _uri, _above, lines: [False] * len(lines))
    history.note("a", "a.py", text, after, 0.0)
    history.note("a", "a.py", after, text, 5_000.0)
    assert analogous(question(text, history.changes(6_000.0), "python")) == ()


def test_parameters_of_real_functions_are_renamed_by_scope() -> None:
    """Functions of the standard library: no offer is wrong, and few are missing."""
    chosen, seen = random.Random(4), Counter[str]()
    files = sorted(Path(sysconfig.get_path("stdlib")).glob("*.py"))
    for file in chosen.sample(files, 60):
        text = file.read_text(encoding="utf-8")
        if len(text) > 60_000 or "\f" in text:
            continue
        tree = ast.parse(text)
        given = [(one, name) for one in functions(tree) for name in parameters(one) if name.arg not in {"self", "cls"}]
        for function, parameter in chosen.sample(given, min(4, len(given))):
            line, old = text.split("\n")[parameter.lineno - 1], parameter.arg
            new = f"{old}_now"
            after = f"{line[: parameter.col_offset]}{new}{line[parameter.col_offset + len(old) :]}"
            changed = "\n".join(after if at == parameter.lineno else one for at, one in enumerate(text.split("\n"), 1))
            if f"{{{old}=" in text or not line.isascii():
                continue
            edits = analogous(
                question(changed, (Change("a.py", parameter.lineno - 1, line + "\n", after + "\n"),), "python")
            )
            wanted = ast.dump(renamed_tree(tree, function, parameter, new))
            alone = wanted == ast.dump(ast.parse(changed))
            if edits:
                assert ast.dump(ast.parse(apply(changed, edits))) == wanted, (file.name, function.name, old)
            seen["right" if edits or alone else "silent"] += 1
    assert seen["right"] >= 0.95 * seen.total() > 50
