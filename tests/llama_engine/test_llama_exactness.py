"""llama.cpp's engine: drafts change no token, and neither does what the cache held before."""

import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import llama_cpp.llama_cpp as api
import numpy as np
import pytest

from fastcoder_lsp import engine as engines
from fastcoder_lsp.core import GREEDY, Draft, DraftContext, DraftTree, Engine, Sampler
from fastcoder_lsp.decode.loop import DecodeRequest, decode
from fastcoder_lsp.draft.base import Drafter, NoDrafter
from fastcoder_lsp.errors import ResourceError
from fastcoder_lsp.llama_engine import widths
from fastcoder_lsp.llama_engine.backend import LlamaBackend, WidthClass
from fastcoder_lsp.llama_engine.library import LlamaModel, library_log
from fastcoder_lsp.llama_engine.widths import find_class
from fastcoder_lsp.model.files import ModelFiles, gguf_of
from tests.draft.adversaries import ADVERSARIES, Adversary
from tests.llama_engine.conftest import OpenTiny
from tests.llama_engine.tiny_ggufs import KINDS, RECURRENT, VOCABULARY

WIDTHS = ((1, 1), (2, 128), (4, 128))
PROMPT = tuple(np.random.default_rng(3).integers(0, 256, 150).tolist())


def request(prompt: tuple[int, ...] = PROMPT, nodes: int = 16, sampler: Sampler = GREEDY) -> DecodeRequest:
    return DecodeRequest(
        prompt,
        60,
        frozenset(),
        piece=lambda token: b"w",
        allow=lambda _: np.arange(VOCABULARY),
        cut=lambda _: None,
        sampler=sampler,
        nodes=nodes,
    )


def plain(engine: Engine, asked: DecodeRequest) -> tuple[int, ...]:
    return decode(engine, NoDrafter(), asked, lambda: False).tokens


class Prophet(Adversary):
    """Says the truth for some tokens, among branches that are wrong, in an order by chance."""

    def __init__(self, truth: tuple[int, ...] = ()) -> None:
        super().__init__()
        self.truth = truth

    def propose(self, context: DraftContext, nodes: int) -> Draft:
        said = len(context.tokens) - context.prompt_length
        tokens, parents, last = [], [], -1
        for token in self.truth[said : said + nodes]:
            for _ in range(self.chance.randrange(3)):
                tokens.append(self.chance.randrange(VOCABULARY))
                parents.append(self.chance.randrange(-1, len(tokens) - 1) if len(tokens) > 1 else -1)
            tokens.append(token)
            parents.append(last)
            last = len(tokens) - 1
        return Draft(tuple(tokens[:nodes]), tuple(parents[:nodes]))


@pytest.mark.parametrize("kind", KINDS)
def test_drafts_change_no_token(kind: str, open_tiny: OpenTiny) -> None:
    engine = open_tiny(kind)
    expected = plain(engine, request())
    assert len(set(expected)) > 5
    drafters: list[Drafter] = [made() for made in ADVERSARIES]
    for nodes in (2, 7, 16, 64):
        for drafter in (*drafters, Prophet(expected)):
            engine.prefill((), lambda: True)
            found = decode(engine, drafter, request(nodes=nodes), lambda: False)
            assert found.tokens == expected, (type(drafter), nodes)
            if isinstance(drafter, Prophet) and nodes >= 16:
                assert (found.counts.accepted > 10) is (kind not in RECURRENT)


def test_sampled_tokens_are_the_same_with_drafts(open_tiny: OpenTiny) -> None:
    engine, sampler = open_tiny("qwen3"), Sampler(temperature=0.9, top_k=20, seed=2)
    expected = plain(engine, request(sampler=sampler))
    assert decode(engine, Prophet(expected), request(sampler=sampler), lambda: False).tokens == expected


@pytest.mark.parametrize("kind", KINDS)
def test_what_the_cache_held_changes_no_token(kind: str, open_tiny: OpenTiny) -> None:
    engine, fresh = open_tiny(kind), open_tiny(kind)
    other = (*PROMPT[:128], *PROMPT[:60])
    plain(engine, request())
    plain(engine, request(other))
    plain(engine, request((*PROMPT, 9, 9)))
    assert plain(engine, request()) == plain(fresh, request())


