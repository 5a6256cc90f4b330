"""Closers that belong to what was opened in another line, or to no bracket of the text at all, are not written over."""

import pytest

from fastcoder_lsp.postprocess import finish, replaces

LONG = 'def total(prices):\n    return sum(p[0] for p in prices) + {"a": (1, 2)}["a"][0]\n\n\n' * 600
C_LONG = 'int total(int *a, int n) {\n    if (a && (n > 0)) { return f(a[0], "x"); }\n    return 0;\n}\n\n' * 500
PLACES = [
    # what the text closes was opened in the cursor's line, what stands right of it in a line above
    ("python", "rows = Rows(\n    [first,", " second(a, 'b')], strict=True", ")\nprint(rows)\n"),
    ("python", "check([\n    array([1]),\n    array([", "0, 1], dtype=int", "),\n])\n"),
    ("python", "x = call(\n    Name('a', Wrapped(", 'b, "c"), names=True', "))\nprint(x)\n"),
    ("c", "int g(void) {\n    if ((p = make(\n            q,", " r)) == 0", ")\n    {\n        return 1;\n    }\n}\n"),
    # signs in strings and comments, of which the text closes none
    ("python", 'def f():\n    """Example.\n\n    >>> array([[1, 2],\n    ...        ', "[3, 4", ']])\n    """\n'),
    ("typescript", "/**\n * ```\n * on('exit', () => {\n ", "* ", "});\n * ```\n */\nconst a = 1;\n"),
    ("python", "x = [\n    dict(\n        ", "options='''Options(4, 3", ")\n        .wide()''',\n    ),\n]\n"),
    ("typescript", "const kind = a === pick('", "draw') : 'draw", "'\n\nfunction f() {\n}\n"),
]
DOUBLED = [
    ("python", "x = call(", "a, b) + call(c)", ")\nprint(x)\n", "x = call(a, b) + call(c)\nprint(x)\n"),
    ("python", "x = call(other(", "a), b)", "))\nprint(x)\n", "x = call(other(a), b)\nprint(x)\n"),
    ("python", "# see call(", "a) and call(b)", ")\n", "# see call(a) and call(b)\n"),
]
AROUND = {
    "python": LONG,
    "c": C_LONG,
    "typescript": C_LONG.replace("int *a, int n", "a, n").replace("int ", "function "),
}


@pytest.mark.parametrize("far", [False, True], ids=["short file", "long file"])
@pytest.mark.parametrize(("language", "before", "text", "after"), PLACES)
def test_closers_of_others_are_kept(language: str, before: str, text: str, after: str, far: bool) -> None:
    """The true text of a document goes in and nothing right of it goes, however much there is above and below."""
    around = AROUND[language] if far else ""
    before, after = around + before, after + "\n\n" + around
    assert finish(text, before, after, language) == text
    assert replaces(text, before, after, language) == 0


@pytest.mark.parametrize("far", [False, True], ids=["short file", "long file"])
@pytest.mark.parametrize(("language", "before", "text", "after", "expect"), DOUBLED)
def test_doubled_closers_are_written_over(
    language: str, before: str, text: str, after: str, expect: str, far: bool
) -> None:
    """What the editor closed by itself, and the text closes too, is there once."""
    around = AROUND[language] if far else ""
    above, below = around + before, after + around
    shown = finish(text, above, below, language)
    assert above + shown + below[replaces(shown, above, below, language) :] == around + expect + around
