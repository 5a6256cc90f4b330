"""The trace: every token of an output with who guessed it, on the engine that is small enough to be obvious."""

import json
from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from fastcoder_lsp.core import Draft, DraftTree, StepTrace, TracedToken, Verified
from fastcoder_lsp.decode.loop import decode
from fastcoder_lsp.decode.trace import Tracer, as_plain, token_texts, trace_step
from tests.decode.test_loop import PIECES, Scripted, oracle, request
from tests.fake_engine import FakeEngine


def named(draft: Draft) -> Draft:
    names = tuple(("cache", "repository", "prompt")[i % 3] for i in range(len(draft.tokens)))
    return Draft(draft.tokens, draft.parents, names, tuple(range(1, len(draft.tokens) + 1)))


@given(st.lists(st.integers(0, 3), min_size=1, max_size=30), st.integers(1, 20), st.integers(1, 24))
def test_a_trace_is_the_output_token_for_token(prompt: list[int], stop_after: int, max_tokens: int) -> None:
    cut = lambda text: stop_after if len(text) >= stop_after else None  # noqa: E731
    asked = request(tuple(prompt), cut=cut, max_tokens=max_tokens, nodes=40)
    tracer = Tracer(PIECES.__getitem__)
    drafts = [named(draft) for draft in oracle(asked)]
    result = decode(FakeEngine(), Scripted(drafts), asked, lambda: False, on_step=tracer)
    steps = tracer.trace(len(result.tokens))
    assert len(steps) == result.counts.steps
    tokens = [token for step in steps for token in step.tokens]
    assert [token.piece for token in tokens] == [PIECES[token] for token in result.tokens]
    accepted = Counter(token.source for token in tokens if token.source)
    assert accepted == Counter(result.counts.by_source)
    assert accepted.total() == result.counts.accepted
    for step in steps:
        assert len(step.tokens) - len(step.path) in {0, 1}
        for node, token in zip(step.path, step.tokens, strict=False):
            assert (token.piece, token.source, token.match) == (
                step.pieces[node],
                step.tree.sources[node],
                step.tree.matches[node],
            )


def test_a_token_says_who_guessed_it() -> None:
    tree = DraftTree((7, 1, 2, 3), (-1, 0, 1, 0), 1, ("", "cache", "corpus", "prompt"), (0, 5, 6, 2))
    step = trace_step(tree, Verified((1, 2), (1, 2, 4)), lambda token: b"%d" % token, 9)
    assert step.tokens == (TracedToken(b"1", "cache", 5), TracedToken(b"2", "corpus", 6), TracedToken(b"4"))
    assert step.path == (1, 2)
    assert step.pieces == (b"7", b"1", b"2", b"3")


def test_a_character_over_two_tokens_is_shown_once() -> None:
    tree = DraftTree.chain((0,))
    steps = [StepTrace((TracedToken(piece),), tree, (b"",), ()) for piece in (b"a\xc3", b"\xa4b", b"\xc3")]
    assert token_texts(steps[:2]) == [["a"], ["äb"]]


def test_plain_values_are_json_and_leave_nothing_out() -> None:
    tree = DraftTree((9, 7, 1, 2), (-1, 0, 1, 1), 2, ("", "", "repository", "outdated"), (0, 0, 3, 4))
    step = trace_step(tree, Verified((3,), (2, 5)), lambda token: b"<%d>" % token, 9)
    assert json.loads(json.dumps(as_plain([step]))) == [
        {
            "tokens": [
                {"text": "<2>", "source": "outdated", "match": 4},
                {"text": "<5>", "source": "model", "match": 0},
            ],
            "draft": {
                "texts": ["<1>", "<2>"],
                "parents": [-1, -1],
                "sources": ["repository", "outdated"],
                "matches": [3, 4],
                "accepted": [1],
            },
        }
    ]
