"""Repeated changes at other places: where they are proposed, and where not."""

import re

import pytest

from fastcoder_lsp.core import Change
from fastcoder_lsp.core.differences import whole_lines
from fastcoder_lsp.edits.analogy import analogous
from fastcoder_lsp.edits.minimal import apply
from fastcoder_lsp.edits.values import EditQuestion


def question(
    before: str, after: str, order: tuple[int, ...] = (0, 1), other: bool = False, language: str = "python"
) -> EditQuestion:
    """A user who changed lines of `before` one by one, in `order`, as in `after`; the cursor is at the last one."""
    lines, history = whole_lines(before), list[Change]()
    for at in order:
        new = whole_lines(after)[at]
        history.append(Change("b.py" if other else "a.py", at, lines[at], new))
        lines[at] = lines[at] if other else new
    offset = sum(map(len, lines[: order[-1] + 1]))
    return EditQuestion(1, "a", "a.py", language, 1, "".join(lines), offset, tuple(history))


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


FIRST = "def first(price, rate):\n    x = compute(price, rate, 1)\n"
USE = "    return compute(price, rate, 1)\n"
BRACED = "function first(price, rate) {\n  const x = compute(price, rate, 1);\n"
BRACED_USE = "  return compute(price, rate, 1);\n}\n"


@pytest.mark.parametrize(
    ("language", "text", "order", "renamed"),
    [
        ("python", f"{FIRST}def second(price: int, *, rate=0):\n{USE}", (0, 1), ()),
        ("python", f"{FIRST}price = 3\nprint(compute(price, rate, 1))\n", (0, 1), ()),
        ("python", f"{FIRST}price = 3\nprint(compute(price, rate, 1))\n", (1, 3), ()),
        ("python", f"{FIRST}    y = compute(price, rate, 1) + price + x.price\n{FIRST}", (0, 1), (2, 3)),
        ("python", f"{FIRST}    if x:\n        print(price)\n{USE}", (0, 1), (2, 3)),
        ("python", f"def first(price):\n    y = 1\n{USE * 2}    price += y\n", (2, 3), (0, 3)),
        ("python", f"def first(y):\n    price = y\n{USE * 3}    print(price)\n", (2, 3), (0, 3, 4)),
        ("python", f"def first(price, amount):\n{USE * 3}    print(price)\n", (1, 2), (3,)),
        ("python", f"{FIRST}    y = compute(price, rate, 1) + f'{{price}} price' + 'price'\n", (0, 1), (2, 3)),
        ("python", f"{FIRST}    y = compute(price, rate, price=price)\n", (0, 1), (2, 4)),
        ("python", f"import price\ndef first():\n{USE}def second():\n{USE}def third():\n{USE}", (2, 4), (0, 3)),
        ("python", f"def first():\n{USE * 3}def second():\n{USE}", (1, 2), (2,)),
        ("python", f'def first(price, rate):\n    x = 1, "\f\u2028", compute(price, rate, 1)\n{USE}', (0, 1), (2,)),
        (
            "python",
            "price = 3\nx = f(price, 1)\ndef g():\n    y = {\n        price: f(price, 1),\n    }\n",
            (0, 1),
            (2, 3),
        ),
        ("javascript", f"{BRACED}{BRACED_USE}{BRACED}{BRACED_USE}", (0, 1), (2,)),
        ("javascript", f"{BRACED}}}\nfunction second(price, rate) {{\n{BRACED_USE}", (0, 1), ()),
        (
            "javascript",
            f"{BRACED}  if (x) {{\n    compute(price, rate, 1);\n  }}\n  print(price);\n}}\n",
            (0, 1),
            (2, 3),
        ),
        ("javascript", f"{BRACED}  call(`${{price}} price`, {{ price: 1 }});\n{BRACED_USE}", (0, 1), (2, 5)),
        ("javascript", f"{BRACED}  x.map((price) => price);\n{BRACED_USE}", (0, 1), (4,)),
        ("typescript", "const f = (price: number) => {\n  x(price, 1, 2);\n  x(price, 1, 2);\n};\n", (0, 1), (2,)),
        ("typescript", f"{BRACED}}}\nconst f = (price: number) => compute(price, rate, 1);\n", (0, 1), ()),
        ("go", "func f(price int) (int, error) {\n\tx(price, 1, 2)\n\tx(price, 1, 2)\n}\n", (0, 1), (2,)),
    ],
)
def test_a_variable_is_renamed_where_it_is_that_variable(
    language: str, text: str, order: tuple[int, ...], renamed: tuple[int, ...]
) -> None:
    """From `price` to `amount`: by the user in the first places of the lines in `order`, then in those in `renamed`."""
    lines = whole_lines(text)
    marked = "".join(line.replace("price", "\0", 1) if at in order else line for at, line in enumerate(lines))
    asked = question(text, marked.replace("\0", "amount"), order, language=language)
    numbers = iter(range(text.count("price")))
    wanted = re.sub(
        "price|\0", lambda found: "amount" if next(numbers) in renamed or found[0] == "\0" else "price", marked
    )
    assert apply(asked.text, analogous(asked)) == wanted


