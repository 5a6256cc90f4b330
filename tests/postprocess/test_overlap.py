"""What a suggestion repeats of the text that follows the cursor goes: the rest of its line, and the lines below."""

import pytest

from tests.postprocess.cases import Case, cases, check, name

CASES = cases("""
--- python: the closer right of the cursor is not said again
foo(▮a, b▮)▮)
--- python: a bracket that the text itself opened stays
foo(▮bar(a)▮)
--- python: of two closers the document's goes
foo(▮bar(a)▮)▮)
--- python: two closers of the document
foo([▮1, 2▮])▮])
--- python: the end of a string and a call
print("hel▮lo▮")▮")
--- python: text that repeats nothing
print("hel▮lo▮")
--- python: the last operand stands there already
total = a ▮+ b▮ + c▮ + c
--- python: the end of a condition stands there already
if ▮x > 1▮ and ready:▮ and ready:
--- python: the alternative that stands there already
return ▮self.title or ▮self.name▮self.name
--- python: nothing but the letter that stands there
x = s▮▮s▮s
--- python: one letter at the end is chance
x = f▮oos▮s
--- python: the statement below is said again
def f(x):
    ▮y = x + 1▮
    return y▮
    return y
--- python: nothing but the statement below
def f(x):
    ▮▮    return y▮
    return y
--- python: all below is said, and then more
a = 1
▮b = 2▮
c = 3
d = 4
e = 5▮
c = 3
d = 4
--- python: lines that are like those below for a while only
▮a = 1
b = 2
c = 4▮
a = 1
b = 2
c = 3
--- typescript: the end of the function stands below
function f() {
  ▮return 1;▮
}▮
}
--- typescript: the same, from the opener's line
function f() {▮
  return 1;▮
}▮
}
--- typescript: half of the line's arguments stand right of the cursor
call(first, ▮second, ▮third, fourth);▮third, fourth);
--- javascript: a chain's next call stands below
const a = b
  ▮.map(f)▮
  .filter(g);▮
  .filter(g);
--- rust: two ends of blocks stand below
fn f() {
    if a {
        ▮b();▮
    }
}▮
    }
}
--- rust: the next match arm stands below
match a {
    ▮Some(b) => b,▮
    None => 0,▮
    None => 0,
}
--- go: the return stands below, indented by tabs
func f() error {
→▮a()▮
→return nil▮
→return nil
}
--- c: a semicolon and what is before it
x = f(▮a, b▮);▮);
--- c: an operator is not cut in two
x = a ▮* b *▮*c;
--- html: the closing tag stands below
<ul>
  ▮<li>a</li>▮
</ul>▮
</ul>
--- html: the rest of the tag stands right of the cursor
<a href="▮/b▮">c</a>▮">c</a>
--- ruby: a block's end alone is no statement that would be dropped
def f
  if a
    ▮b
  end▮
end
--- ruby: the statement below and its end are said again
def f
  ▮b▮
  c
end▮
  c
end
--- lua: the return stands below
function f()
  ▮local a = 1▮
  return a▮
  return a
end
--- shellscript: the next command stands below
set -e
▮make▮
make test▮
make test
--- yaml: the key below is said again
a: 1
▮b: 2▮
c: 3▮
c: 3
--- json: the entry below is said again
{
  "a": 1,
  ▮"b": 2,▮
  "c": 3▮
  "c": 3
}
""")


@pytest.mark.parametrize("case", CASES, ids=name)
def test_what_follows_is_not_said_again(case: Case) -> None:
    check(case)
