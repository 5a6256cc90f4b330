"""The drafter `rewrite`: where it copies on after each kind of change, what it learns, and that it never fails."""

from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fastcoder_lsp.core import DraftContext, Rewrite, StepCosts
from fastcoder_lsp.draft.rewrite import Alignment, RewriteDrafter

LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ(){}:;=.,_+-@0123456789"
PIECES = ["<end>", "\n", " ", "    ", "        ", "            ", *LETTERS]
"""A token for each letter, for line ends and for indentation."""
END = 0


def piece(token: int) -> bytes:
    found: str = PIECES[token % len(PIECES)]
    return found.encode()


def ids(text: str) -> tuple[int, ...]:
    found, longest_first = list[int](), sorted(PIECES[1:], key=len, reverse=True)
    while text:
        one = next(one for one in longest_first if text.startswith(one))
        found.append(PIECES.index(one))
        text = text[len(one) :]
    return tuple(found)


def passes(rewrite: Rewrite, answer: Sequence[int], nodes: int = 16, prompt: Sequence[int] = ()) -> list[str]:
    """What each pass gives along a recorded answer, its end included; the pass's own token counts."""
    drafter, said, given = RewriteDrafter(piece), [*answer, END], list[str]()
    tokens = [*(prompt or (END,))]
    first, done = len(tokens), 0
    drafter.begin(DraftContext(tokens, first, rewrite=rewrite))
    while done < len(said):
        draft = drafter.propose(DraftContext(tokens, first, rewrite=rewrite), nodes - 1)
        assert len(draft.tokens) <= nodes - 1
        below = {at: node for node, at in enumerate(zip(draft.parents, draft.tokens, strict=True))}
        node, taken = -1, 1
        while done + taken < len(said) and (node := below.get((node, said[done + taken - 1]), -2)) >= 0:
            taken += 1
        given.append(b"".join(map(piece, said[done : done + taken])).decode())
        tokens += said[done : done + taken]
        done += taken
    return given


def after(
    old: str, answer: str, changes: Sequence[tuple[str, str]] = (), prompt: str = "", nodes: int = 16
) -> list[str]:
    known = Rewrite(ids(old), (END,), tuple((ids(one), ids(other)) for one, other in changes))
    return passes(known, ids(answer), nodes, ids(prompt))


OLD = "a=f(b);\nc=g(d);\ne=h(i);\n"


def test_an_unchanged_text_fills_every_pass() -> None:
    assert after(OLD, OLD) == ["a=f(b);\nc=g(d);\n", "e=h(i);\n<end>"]
    assert [len(ids(one.replace("<end>", ""))) for one in after(OLD * 4, OLD * 4, nodes=8)[:-1]] == [8] * 12


def test_a_tree_ends_where_a_row_costs_more_than_it_gains() -> None:
    """All rows where they cost nothing, ever fewer as they cost more, none where a row costs as much as a step."""
    known, sizes = Rewrite(ids(OLD * 9), (END,)), list[int]()
    for row_ms in (0.0, 1.0, 4.0, 10.0):
        drafter = RewriteDrafter(piece, costs=StepCosts((1, 64), (10.0, 10.0 + 63 * row_ms), 0.5))
        context = DraftContext([END], 1, rewrite=known)
        drafter.begin(context)
        sizes.append(len(drafter.propose(context, 63).tokens))
    assert (sizes[0], sizes[-1]) == (63, 0)
    assert sizes == sorted(set(sizes), reverse=True)


@pytest.mark.parametrize(
    ("answer", "most"),
    [
        pytest.param("a=f(b);\nX;\nc=g(d);\ne=h(i);\n", 4, id="a line is inserted"),
        pytest.param("a=f(b);\ne=h(i);\n", 2, id="a line is deleted"),
        pytest.param("a=f(b);\nX=g(d);\ne=h(i);\n", 2, id="a token is replaced"),
        pytest.param("a=f(Xb);\nc=g(d);\ne=h(i);\n", 4, id="a token is inserted"),
        pytest.param("a=f(b);\nXYZ\ne=h(i);\n", 6, id="a line is replaced"),
    ],
)
def test_the_copy_goes_on_after_a_change(answer: str, most: int) -> None:
    """What is new takes a pass a token, the rest two passes, and one more where its place is not clear at once."""
    assert len(after(OLD, answer)) <= most


