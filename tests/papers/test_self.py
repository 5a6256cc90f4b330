"""Drafting by the model itself: what it leaves out, that nothing of it stays, its threshold, and the search."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from fastcoder_lsp.core import DraftContext, DraftTree, Engine, Engines, Sampler, SkimmingEngine, Tokens, Verified
from fastcoder_lsp.decode.loop import decode
from fastcoder_lsp.draft.base import NoDrafter
from fastcoder_lsp.engine.slots import several
from fastcoder_lsp.model import skip_sets
from fastcoder_lsp.papers import self_model
from fastcoder_lsp.papers.self_model import SelfDrafter, SelfParameters, usual_parts
from tests.draft.test_exactness import request
from tests.draft.toys import RepetitiveEngine, repetitive
from tests.engine import tiny_models
from tests.fake_engine import Ranked

PROMPT = tuple(range(5, 35))


@pytest.fixture(scope="module", params=["cpu-fp32", "cpu-int8"])
def engines(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engines]:
    folder = tiny_models.make_model(tmp_path_factory.mktemp("tiny"), "qwen2", num_hidden_layers=4)
    engines = several(tiny_models.load(folder, tmp_path_factory.mktemp("cache"), request.param), 64)
    yield engines
    engines.close()


@pytest.fixture
def engine(engines: Engines) -> Engine:
    return engines.slot("d")


def skimming(engine: Engine) -> SkimmingEngine:
    assert isinstance(engine, SkimmingEngine)
    return engine


def test_all_parts_say_what_a_step_says(engine: Engine) -> None:
    engine.prefill(PROMPT, lambda: False)
    said, skimmed, after, pending = [PROMPT[-1]], [], 0, [3, 4]
    for _ in range(4):
        ids_K, _ = skimming(engine).skim(pending, after, frozenset(), 3)
        after += len(pending)
        pending = [int(ids_K[0])]
        skimmed += pending
    assert engine.cached() == PROMPT
    said = list(engine.step(DraftTree.chain((3, 4))).emitted)
    while len(said) < 4:
        said += engine.step(DraftTree.chain(said[-1:])).emitted
    assert skimmed == said


def test_what_is_left_out_changes_what_is_said_and_nothing_after(engine: Engine) -> None:
    engine.prefill(PROMPT, lambda: False)
    whole = skimming(engine).skim((3,), 0, frozenset(), 5)[1]
    plain = engine.step(DraftTree.chain((3, 4)), top_k=5)
    for part in range(skimming(engine).sublayers):
        engine.prefill(PROMPT, lambda: False)
        assert not np.array_equal(skimming(engine).skim((3,), 0, frozenset({part}), 5)[1], whole)
        skimming(engine).skim((7, 8), 1, frozenset({part}), 5)
        again = engine.step(DraftTree.chain((3, 4)), top_k=5)
        assert np.array_equal(again.top_logits_NK, plain.top_logits_NK)  # type: ignore[arg-type]


@pytest.mark.parametrize("parameters", [SelfParameters(threshold=0.0), SelfParameters(exit=3, threshold=0.0)])
@pytest.mark.parametrize("sampler", [Sampler(), Sampler(temperature=0.8, seed=3)])
def test_the_output_is_plain(engine: Engine, parameters: SelfParameters, sampler: Sampler) -> None:
    asked = request(PROMPT, 24, 6, sampler)
    plain = decode(engine, NoDrafter(), asked, lambda: False)
    assert decode(engine, SelfDrafter(parameters), asked, lambda: False).tokens == plain.tokens
    whole = decode(engine, SelfDrafter(replace(parameters, exit=4)), asked, lambda: False)
    assert whole.tokens == plain.tokens
    assert whole.counts.steps < plain.counts.steps / 2


def test_the_threshold_is_led_to_the_share_that_is_wanted() -> None:
    engine, drafter = RepetitiveEngine(), SelfDrafter(SelfParameters(threshold=0.5))
    engine.prefill((1, 2, 3), lambda: False)
    context = DraftContext((1, 2, 3, 4), 4, cached=3, target=engine)
    drafter.begin(context)
    assert len(drafter.propose(context, 8).tokens) == 8

    def led(accepted: int) -> int:
        for _ in range(2000):
            count = len(drafter.propose(context, 8).tokens)
            drafter.observe(DraftTree.chain((4,)), Verified(tuple(range(min(accepted, count))), (0,)))
        return len(drafter.propose(context, 8).tokens)

    assert led(0) == 1
    assert led(8) == 8


def test_it_drafts_nothing_where_the_cache_is_not_the_texts() -> None:
    engine, drafter = RepetitiveEngine(), SelfDrafter()
    drafter.begin(DraftContext((1, 2), 2, target=engine))
    assert not drafter.propose(DraftContext((1, 2, 3, 4), 2, cached=3, target=engine), 8).tokens
    engine.prefill((1, 2, 3), lambda: False)
    assert drafter.propose(DraftContext((1, 2, 3, 4), 2, cached=3, target=engine), 8).tokens
    assert not drafter.propose(DraftContext((1, 2, 3, 4), 2), 8).tokens


def test_the_search_never_ends_worse_than_the_usual_set(engines: Engines, tmp_path: Path) -> None:
    texts = [list(PROMPT), list(reversed(PROMPT))]
    asked = self_model.trials(engines, texts, 3)
    usual = self_model.search(self_model.Costs(8), asked, 0)
    tries: list[int] = []
    found = self_model.search(self_model.Costs(8), asked, 12, progress=lambda tried, _: tries.append(tried))
    assert usual.skipped == usual_parts(8)
    assert found.speed >= usual.speed
    assert tries == list(range(1, 13))
    assert self_model.search(self_model.Costs(8), asked, 12) == found
    path = skip_sets.keep(tmp_path, "abc", found)
    assert skip_sets.kept(tmp_path, "abc") == skip_sets.SkipSet(found.skipped, found.speed)
    assert skip_sets.kept(tmp_path, "abd") == skip_sets.NO_SKIP_SET
    path.write_text("{")
    assert skip_sets.kept(tmp_path, "abc") == skip_sets.NO_SKIP_SET


def test_a_useless_part_is_found() -> None:

    class Idle(RepetitiveEngine):
        def skim(self, tokens: Tokens, after: int, skipped: frozenset[int], top_k: int) -> Ranked:
            ids, logits = super().skim(tokens, after, skipped, top_k)
            said = self.choose([*self.cached(), *self._skimmed], range(self.info.vocabulary))
            return ids * 0 + (said + (0 in skipped)) % self.info.vocabulary, logits

    said: list[int] = []
    for _ in range(self_model.CHAIN + 1):
        said.append(repetitive([*PROMPT, *said], range(40)))
    asked = [self_model.Trial(Idle(), PROMPT, tuple(said))]
    assert self_model.search(self_model.Costs(4), asked, 60).skipped == {1, 2, 3}


def test_what_a_pass_costs_goes_by_the_parts_that_it_runs() -> None:
    costs = self_model.Costs(sublayers=4, head=0.2, attention=0.25)
    assert costs.share(frozenset()) == 1.0
    assert costs.share(frozenset({0, 1, 2, 3})) == pytest.approx(0.2)
    assert costs.share(frozenset({0})) == pytest.approx(0.2 + 0.8 * (1 - 0.125))
    assert costs.share(frozenset({3})) == pytest.approx(0.2 + 0.8 * (1 - 0.375))