@pytest.mark.parametrize("kind", ["qwen3", "qwen35"])
@pytest.mark.parametrize("fails", [1, 2, 9])
def test_a_failed_pass_costs_one_decode(
    kind: str, fails: int, open_tiny: OpenTiny, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As where memory ends: of a prompt's first pass or second one, or of a step with drafts."""
    engine, passes = open_tiny(kind), 0
    expected, real = plain(engine, request()), api.llama_decode

    def failing(context: object, batch: object) -> int:
        nonlocal passes
        passes += 1
        return -2 if passes == fails else int(real(context, batch))

    monkeypatch.setattr(api, "llama_decode", failing)
    engine.prefill((), lambda: True)
    with pytest.raises(ResourceError, match="code -2"):
        decode(engine, Prophet(expected), request(nodes=4), lambda: False)
    assert decode(engine, Prophet(expected), request(nodes=4), lambda: False).tokens == expected


def test_passes_of_a_real_class_give_each_row_the_same_bits(open_tiny: OpenTiny) -> None:
    engine, chance = open_tiny("qwen2"), random.Random(4)
    logits = []
    for width in (1, 3, 8, 40):
        engine.prefill(PROMPT, lambda: False)
        others = chance.sample(range(VOCABULARY), width - 1)
        verified = engine.step(DraftTree((7, *others), (-1, *[0] * (width - 1))), top_k=5)
        assert verified.top_logits_NK is not None
        logits.append(verified.top_logits_NK[0].tobytes())
    assert len(set(logits)) == 1


ALL_TIMED = [(1, False), (2, False), (1, True), (2, True)]


@pytest.mark.parametrize(
    ("quick", "most_s", "timed"), [*((each, 60, ALL_TIMED) for each in ALL_TIMED), ((1, False), 0, ALL_TIMED[:1])]
)
def test_of_the_classes_that_hold_the_quickest_is_taken(
    quick: tuple[int, bool],
    most_s: int,
    timed: list[tuple[int, bool]],
    tiny: Callable[..., ModelFiles],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The weights are loaded anew in the order that a class wants; when the time is up, no more are tried."""
    gguf = gguf_of(tiny("qwen2").folder)
    assert gguf is not None
    model, tried = LlamaModel(gguf, library_log()), list[WidthClass]()
    classes = [
        WidthClass(*facts, chunk=64, plain_cache=True, repacks=each) for each in (False, True) for facts in WIDTHS
    ]

    def opened(widths: WidthClass) -> LlamaBackend:
        model.order(repacks=widths.repacks)
        tried.append(widths)
        return LlamaBackend(model, widths, name="llama", device="cpu", capacity=200, threads=1)

    def seconds(backend: LlamaBackend, _rows: int, _text: int) -> float:
        return 1.0 if (backend.widths.quantum, backend.widths.repacks) == quick else 2.0

    monkeypatch.setattr("fastcoder_lsp.llama_engine.widths._seconds", seconds)
    monkeypatch.setattr("fastcoder_lsp.llama_engine.widths._MOST_S", most_s)
    found = find_class(classes, opened, 40)
    model.close()
    assert found is not None
    assert (found.quantum, found.repacks) == quick
    assert [(each.quantum, each.repacks) for each in tried] == timed


def test_drafts_do_not_branch_where_chains_alone_are_exact(
    tiny: Callable[..., ModelFiles], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second start reads what the first one found."""
    classes, real = tuple(replace(each, trees=trees) for trees in (True, False) for each in widths.ON_CPU), widths.holds
    monkeypatch.setattr(widths, "ON_CPU", classes)
    for holds in (lambda backend, text: real(backend, text) and not backend.widths.trees, None):
        monkeypatch.setattr(widths, "holds", holds)
        options = engines.EngineOptions(kind="llama", context=256, threads=1)
        engine = engines.load(tiny("qwen2"), options, cache=tmp_path, progress=lambda _share, _what: None)
        assert not engine.info.trees
        assert "do not branch" in engine.info.notes[0]
        expected = plain(engine, request())
        assert decode(engine, Prophet(expected), request(), lambda: False).tokens == expected
        engine.close()