@pytest.mark.parametrize("other", ["def other(a, key):\n", "def other(a):\n"])
def test_a_changed_call_keeps_the_meaning_of_its_names(other: str) -> None:
    """An argument is dropped where it is the same variable, and no other function's."""
    text = "def f(a, key):\n" + "    compute(a, key, 1)\n" * 3
    after = text.replace("a, key, ", "a, ")
    asked = question(text + other + "    compute(a, key, 1)\n", after, (1, 2))
    assert apply(asked.text, analogous(asked)) == after + other + "    compute(a, key, 1)\n"


SHOW = "def show(job):\n    log.info('job %s: a', job.name)\n    log.info('job %s: b', job.name)\n"


@pytest.mark.parametrize(
    ("language", "text", "made"),
    [
        ("python", "def stop(job):\n    log.info('job %s: c', job.name)\n", True),
        ("python", "def stop(rate, *, job: Job = None):\n    log.info('job %s: c', job.name)\n", True),
        ("python", "def stop(task):\n    log.info('job %s: c', task.name)\n", False),
        ("python", "def stop():\n    log.info('job %s: c', job.name)\n", False),
        ("python", "def stop(log, job):\n    log.info('job %s: c', job.name)\n", False),
        ("python", "def stop(jobs):\n    for job in jobs:\n        log.info('job %s: c', job.name)\n", False),
    ],
    ids=["parameter", "keyword", "other name", "global", "other log", "loop"],
)
def test_a_change_that_adds_a_parameter_needs_one(language: str, text: str, made: bool) -> None:
    asked = question(SHOW + text, SHOW.replace("log.info", "job.log.debug"), (1, 2), language=language)
    wanted = text.replace("log.info", "job.log.debug") if made else text
    assert apply(asked.text, analogous(asked)) == SHOW.replace("log.info", "job.log.debug") + wanted


def test_a_word_changed_in_comments_is_changed_in_no_code() -> None:
    text = "def f(price):\n    # the price is given\n    # the price is taken\n    return the(price)\n"
    asked = question(text, text.replace("the price is", "the cost is"), (1, 2))
    assert analogous(asked) == ()
    call = "x = cart.price(item, 2)\n"
    asked = question(call + call.replace("x", "# x", 1), call.replace("price", "cost") * 2, (0,), other=True)
    lines = f"{call}# {call}# {call}"
    made = question(lines, lines.replace("# x = cart.price", "# x = cart.cost"), (1, 2))
    assert analogous(made) == ()


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
    text = BEFORE + CALL + "){" * 400_000
    asked = question(text, text.replace("price", "cost"), language="typescript")
    assert analogous(asked) == ()