def test_a_deleted_line_may_be_skipped_in_the_same_pass() -> None:
    alignment = Alignment(Rewrite(ids("ab\ncd\nef\n"), (END,)), (), piece)
    alignment.follow(ids("ab\n"))
    firsts = {node.token for node in alignment.grow(15) if node.parent < 0}
    assert firsts >= {*ids("c"), *ids("e")}


def test_a_replacement_is_repeated() -> None:
    old = "use(x);\nput(x);\nget(x);\n"
    answer = old.replace("x", "yz")
    plain = after(old, answer)
    assert plain[2:] == [");\nput", "(yz);\nge", "t(yz);\n<end>"]  # the second one was foreseen
    assert len(after(old, answer, [("set(x);", "set(yz);")])) < len(plain)


def test_an_insertion_of_an_earlier_change_is_repeated() -> None:
    old, answer = "class C:\npass\n", "@x\nclass C:\npass\n"
    assert len(after(old, answer, [("class A:", "@x\nclass A:"), ("class B:", "@x\nclass B:")])) < len(
        after(old, answer)
    )


def test_a_block_that_is_indented_stays_so() -> None:
    lines = "abcdefg"
    old = "".join(f"    {letter}=f(x);\n" for letter in lines) + "        z;\n"
    answer = "    if x:\n" + "".join(f"        {letter}=f(x);\n" for letter in lines) + "            z;\n"
    given = after(old, answer)
    assert given[5] == "        ", "the first indentation is new"
    assert given[7:] == ["b=f(x);\n        c=f(x);", "\n        d=f(x);\n        ", *given[9:]]
    assert len(given) == 12


def test_new_text_is_quoted_from_the_prompt() -> None:
    quoted = "some_long_name(with, arguments)"
    answer = OLD.replace("g(d)", quoted)
    assert len(after(OLD, answer, prompt=f"{quoted};\n")) < len(after(OLD, answer))


def test_any_end_is_drafted() -> None:
    alignment = Alignment(Rewrite(ids("a"), (END, 7)), (), piece)
    alignment.follow(ids("a"))
    assert [node.token for node in alignment.grow(2)] == [END, 7]


@settings(max_examples=60, deadline=None)
@given(
    old=st.lists(st.integers(0, 9), max_size=40),
    answer=st.lists(st.integers(0, 9), max_size=40),
    changes=st.lists(
        st.tuples(st.lists(st.integers(0, 9), max_size=9), st.lists(st.integers(0, 9), max_size=9)), max_size=3
    ),
    nodes=st.integers(1, 20),
)
def test_any_answer_is_followed(
    old: list[int], answer: list[int], changes: list[tuple[list[int], list[int]]], nodes: int
) -> None:
    known = Rewrite(tuple(old), (END,), tuple((tuple(one), tuple(other)) for one, other in changes))
    alignment = Alignment(known, answer[:5], piece)
    for token in answer:
        grown = alignment.grow(nodes)
        assert len(grown) <= nodes
        assert len({(node.parent, node.token) for node in grown}) == len(grown)
        for number, node in enumerate(grown):
            assert node.parent < number
            assert 0 < node.likely <= (grown[node.parent].likely if node.parent >= 0 else 1) + 1e-9
        alignment.follow([token])


def test_a_long_text_of_one_token_takes_no_longer() -> None:
    alignment = Alignment(Rewrite((1,) * 4000, (END,)), (1,) * 4000, piece)
    alignment.follow((1,) * 50)
    assert len(alignment.grow(63)) == 63
