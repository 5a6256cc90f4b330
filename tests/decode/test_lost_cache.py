"""A decode whose KV cache was given up in a pause goes on with the same tokens."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fastcoder_lsp.core import CacheLost, Draft, DraftContext, DraftTree, ShouldStop, Tokens, Verified
from fastcoder_lsp.core.engine import Prefilled
from fastcoder_lsp.decode.loop import Decoding
from fastcoder_lsp.decode.tree import GuardedDrafter
from fastcoder_lsp.observe import Spans
from tests.decode.test_loop import LateDrafter, LaunchingToy, Scripted, draft_strategy, oracle, plain, request
from tests.fake_engine import FakeEngine


class LosingEngine(FakeEngine):
    """A toy engine that somebody else may take the cache of."""

    def __init__(self) -> None:
        super().__init__()
        self.lost = True

    def lose(self) -> None:
        self._cache, self.lost = [], True

    def prefill(self, tokens: Tokens, should_stop: ShouldStop) -> Prefilled:
        self.lost = False
        return super().prefill(tokens, should_stop)

    def works(self, rows: int, *, prefill: bool) -> None:
        if self.lost and not prefill:
            raise CacheLost


class Listening(Scripted):
    """Counts what it is told."""

    def __init__(self, drafts: list[Draft]) -> None:
        super().__init__(drafts)
        self.begun, self.observed = 0, list[int]()

    def begin(self, context: DraftContext) -> None:
        self.begun += 1

    def observe(self, tree: DraftTree, verified: Verified) -> None:
        self.observed += verified.emitted


@given(
    st.lists(st.integers(0, 3), min_size=1, max_size=40),
    st.lists(st.sampled_from(["", "before the step", "amid the prefill"]), max_size=12),
    st.lists(draft_strategy(), max_size=12),
    st.booleans(),
    st.sampled_from([b"", b"ab"]),
)
def test_a_lost_cache_changes_no_token(
    prompt: list[int], losses: list[str], drafts: list[Draft], piecemeal: bool, healing: bytes
) -> None:
    asked, engine, drafter = request(tuple(prompt), healing), LosingEngine(), Listening(drafts)
    decoding, expected = Decoding(engine, drafter, asked, Spans()), plain(request(tuple(prompt), healing))
    decoding.prefill(lambda: False)
    while not decoding.finish:
        loss = losses.pop() if losses else ""
        if loss:
            engine.lose()
        while piecemeal and decoding.missing():
            decoding.prefill(lambda: False, 3)
            if loss == "amid the prefill":
                engine.lose()
                loss = ""
        if piecemeal and not decoding.prefilled:
            decoding.prefill(lambda: False)
        decoding.step()
    found = decoding.result()
    assert (found.tokens, found.text, found.finish) == (expected.tokens, expected.text, expected.finish)
    assert drafter.begun == 1
    assert tuple(drafter.observed[: len(found.tokens)]) == found.tokens
    assert found.counts.reused >= 0


def test_a_drafter_that_reads_a_lost_cache_has_not_failed(caplog: pytest.LogCaptureFixture) -> None:

    class Reading(Scripted):
        def propose(self, context: DraftContext, nodes: int) -> Draft:
            if engine.lost:
                raise CacheLost
            return super().propose(context, nodes)

    asked, engine = request(), LosingEngine()
    decoding = Decoding(engine, GuardedDrafter(Reading(oracle(asked))), asked, Spans())
    decoding.prefill(lambda: False)
    engine.lose()
    while not decoding.finish:
        decoding.step()
    assert decoding.result().tokens == plain(asked).tokens
    assert decoding.result().counts.accepted
    assert not caplog.records


def test_what_is_missing_is_what_was_lost() -> None:
    engine = LosingEngine()
    decoding = Decoding(engine, Scripted([]), request(tuple([1, 2, 3] * 10)), Spans())
    decoding.prefill(lambda: False)
    decoding.step()
    assert (decoding.missing(), decoding.rows(), decoding.prefilled) == (0, 1, True)
    engine.lose()
    assert (decoding.missing(), decoding.rows(), decoding.prefilled) == (30, 1, False)
    assert not decoding.prefill(lambda: False, 20)
    assert (decoding.missing(), decoding.rows(), decoding.computed) == (0, 11, 20)
    assert decoding.prefill(lambda: False)
    assert decoding.rows() == 11
    assert decoding.step() or decoding.finish


def test_a_cache_that_another_text_was_put_into_is_lost_too() -> None:
    engine = LosingEngine()
    asked = request((1, 2, 3, 1, 2, 3))
    decoding = Decoding(engine, Scripted(oracle(asked)), asked, Spans())
    decoding.prefill(lambda: False)
    engine.prefill([1, 2, 0, 0, 0], lambda: False)
    while not decoding.finish:
        if decoding.missing() or not decoding.prefilled:
            decoding.prefill(lambda: False)
        decoding.step()
    assert decoding.result().tokens == plain(asked).tokens


def test_a_full_context_is_filled_again_to_its_end() -> None:
    engine = LosingEngine()
    engine.info = FakeEngine(context=40).info
    asked = replace(request(tuple([1] * 20), max_tokens=100), end_ids=frozenset())
    decoding = Decoding(engine, Scripted([]), asked, Spans())
    decoding.prefill(lambda: False)
    while not decoding.finish:
        engine.lose()
        decoding.step()
    assert (decoding.result().finish, len(decoding.result().tokens)) == ("context", 20)


def test_a_launching_engine_refuses_at_the_launch(monkeypatch: pytest.MonkeyPatch) -> None:
    heard = list[str]()
    engine = LaunchingToy(heard)
    decoding = Decoding(engine, LateDrafter(heard), request(), Spans())
    decoding.prefill(lambda: False)
    decoding.step()
    real, refused = engine.launch, list[str]()

    def refusing(*arguments: object) -> None:
        if not refused:
            refused.append("once")
            raise CacheLost
        real(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(engine, "launch", refusing)
    while not decoding.finish:
        decoding.step()
    assert decoding.result().tokens == plain(request()).tokens
    told = [line for line in heard if line.startswith("observe")]
    assert len(told) == decoding.result().counts.steps
