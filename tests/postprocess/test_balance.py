"""Brackets and quotes: a suggestion closes what it opens, and nothing that is closed below already."""

import pytest

from tests.postprocess.cases import Case, cases, check, name

CASES = cases(r'''
--- python: what is open before the cursor may be closed
foo(▮a, b)▮¶
--- python: a bracket that the text opens is closed
foo(▮a, [b▮¶
>>>
foo(▮a, [b]▮¶
--- python: a string that the text opens is closed
x = ▮"abc▮
>>>
x = ▮"abc"▮
--- python: a closer of nothing goes
x = ▮f(a) + g(b)▮)▮
--- python: a bracket in a string is none
x = ▮f(")")▮
--- python: what stands in a comment is left alone
x = 1  # it's (▮fine▮
--- python: a bracket in a comment of the text is none
x = ▮f(a)  # see (b▮
--- python: a string of several lines is not closed for it
x = ▮"""abc▮
--- python: what is open in a subscript and a call
x = a[▮f(b▮]
>>>
x = a[▮f(b)▮]
--- typescript: a block that the document opened stays open
if (a) {▮
  b();▮¶
--- typescript: a branch whose end stands below
function f() {
  if (a) {
    b();▮
  } else {
    c();▮
  }▮
  }
}
--- typescript: branch after branch
try {
  a();
▮} catch (error) {
  b(error);
} finally {
  c();▮
}▮
}
--- typescript: a branch whose end is missing below
function f() {
  if (a) {
    b();
  ▮} else {
    c();
  }▮
}
--- typescript: all that is open above may be closed
class A {
  f() {
    ▮g();
  }
}▮
--- typescript: what is closed below is not closed once more
class A {
  f() {
    ▮g();
  }▮
}▮
}
--- typescript: a function within a call is closed as it was opened
on("a", ▮() => {
  b();▮
>>>
on("a", ▮() => {
  b();
}▮
--- typescript: code in a template string is left alone
const a = `${▮b(c▮}`;
--- typescript: a regular expression's bracket is none
const a = ▮b.replace(/\(/, c)▮
--- javascript: an object's closer below is its own
const a = {
  b: ▮[1, 2▮,
};
>>>
const a = {
  b: ▮[1, 2]▮,
};
--- go: a function literal is closed on a line of its own
func f() {
→▮g(func() {
→→h()▮
}
>>>
func f() {
→▮g(func() {
→→h()
→})▮
}
--- go: a raw string's bracket is none
var a = ▮f(`(`)▮
--- rust: a lifetime is no quote
let x: &'a str = ▮foo('(');▮
--- rust: a macro's brackets
let a = ▮vec![f(1), f(2▮
>>>
let a = ▮vec![f(1), f(2)]▮
--- rust: a block too many goes
fn f() {
    ▮a();
}▮
}▮
--- c: a block below another one
int f(void) {
    ▮if (a) {
        b();▮
    return 0;
}
>>>
int f(void) {
    ▮if (a) {
        b();
    }▮
    return 0;
}
--- c: a character that is a bracket
char a = ▮f('(')▮;
--- java: a call in a call
class A {
    int a = ▮f(g(1▮;
}
>>>
class A {
    int a = ▮f(g(1))▮;
}
--- css: a rule is closed
▮a {
  color: red;▮
>>>
▮a {
  color: red;
}▮
--- json: a list in an object
{
  "a": ▮[1, [2▮
}
>>>
{
  "a": ▮[1, [2]]▮
}
--- lua: a table in a call
f(▮{ a = { 1 }▮)
>>>
f(▮{ a = { 1 }}▮)
--- ruby: a language whose brackets are not known well enough is left alone
x = ▮f(a▮
--- html: an apostrophe and a bracket are text
<p>▮don't (worry</p>▮
''')


@pytest.mark.parametrize("case", CASES, ids=name)
def test_brackets_balance(case: Case) -> None:
    check(case)
