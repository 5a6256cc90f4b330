"""A begun word: its first token is the one whose chance, together with what may follow it, is best."""

import hashlib
from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fastcoder_lsp.core import (
    GREEDY,
    Draft,
    DraftContext,
    DraftTree,
    EngineInfo,
    Sampler,
    Verified,
)
from fastcoder_lsp.decode.loop import Decoded, DecodeRequest, Decoding, decode
from fastcoder_lsp.draft.base import Drafter, NoDrafter
from fastcoder_lsp.observe import Spans
from tests.decode.test_loop import Scripted, draft_strategy
from tests.fake_engine import RankingEngine

PIECES = (b"f", b"found", b"oun", b"o", b"und", b" = ", b"fo", b"d")
F, FOUND, OUN, O, UND, EQUALS, FO, D = range(8)
FAR = -30.0


class Spelling(RankingEngine):
    """Its logits are those of `likely` after a text, or a hash of the text."""

    def __init__(self, likely: Mapping[tuple[int, ...], Mapping[int, float]] | None = None) -> None:
        super().__init__(EngineInfo("toy", "toy", "made here", "none", len(PIECES), 100, 64))
        self._likely = likely

    def logits(self, text: tuple[int, ...]) -> Sequence[float]:
        if self._likely is None:
            return [byte / 16 for byte in hashlib.sha256(bytes(text)).digest()[: len(PIECES)]]
        found = self._likely.get(text[1:], {EQUALS: 0.0})
        return [found.get(token, FAR) for token in range(len(PIECES))]


def allow(remaining: bytes) -> npt.NDArray[np.int64]:
    agreeing = [i for i, piece in enumerate(PIECES) if piece.startswith(remaining) or remaining.startswith(piece)]
    return np.array(agreeing, np.int64)


def request(healing: bytes, sampler: Sampler = GREEDY) -> DecodeRequest:
    return DecodeRequest(
        (EQUALS,),
        max_tokens=6,
        end_ids=frozenset(),
        piece=PIECES.__getitem__,
        allow=allow,
        cut=lambda _: None,
        healing=healing,
        sampler=sampler,
        weighed=True,
    )


def said(engine: Spelling, healing: bytes, drafter: Drafter | None = None, sampler: Sampler = GREEDY) -> Decoded:
    return decode(engine, drafter or NoDrafter(), request(healing, sampler), lambda: False)


def test_a_part_that_the_model_would_not_continue_gives_way() -> None:
    engine = Spelling({(): {F: 0.0, FOUND: -3.0}, (FOUND,): {EQUALS: 0.0}})
    assert said(engine, b"foun").tokens[:2] == (FOUND, EQUALS)
    assert said(engine, b"f").tokens[0] == F  # a whole word is no part


def test_a_part_that_the_model_continues_stays() -> None:
    engine = Spelling({(): {F: 0.0, FOUND: -3.0}, (F,): {OUN: -0.5, EQUALS: 0.0}, (F, OUN): {D: 0.0}})
    assert said(engine, b"foun").tokens[:3] == (F, OUN, D)


def test_of_two_parts_the_one_that_goes_on_is_taken() -> None:
    engine = Spelling({(): {F: 0.0, FO: -1.0, FOUND: -9.0}, (FO,): {UND: 0.0}})
    assert said(engine, b"foun").tokens[:2] == (FO, UND)


def test_if_nothing_goes_on_the_likeliest_stays() -> None:
    assert said(Spelling({(): {F: 0.0, FO: -1.0}}), b"fod").tokens[0] == F


def test_the_confidence_is_that_of_the_word() -> None:
    engine = Spelling({(): {F: 0.0, FOUND: -3.0}, (FOUND,): {EQUALS: 0.0}})
    decoding = Decoding(engine, NoDrafter(), request(b"foun"), Spans())
    decoding.prefill(lambda: False)
    while decoding.step():
        pass
    likely = dict(decoding.certainty().rows[0].likely)
    assert likely[b"found"] == pytest.approx(1.0, abs=1e-6)
    assert likely[b"f"] < 1e-6


@given(
    st.sampled_from([b"foun", b"fou", b"found = f", b"fo", b"oun"]),
    st.lists(draft_strategy(), max_size=8),
    st.booleans(),
)
def test_drafts_change_nothing(healing: bytes, drafts: list[Draft], sampled: bool) -> None:
    sampler = Sampler(temperature=0.8, seed=3) if sampled else GREEDY
    drafted, expected = said(Spelling(), healing, Scripted(drafts), sampler), said(Spelling(), healing, None, sampler)
    assert (drafted.tokens, drafted.text, drafted.finish) == (expected.tokens, expected.text, expected.finish)
    spelt = b"".join(PIECES[token] for token in drafted.tokens)
    assert spelt.startswith(healing) or healing.startswith(spelt)


class Remembering(Scripted):
    """Holds that the text it is told of is the text it is asked to continue."""

    def __init__(self, drafts: list[Draft]) -> None:
        super().__init__(drafts)
        self.told: list[int] = [EQUALS]

    def propose(self, context: DraftContext, nodes: int) -> Draft:
        assert list(context.tokens) == self.told
        return self.drafts.pop(0) if self.drafts and nodes else Draft((), ())

    def observe(self, tree: DraftTree, verified: Verified) -> None:
        super().observe(tree, verified)
        self.told += verified.emitted


@given(st.sampled_from([b"foun", b"fou", b"oun"]), st.lists(draft_strategy(), max_size=8))
def test_a_drafter_hears_of_the_tokens_that_are_taken(healing: bytes, drafts: list[Draft]) -> None:
    drafter = Remembering(drafts)
    decode(Spelling(), drafter, request(healing), lambda: False)
    assert len(drafter.told) >= 7
