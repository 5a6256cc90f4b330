"""On a toy engine: whatever is drafted, the output is the plain one; the trace names each token's drafter."""

import json
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fastcoder_lsp.core import NO_DRAFT, Draft, DraftContext, DrafterTraits, DraftTree, StepTrace, TracedToken, Verified
from fastcoder_lsp.decode.loop import Decoded, DecodeRequest, Decoding, decode
from fastcoder_lsp.decode.trace import Tracer, as_plain, token_texts, trace_step
from fastcoder_lsp.decode.tree import Healing, build_tree
from fastcoder_lsp.draft.base import NoDrafter
from fastcoder_lsp.observe import Spans
from tests.fake_engine import FakeEngine

PIECES = (b"a", b"ab", b"\n", b"b", b"\xc3")  # the last one is half of a character


def allow(remaining: bytes) -> npt.NDArray[np.int64]:
    agreeing = [i for i, piece in enumerate(PIECES) if piece.startswith(remaining) or remaining.startswith(piece)]
    return np.array(agreeing, np.int64)


def request(
    prompt: tuple[int, ...] = (1, 2, 3),
    healing: bytes = b"",
    cut: Callable[[str], int | None] = lambda _: None,
    max_tokens: int = 24,
    nodes: int = 16,
) -> DecodeRequest:
    return DecodeRequest(
        prompt,
        max_tokens=max_tokens,
        end_ids=frozenset({4}),
        piece=PIECES.__getitem__,
        allow=allow,
        cut=cut,
        healing=healing,
        nodes=nodes,
    )


def plain(asked: DecodeRequest) -> Decoded:
    return decode(FakeEngine(), NoDrafter(), asked, lambda: False)


class ChainEngine(FakeEngine):
    """An engine whose drafts may not branch."""

    def __init__(self) -> None:
        super().__init__()
        self.info = replace(self.info, trees=False)

    def step(self, tree: DraftTree, *details: Any, **more: Any) -> Verified:
        assert tree.parents == tuple(range(-1, len(tree) - 1))
        return super().step(tree, *details, **more)


ENGINES = pytest.mark.parametrize("made", [FakeEngine, ChainEngine])


class Scripted(NoDrafter):
    """A drafter that says what it was told to, step by step, right or wrong."""

    def __init__(self, drafts: list[Draft]) -> None:
        super().__init__()
        self.name = "scripted"
        self.drafts = drafts
        self.seen: list[DraftContext] = []

    def begin(self, context: DraftContext) -> None:
        self.seen.append(context)

    def propose(self, context: DraftContext, nodes: int) -> Draft:
        self.seen.append(context)
        assert nodes >= 1
        return self.drafts.pop(0) if self.drafts else NO_DRAFT

    def observe(self, tree: DraftTree, verified: Verified) -> None:
        assert len(verified.emitted) == len(verified.path) + 1


def draft_strategy() -> st.SearchStrategy[Draft]:
    """Any rubbish: unknown ids, parents that do not exist or come later, twins, cycles, far too many nodes."""
    nodes = st.lists(st.tuples(st.integers(-2, 7), st.integers(-3, 40)), max_size=40)
    return st.builds(draft_of, nodes, named=st.booleans())


def draft_of(pairs: list[tuple[int, int]], *, named: bool) -> Draft:
    """Tokens and parents as a draft, which says where its guesses are from or does not."""
    tokens, parents = tuple(token for token, _ in pairs), tuple(parent for _, parent in pairs)
    return Draft(tokens, parents, ("x",) * len(pairs), tuple(range(len(pairs)))) if named else Draft(tokens, parents)


@ENGINES
@given(prompt=st.lists(st.integers(0, 3), min_size=1, max_size=40), drafts=st.lists(draft_strategy(), max_size=24))
def test_any_draft_leaves_the_output_alone(
    prompt: list[int], drafts: list[Draft], made: Callable[[], FakeEngine]
) -> None:
    asked = request(tuple(prompt))
    drafted, expected = decode(made(), Scripted(drafts), asked, lambda: False), plain(asked)
    assert (drafted.tokens, drafted.text, drafted.finish) == (expected.tokens, expected.text, expected.finish)


@given(st.lists(st.integers(0, 50), min_size=1, max_size=4), st.lists(st.integers(0, 999), min_size=1, max_size=20))
def test_a_sound_draft_is_taken_whole(pending: list[int], seeds: list[int]) -> None:
    pairs = {(seed % 50, seed % (place + 1) - 1): None for place, seed in enumerate(seeds)}
    draft = draft_of(list(pairs), named=True)
    if not all(parent < place for place, parent in enumerate(draft.parents)):
        return
    beside = Draft((*draft.tokens, 50), (*draft.parents, -1), (*draft.sources, "x"), (*draft.matches, 0))
    free = Healing(b"", lambda _token: b"", allow)
    whole, repaired = (build_tree(pending, d, room=30, vocabulary=50, healing=free) for d in (draft, beside))
    assert whole == repaired
    assert whole.tokens == (*pending, *draft.tokens)
    whole.check()


