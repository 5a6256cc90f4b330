"""Nothing rather than rubbish: loops, control tokens that are spelt out, and what says nothing new."""

import pytest

from tests.postprocess.cases import Case, cases, check, name

CASES = cases("""
--- python: a line again and again
▮a = 1▮
a = 1
a = 1
a = 1▮
--- python: two lines again and again
▮x()
y()▮
x()
y()
x()
y()▮
--- python: two lines alike are no loop
▮x()
x()
y()▮
--- python: a piece again and again at a line's end
x = ▮ab,▮ ab, ab, ab, ab, ab, ab, ab, ab, ab, ▮
--- python: seven times is no loop yet
x = ▮[ab, ab, ab, ab, ab, ab, ab]▮
--- python: six times at a line's end is no loop yet
# ▮ab ab ab ab ab ab ab▮
--- python: a ruler of one sign is none
▮# ----------------------------------------▮
--- python: a control token that is spelt out ends the text
x = ▮1▮<|fim_prefix|>foo▮
--- python: a comment of nothing but a control token
x = 1
▮▮# <｜end▁of▁sentence｜>▮
--- python: nothing but a control token
x = ▮▮<｜end▁of▁sentence｜>▮
--- python: the fence of a Markdown block is no code
def f():
    ▮return 1▮
```

Here is another one:▮
--- python: nothing but a fence
▮▮```python▮
--- python: a fence in a docstring
def f():
    ▮'''Call it:

    ```
    f()
    ```
    '''▮
--- markdown: a fence is what is meant
One.

▮```python
x = 1
```▮
--- python: a control token that the document speaks of
MARK = '<|fim_prefix|>'
x = ▮'<|fim_prefix|>'▮
--- python: a letter that could not be decoded
x = ▮"a�b"▮
>>>
x = ▮"a"▮
--- python: a closer of nothing
x = y▮▮)▮
--- python: the closer that is there already
foo(▮▮)▮)
--- python: the closer that is wanted
foo(▮)▮¶
--- python: the line above once more
foo(a)
▮▮foo(a)▮
--- python: the line below
▮▮foo(a)▮

foo(a)
--- python: the line below, less deep
if a:
▮▮b(a)▮
    b(a)
--- typescript: the line above once more, within a block
function f() {
  a();
  ▮▮a();▮
}
--- typescript: a brace below a brace is no repetition
function f() {
  if (a) {
    b();
  }
▮}▮
--- rust: a loop of three lines
fn f() {
    ▮a();
    b();
    c();▮
    a();
    b();
    c();
    a();
    b();
    c();▮
}
--- go: a loop of statements with tabs
func f() {
→▮a()▮
→a()
→a()
→a()▮
}
--- c: brackets below each other are no loop
int a[2][2][2] = {
    {
        {
            1
▮        }
    }
}▮
--- ruby: an end below an end says something
def f
  if a
    b
  end
▮end▮
--- lua: the line above once more
local a = 1
▮▮local a = 1▮
--- shellscript: a word below the same word
if a; then
  if b; then
    c
  fi
▮fi▮
--- python: a block of two lines again
def f():
    ▮total = sum_of(expenses)
    print(total, expenses)▮
    total = sum_of(expenses)
    print(total, expenses)▮
--- python: a function again, and a third time by half
▮def sum_of(expenses):
    return sum(expense.amount for expense in expenses)▮


def sum_of(expenses):
    return sum(expense.amount for expense in expenses)


def sum_of(expenses):▮
--- python: the block above again
def f():
    total = sum_of(expenses)
    print(total, expenses)
    ▮▮total = sum_of(expenses)
    print(total, expenses)
    return total▮
--- python: a list's entries from an earlier one on
names = [
    ("py:class", "FastAPI"),
    ("py:class", "TypeForm"),
    ("py:class", "Request"),
    ▮("py:class", "Starlette"),▮
    ("py:class", "FastAPI"),
    ("py:class", "TypeForm"),
    ("py:class", "Request"),▮
]
--- python: the lines below, and others
▮▮first = open_store(path)
second = first.orders()
third = total_of(second)
fourth = third + 1▮
first = open_store(path)
second = first.orders()
third = total_of(second)
--- json: entries that begin like the one below
{
  "Items": {
    ▮"input_token": "NextToken",
    "limit_key": "MaxResults",
    "output_token": "NextToken"
  },
  "Domains": {▮
    "input_token": "NextToken",
    "limit_key": "MaxResults",
    "output_token": "NextToken"
  }
}
--- json: the keys below, and another one
{
  "Items": {
    ▮▮"input_token": "NextToken",
    "limit_key": "MaxResults",
    "output_token": "NextToken",
    "more_results": "IsTruncated",▮
    "input_token": "NextToken",
    "limit_key": "MaxResults",
    "output_token": "NextToken",
    "result_key": "Items"
  }
}
--- sql: statements that end alike
CREATE OPERATOR &< (
  LEFTARG = seg,
  ▮RESTRICT = positionsel,
  JOIN = positionjoinsel
);

CREATE OPERATOR &> (
  LEFTARG = seg,▮
  RESTRICT = positionsel,
  JOIN = positionjoinsel
);

CREATE INDEX i ON t;
--- python: the rest of the list, which stands below, and entries from above
names = [
    ("py:class", "TypeForm"),
    # only in CI
    ("py:class", "FastAPI"),
    ▮▮("py:class", "Starlette"),
    ("py:class", "starlette.requests.Request"),
    ("py:class", "TypeForm"),
    # only in CI
    ("py:class", "FastAPI"),▮
    ("py:class", "Starlette"),
    ("py:class", "starlette.requests.Request"),
]
--- python: the half-typed line above once more
def f(orders):
    return sum(order.pri
    ▮▮return sum(order.price for order in orders)▮
--- python: rows that differ are no loop
rows = [
    ▮("lemon", 1, Decimal("1.20")),
    ("lemon", 2, Decimal("1.20")),
    ("lemon", 3, Decimal("1.20")),
    ("lemon", 4, Decimal("1.20")),▮
]
--- python: two branches may do the same
if a:
    ▮self.on_close.append(service)
    service = service.enter()
else:
    self.on_close.append(service)
    service = service.enter()▮
--- python: a line that begins like the whole one above
def test_orders():
    assert response
    ▮assert response.ok▮
--- python: a module whose name begins like the one above
import typing
▮import typing_extensions▮
--- python: a word that was typed by half in the line above
def f(orders):
    return total_o
    ▮▮return total_of(orders)▮
--- python: a line above that ends in a sign
total = order.
▮▮total = order.total()▮
--- yaml: an entry that begins like the one above
steps:
  - run: scripts/test
  ▮- run: scripts/test-arm▮
--- c: statements of a block are no entries
void f(void) {
    fill(list, 2, 2, 1);
    check(status == LIST_OK);
    check(list->size == 4);
    // once more, of no items
    ▮fill(list, 2, 2, 1);
    check(status == LIST_OK);
    check(list->size == 4);
    free_all(list);▮
}
--- typescript: a comment as of the member above
class Store {
  /**
   * Reads one order of those that are kept here,
   * or all of them, if no name is given,
   * and fails where none are kept.
   */
  one(name?: string): Order;
  /**
   ▮* Reads one order of those that are kept here,
   * or all of them, if no name is given,
   * and fails where none are kept.
   */▮
  all(): Order[];
}
--- html: a closing tag above that of the outer element
<div>
  <div>
    <p>a</p>
  ▮</div>▮
</div>
--- typescriptreact: a closing tag below that of the inner element
const page = (
  <div>
    <div>
      <p>a</p>
    </div>
  ▮</div>▮
);
--- html: the closing tag that stands below
<div>
  <p>a</p>
▮▮</div>▮
</div>
--- c: the end of an outer condition
#if A
#if B
int a;
#endif
▮#endif▮
--- html: a loop of tags
<ul>
  ▮<li>a</li>▮
  <li>a</li>
  <li>a</li>
  <li>a</li>▮
</ul>
--- html: an end-of-text token in a page
<p>▮a</p>▮<|endoftext|><p>b▮
--- plaintext: a token of another family of models
x = ▮1▮<fim_middle>2▮
""")


@pytest.mark.parametrize("case", CASES, ids=name)
def test_nothing_rather_than_rubbish(case: Case) -> None:
    check(case)
