"""A suggestion's lines begin at a depth that the code above allows, with tabs or spaces as the document has them."""

import pytest

from tests.postprocess.cases import Case, cases, check, name

CASES = cases('''
--- python: blanks that stand before the cursor are not said again
def f(x):
    ▮    return x▮
>>>
def f(x):
    ▮return x▮
--- python: the first line brings its own where the line is empty
def f(x):
▮    return x▮
--- python: back to the depth of a block above
def f(x):
    if x:
        y()
▮    return x▮
--- python: a depth that no block has
def f(x):
    y = x
▮       return y▮
>>>
def f(x):
    y = x
▮return y▮
--- python: one blank is enough
x = ▮ 1▮
>>>
x = ▮1▮
--- python: a tab among spaces
def f():
  if a:
    ▮b()
→c()▮
>>>
def f():
  if a:
    ▮b()
  c()▮
--- python: a block of the text's own stays as it is
def f(x):
    ▮if x:
        return 1
    return 2▮
--- python: a first line too deep takes its block along
def f(x):
    y = x
    ▮  if y:
          return 1
      return 2▮
>>>
def f(x):
    y = x
    ▮if y:
        return 1
    return 2▮
--- python: a line that goes on may stand where it likes
x = call(
▮       a,
       b)▮
--- python: the lines of a string stay
def f():
→a()
→▮b()
    x = """
    one
"""▮
>>>
def f():
→a()
→▮b()
→x = """
    one
"""▮
--- python: a decorator at the depth of its class
class A:
    def f(self):
        pass

▮    @property
    def g(self):
        pass▮
--- python: the rest of an indentation that is half typed
class A:
    def f(self):
        pass

  ▮  def g(self):
        pass▮
--- python: the blanks of a half-typed indentation are no line that begins with them
def f():
    a()
  ▮  b()▮
--- python: a half-typed indentation goes on to that of the block
def f():
    a()
 ▮b()
    c()▮
>>>
def f():
    a()
 ▮   b()
    c()▮
--- python: and its block goes along
def f():
    a()
  ▮if b:
      c()▮
    d()
>>>
def f():
    a()
  ▮  if b:
      c()▮
    d()
--- python: to that of a block that the line above opens
def f():
    if a:
        b()
    else:
      ▮c()▮
>>>
def f():
    if a:
        b()
    else:
      ▮  c()▮
--- python: the line below says which of two blocks it is
def f():
    if a:
        b()
  ▮c()▮
        d()
>>>
def f():
    if a:
        b()
  ▮      c()▮
        d()
--- python: nothing where two blocks will do
def f():
    if a:
        b()
  ▮▮c()▮
--- python: nothing where the indentation is too deep for any block
def f():
    a()
      ▮▮b()▮
--- python: the columns of comments and of lines that go on are no blocks
def f(
      a,
):
# a
    """b
  c"""
    ▮d()▮
--- go: spaces become the document's tabs
func f() {
→if a {
→→▮b()
        c()▮
>>>
func f() {
→if a {
→→▮b()
→→c()▮
--- typescript: tabs become the document's two spaces
function f() {
  if (a) {
    ▮b();
→→c();▮
  }
}
>>>
function f() {
  if (a) {
    ▮b();
    c();▮
  }
}
--- typescript: a doc comment's stars are no indentation
class A {
→f() {}

→▮/**
→ * a
→ */
→g() {}▮
}
--- rust: a chain keeps its depth
fn f() {
    let a = b
▮        .c()
        .d();▮
}
--- rust: an indented line where the cursor stands indented
fn f() {
    ▮    a();
        b();▮
}
>>>
fn f() {
    ▮a();
        b();▮
}
--- c: an aligned table stays aligned
static int a[] = {
→▮1,      2,
→10,     20,▮
};
--- java: four spaces become tabs, two levels deep
class A {
→void f() {
→→▮if (a) {
            b();
        }▮
→}
}
>>>
class A {
→void f() {
→→▮if (a) {
→→→b();
→→}▮
→}
}
--- ruby: the document's two spaces
def f
  a
  ▮  b▮
end
>>>
def f
  a
  ▮b▮
end
--- lua: tabs for four spaces
function f()
→if a then
→→▮b()
        c()▮
→end
end
>>>
function f()
→if a then
→→▮b()
→→c()▮
→end
end
--- yaml: an indented key stays where it is said
a:
  b: 1
▮  c: 2▮
--- html: markup is left where it is said
<ul>
▮    <li>a</li>▮
</ul>
--- makefile: a recipe's tab stays
all:
▮→make a▮
''')


@pytest.mark.parametrize("case", CASES, ids=name)
def test_indentation_is_the_documents(case: Case) -> None:
    check(case)