@given(st.sampled_from([b"a", b"ab", b"aba", b"\n", b"abab", b"b\n"]), st.lists(draft_strategy(), max_size=6))
def test_healing_is_spelt_under_any_draft(healing: bytes, drafts: list[Draft]) -> None:
    asked = request(healing=healing)
    result, expected = decode(FakeEngine(), Scripted(drafts), asked, lambda: False), plain(asked)
    spelt = b"".join(PIECES[token] for token in result.tokens)
    assert spelt.startswith(healing) or healing.startswith(spelt)
    assert (result.text, result.tokens) == (expected.text, expected.tokens)
    assert result.text == spelt[len(healing) :].decode("utf-8", errors="ignore")


def oracle(asked: DecodeRequest) -> list[Draft]:
    """Drafts that are right: the plain output, seven tokens at a time, with a wrong sibling before each."""
    tokens, drafts = plain(asked).tokens, []
    for start in range(0, len(tokens), 8):
        right = tokens[start : start + 7]
        nodes = [(token, 2 * i - 1) for i, token in enumerate(right) for token in ((token + 1) % 4, token)]
        drafts.append(Draft(tuple(t for t, _ in nodes), tuple(p for _, p in nodes)))
    return drafts


@ENGINES
@given(prompt=st.lists(st.integers(0, 3), min_size=1, max_size=30), stop_after=st.integers(1, 12))
def test_right_drafts_save_steps_and_change_nothing(
    prompt: list[int], stop_after: int, made: Callable[[], FakeEngine]
) -> None:
    asked = request(tuple(prompt), cut=lambda text: stop_after if len(text) >= stop_after else None, nodes=40)
    expected, engine = plain(asked), made()
    result = decode(engine, Scripted(oracle(asked)), asked, lambda: False)
    assert (result.text, result.tokens, result.finish) == (expected.text, expected.tokens, expected.finish)
    assert result.counts.steps <= expected.counts.steps
    assert result.counts.steps + result.counts.accepted >= len(result.tokens)
    if len(expected.tokens) > 2:
        assert result.counts.steps < expected.counts.steps


def test_short_rest_of_a_prompt_goes_with_the_first_step() -> None:
    engine = FakeEngine(chunk=4)
    decode(engine, NoDrafter(), request(tuple([1] * 30)), lambda: False)
    result = decode(engine, NoDrafter(), request(tuple([1] * 30 + [2, 3])), lambda: False)
    assert result.counts.prefilled <= 2
    assert result.counts.reused == 32 - result.counts.prefilled


def test_a_stopped_prefill_keeps_what_is_done() -> None:
    engine, asks = FakeEngine(chunk=4), iter([False, False, True])
    decoding = Decoding(engine, NoDrafter(), request(tuple([1] * 30)), spans := Spans())
    assert not decoding.prefill(lambda: next(asks))
    assert len(engine.cached()) == 8
    assert decoding.prefill(lambda: False)
    counts = decoding.result().counts
    assert (counts.prefilled, counts.prefill_ms) == (30, spans.close()["prefill"])


def test_a_drafter_that_raises_is_heard_once(caplog: pytest.LogCaptureFixture) -> None:

    class Broken(Scripted):
        def propose(self, context: DraftContext, nodes: int) -> Draft:
            raise ZeroDivisionError

    result = decode(FakeEngine(), Broken([]), request(), lambda: False)
    assert result.tokens == plain(request()).tokens
    assert len([record for record in caplog.records if "broken" in record.message or "scripted" in record.message]) == 1


class LateDrafter(NoDrafter):
    """Keeps the order in which it is asked and told."""

    def __init__(self, heard: list[str]) -> None:
        super().__init__()
        self.traits = DrafterTraits(late=True)
        self.heard = heard

    def propose(self, context: DraftContext, nodes: int) -> Draft:
        self.heard.append("propose")
        return super().propose(context, nodes)

    def observe(self, tree: DraftTree, verified: Verified) -> None:
        self.heard.append(f"observe {len(verified.emitted)}")


class LaunchingToy(FakeEngine):
    """The toy engine's step in two halves."""

    def __init__(self, heard: list[str]) -> None:
        super().__init__()
        self.heard = heard

    def launch(self, tree: DraftTree, *arguments: Any) -> None:
        self.heard.append("launch")
        self.verified = self.step(tree, *arguments)

    def collect(self) -> Verified:
        self.heard.append("collect")
        return self.verified


def test_a_late_drafter_is_told_while_the_engine_verifies() -> None:
    heard = list[str]()
    late = decode(LaunchingToy(heard), LateDrafter(heard), request(), lambda: False)
    assert late == plain(request())
    assert late.counts.steps > 2
    later = ["propose", "launch", "observe 1", "collect"] * (late.counts.steps - 1)
    assert heard == ["propose", "launch", "collect", *later, "observe 1"]


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
