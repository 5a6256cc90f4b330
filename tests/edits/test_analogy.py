"""Repeated changes at other places: where they are proposed, and where not."""

import pytest

from fastcoder_lsp.core import Change
from fastcoder_lsp.edits.analogy import analogous
from fastcoder_lsp.edits.minimal import apply
from fastcoder_lsp.edits.values import EditQuestion


def question(before: str, after: str, order: tuple[int, ...] = (0, 1), other: bool = False) -> EditQuestion:
    """A user who changed lines of `before` one by one, in `order`, as in `after`; the cursor is at the last one."""
    lines, history = before.splitlines(keepends=True), list[Change]()
    for at in order:
        new = after.splitlines(keepends=True)[at]
        history.append(Change("b.py" if other else "a.py", at, lines[at], new))
        lines[at] = lines[at] if other else new
    offset = sum(map(len, lines[: order[-1] + 1]))
    return EditQuestion(1, "a", "a.py", "python", 1, "".join(lines), offset, tuple(history), 0.0)


BEFORE = "x = cart.price(item, 2)\ny = cart.price(item, 3)\n"
AFTER = BEFORE.replace("price", "cost")
CALL, CHANGED = "z = cart.price(item, 4)\n", "z = cart.cost(item, 4)\n"
FAR = 20 * "\n"


@pytest.mark.parametrize(
    ("rest", "wanted"),
    [
        (CALL, CHANGED),
        ("z = shop.cart.price(item, 2)\n", "z = shop.cart.cost(item, 2)\n"),
        (3 * CALL, 3 * CHANGED),
        (CALL + FAR + CALL, CHANGED + FAR + CALL),
    ],
    ids=["call", "inside", "near", "far"],
)
def test_a_repeated_change_is_made_at_the_next_places(rest: str, wanted: str) -> None:
    """At the nearest one and those near it; the next question proposes the others."""
    asked = question(BEFORE + rest, AFTER + rest)
    assert apply(asked.text, analogous(asked)) == AFTER + wanted


@pytest.mark.parametrize(
    "rest",
    [
        "def price(self):\n",
        "z = cart.prices(item, 2)\n",
        CHANGED,
        f"# {CALL}",
        "z = 'x = cart.price(item, 2)'\n",
        "return price\n",
        "",
    ],
    ids=["definition", "part", "made", "comment", "string", "unlike", "none"],
)
def test_no_other_place_is_changed(rest: str) -> None:
    asked = question(BEFORE + rest, AFTER + rest)
    assert analogous(asked) == ()


@pytest.mark.parametrize(
    ("before", "change", "rest", "made"),
    [
        ("    f(alpha, key=one)\n    f(beta, key=one)\n", "key=one>key=two", "    f(gamma, key=one)\n", True),
        ("log('key lost: a')\nlog('key lost: b')\n", "key lost>key found", "log('key lost: c')\n", True),
        ("a = await one.load(1)\nb = await two.load(1)\n", "await > ", "c = await six.load(1)\n", False),
        ("a = get(price, price)\nb = get(price, price)\n", "price>cost", "c = get(price, price)\n", True),
        ("\ta = 1\n\tb = 1\n", "\t>    ", "\tc = 1\n", False),
        ("a = 1\nb = 1\n", "1>1\\2(", "c = 1\n", False),
    ],
    ids=["argument", "string", "too little alike", "twice in a line", "blanks", "number"],
)
def test_kinds_of_changes(before: str, change: str, rest: str, made: bool) -> None:
    """`change` is what the user replaces in both lines, and by what."""
    old, _, new = change.partition(">")
    changed = before.replace(old, new)
    asked = question(before + rest, changed + rest)
    assert apply(asked.text, analogous(asked)) == changed + (rest.replace(old, new) if made else rest)


def test_what_the_user_passed_over_stays() -> None:
    text = BEFORE + CALL
    passed = question(text, AFTER + CHANGED, (0, 2))
    assert analogous(passed) == ()
    once = question(text, AFTER + CHANGED, (0,))
    assert analogous(once) == ()
    text = BEFORE + "other = 1\n" + CALL
    other = question(text, text.replace("price", "cost").replace("1", "2"), (0, 1, 2))
    assert analogous(other) == ()


def test_changes_in_another_file_count() -> None:
    asked = question(BEFORE, AFTER, other=True)
    assert apply(asked.text, analogous(asked)) == AFTER


def test_hostile_texts_cost_little() -> None:
    line = "a.b(" * 3_000 + "\n"
    asked = question(line * 3, line.replace("b(", "c(") * 3)
    assert analogous(asked) == ()
    text = ("x = f(a.*b, (?:1), 2)\n" * 2) + "f(" * 200_000
    asked = question(text, text.replace("a.*b", "a+b"))
    assert analogous(asked) == ()
