"""Signs right of the cursor: written over where the text brings the same, else left alone."""

import pytest

from fastcoder_lsp.postprocess import finish, replaces
from tests.postprocess.cases import Case, cases, check, name

LONG = 'def total(prices):\n    return sum(p[0] for p in prices) + {"a": (1, 2)}["a"][0]\n\n\n' * 600
C_LONG = 'int total(int *a, int n) {\n    if (a && (n > 0)) { return f(a[0], "x"); }\n    return 0;\n}\n\n' * 500
FAR = {"python": LONG, "c": C_LONG, "typescript": C_LONG.replace("int *a, int n", "a, n").replace("int ", "function ")}
"""So much code of a language that a document with it above and below is not read whole."""
CASES = cases('''
--- python: what goes on beyond the editor's parenthesis writes over it
def f(▮a, b):
    return a▮)
>>>
def f(▮a, b):
    return a▮
--- python: what stays before it leaves it
def f(▮a, b▮)
--- python: what ends with it is cut before it
def f(▮a, b▮)▮)
--- python: beyond the editor's quote and bracket
x = d["▮key"].upper()▮"]
>>>
x = d["▮key"].upper()▮
--- python: before the editor's quote and bracket
x = d["▮key▮"]
--- python: a call beyond the parenthesis, another one after it
x = call(▮a, b) + call(c▮)▮)
--- python: the first of two parentheses
x = call(other(▮a), b)▮))
>>>
x = call(other(▮a), b)▮
--- python: in a comment, by the signs of the line alone
# see call(▮a) and call(b▮)▮)
--- python: three quotes are one closer
x = """▮a""".strip()▮"""
>>>
x = """▮a""".strip()▮
--- python: the closer of a line above stays
rows = Rows(
    [first,▮ second(a, 'b')], strict=True▮)
print(rows)
--- typescript: the semicolon behind the closer stays
foo(▮a, (b)▮);
--- typescript: beyond the closer, the semicolon too
foo(▮a).then(() => b()▮);▮);
--- typescript: an arrow function's block
on('a', ▮() => {
  b();
});▮)
>>>
on('a', ▮() => {
  b();
});▮
--- typescript: a quote that a text holds of its own
const kind = a === pick('▮draw') : 'draw▮'

--- rust: beyond a macro's closer
println!("{}", ▮a); b()▮);
>>>
println!("{}", ▮a); b()▮;
--- rust: beyond the bracket of an attribute
#[derive(▮Clone)]
struct A;▮)]
>>>
#[derive(▮Clone)]
struct A;▮
--- go: beyond the closer of a call
if err := f(▮a); err != nil {
→return err
}▮)
>>>
if err := f(▮a); err != nil {
→return err
}▮
--- go: a brace that the editor closed
x := A{▮B: 1}.C()▮}
>>>
x := A{▮B: 1}.C()▮
--- c: a condition's two parentheses
if ((a = f(▮b)) == 0)▮))
>>>
if ((a = f(▮b)) == 0)▮
--- c: the closer is left for another line's opener
int g(void) {
    if ((p = make(
            q,▮ r)) == 0▮)
    {
        return 1;
    }
}
--- ruby: beyond the closer, by the line alone
x = f(▮a).b(c▮)▮)
--- html: beyond the quote of an attribute
<a href="▮/b" class="c▮">▮">
--- python: a selector alone, and a text that begins with it
return order▮.total()▮.
>>>
return order▮.total()▮
--- cpp: the same of two signs
return order▮->total();▮->
>>>
return order▮->total();▮
--- python: a text that does not begin with it
return order▮s▮.
--- python: a selector with a name
return order▮.total()▮.real
--- go: lines of a chain that end with it
x := order▮.With(a)▮.
→Total()
--- go: another one of them
x := order.
→With(a)▮.And(b)▮.
→Total()
--- yaml: a flow list
a: [▮1, 2]  # two▮]
>>>
a: [▮1, 2]  # two▮
''')
OF_OTHERS = cases("""
--- python: a list in a call's list, and an argument behind it
rows = Rows(
    [first,▮ second(a, 'b')], strict=True▮)
print(rows)
--- python: an array in a list in a call
check([
    array([1]),
    array([▮0, 1], dtype=int▮),
])
--- python: a call in a call, and an argument behind it
x = call(
    Name('a', Wrapped(▮b, "c"), names=True▮))
print(x)
--- c: a condition that the line opened
int g(void) {
    if ((p = make(
            q,▮ r)) == 0▮)
    {
        return 1;
    }
}
--- python: an example in a docstring
def f():
    \"\"\"Example.

    >>> array([[1, 2],
    ...        ▮[3, 4▮]])
    \"\"\"
--- typescript: a closer in a comment
/**
 * ```
 * on('exit', () => {
 ▮* ▮});
 * ```
 */
const a = 1;
--- python: a string that is opened in the text, over lines
x = [
    dict(
        ▮options='''Options(4, 3▮)
        .wide()''',
    ),
]
--- typescript: a quote that opens no string
const kind = a === pick('▮draw') : 'draw▮'

function f() {
}
""")
"""The closer is another line's, or no bracket at all, and the text closes none of them."""
DOUBLED = cases("""
--- python: the call goes on beyond the closer
x = call(▮a, b) + call(c▮)▮)
print(x)
--- python: the inner one of two calls
x = call(other(▮a), b)▮))
print(x)
>>>
x = call(other(▮a), b)▮
print(x)
--- python: in a comment, where signs are counted on the line
# see call(▮a) and call(b▮)▮)
""")
"""What the editor closed by itself, and the text closes too, is there once."""


@pytest.mark.parametrize("case", CASES, ids=name)
def test_closers_of_the_editor_are_written_over(case: Case) -> None:
    check(case)


@pytest.mark.parametrize("far", [False, True], ids=["short file", "long file"])
@pytest.mark.parametrize("case", [*OF_OTHERS, *DOUBLED, *(case for case in CASES if case.language in FAR)], ids=name)
def test_however_much_stands_above_and_below(case: Case, far: bool) -> None:
    check(case.within(FAR[case.language], FAR[case.language]) if far else case)


@pytest.mark.parametrize("entries", [1, 5000], ids=["short file", "long file"])
def test_a_bracket_that_is_opened_too_far_above(entries: int) -> None:
    above, below = "DATA = [\n" + '    {"k": call(1)},\n' * entries, "]\n"
    before, said, after = above + '    {"k": f(', 'a)}, {"k": g(b)', ")},\n" + below
    assert finish(said, before, after, "python") == said
    assert replaces(said, before, after, "python") == 1
