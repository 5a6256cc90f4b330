"""What holds for any text around the cursor and anything the model may say."""

import string

from hypothesis import given, settings
from hypothesis import strategies as st

from fastcoder_lsp.postprocess import TextAround, covered, finish, whole_lines
from fastcoder_lsp.syntax import CLOSER_OF, lex
from tests.examples import examples

PARTS = st.sampled_from(
    [
        *"ab()[]{}\"'#,;: \t\n\n\n",
        *("    ", "  ", "\t\t", "def f(x):", "if a {", "return b", "x = 1\n", "`", "//", "<li>", "'''"),
    ]
)
CODE = st.lists(PARTS, max_size=25).map("".join)
SAID = st.lists(PARTS | st.sampled_from(["\r", "\r\n"]), max_size=25).map("".join)
LANGUAGE = st.sampled_from(["python", "typescript", "rust", "go", "html", "ruby", "lua", "plaintext"])


@given(SAID, CODE, CODE, LANGUAGE)
@settings(max_examples=examples(400), deadline=None)
def test_finishing_twice_is_finishing_once(raw: str, before: str, after: str, language: str) -> None:
    around = TextAround(before, after, language)
    once = finish(raw, around)
    assert finish(once, around) == once


@given(SAID, CODE, CODE, LANGUAGE)
@settings(max_examples=examples(400), deadline=None)
def test_form(raw: str, before: str, after: str, language: str) -> None:
    around = TextAround(before, after, language)
    shown = finish(raw, around)
    assert "\r" not in shown
    right = after.partition("\n")[0]
    assert all(line == line.rstrip() for line in shown.split("\n")[:-1])
    assert shown == shown.rstrip() or (shown[-1] in " \t\n" and right.strip())
    assert not shown or shown.strip()
    over = covered(shown, around)
    assert 0 <= over <= len(right)
    said = iter(shown)
    assert all(sign in said for sign in right[:over] if sign.strip(";, \t"))


@given(st.text(st.sampled_from(list("a,()[]{}")), max_size=20), st.text(st.sampled_from(list("a=([{")), max_size=6))
@settings(max_examples=examples(300), deadline=None)
def test_no_closer_too_many(raw: str, before: str) -> None:
    shown = finish(raw, TextAround(before, "", "python"))
    stack = _naive(before)
    assert stack is not None
    assert shown == "" or _naive(before + shown) is not None
    after = _naive(before + shown)
    assert after is not None
    assert after == stack[: len(after)]


@given(st.text(st.sampled_from(list("ab()[]{}\n")), max_size=40))
def test_brackets_as_a_stack(text: str) -> None:
    openers: list[tuple[int, str]] = []
    closers: list[tuple[int, str]] = []
    for at, sign in enumerate(text):
        if sign in CLOSER_OF:
            openers.append((at, sign))
        elif sign in CLOSER_OF.values():
            if openers and CLOSER_OF[openers[-1][1]] == sign:
                openers.pop()
            else:
                closers.append((at, sign))
    lexed = lex(text, "python")
    assert (lexed.closers, list(lexed.openers), lexed.quote) == (closers, openers, "")


@given(st.text(string.printable, max_size=60), st.sampled_from(["", "    ", "x = "]))
def test_unfinished_text_is_cut_at_its_end_only(text: str, before: str) -> None:
    assert text.startswith(whole_lines(text, before))


def _naive(text: str) -> list[str] | None:
    """The openers left open in `text`; None where a closer does not fit."""
    stack: list[str] = []
    for sign in text:
        if sign in CLOSER_OF:
            stack.append(sign)
        elif sign in CLOSER_OF.values() and (not stack or CLOSER_OF[stack.pop()] != sign):
            return None
    return stack
