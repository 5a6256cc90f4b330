"""Four bits chosen by what a model computes: closer products, and a pass over texts that is the engine's own."""

from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from fastcoder_lsp.engine.int4 import calibrate
from fastcoder_lsp.engine.int4.calibrate import InputStatistics, round_compensated
from fastcoder_lsp.engine.int4.rounding import Rounded, round_matrix
from fastcoder_lsp.engine.int8.dot import GROUP, PLAIN, in_four_bits
from fastcoder_lsp.engine.weights import open_weights
from tests.engine.rows import run
from tests.engine.tiny_models import VOCABULARY, load, make_model, shape_of

Floats = npt.NDArray[np.float32]


def inputs_of(size: int, chance: np.random.Generator) -> Floats:
    """Tokens whose numbers go together, some far larger than others, as those of a model do."""
    shared = chance.standard_normal((900, 24)) @ chance.standard_normal((24, size))
    x_TK: Floats = ((shared + chance.standard_normal((900, size))) * np.exp(chance.standard_normal(size))).astype("f4")
    return x_TK


def gram_of(x_TK: Floats) -> Floats:
    found: Floats = x_TK.T @ x_TK / np.float32(len(x_TK))
    return found


def values(rounded: Rounded) -> Floats:
    found: Floats = rounded.steps_NK * rounded.factors_NG.repeat(GROUP, axis=1) * rounded.scales_N[:, None]
    return found


def test_products_come_closer() -> None:
    chance = np.random.default_rng(3)
    x_TK, weight_NK = inputs_of(256, chance), chance.standard_normal((70, 256)).astype(np.float32)
    gram_KK = gram_of(x_TK)
    ways = (
        round_matrix(weight_NK),
        round_matrix(weight_NK, np.ascontiguousarray(np.diagonal(gram_KK))),
        round_compensated(weight_NK, InputStatistics.of(gram_KK)),
    )
    alone, weighed, made_up = (float(((x_TK @ (values(way) - weight_NK).T) ** 2).sum()) for way in ways)
    assert weighed < alone
    assert made_up < weighed / 3
    chosen = ways[-1]
    assert chosen.steps_NK.min() >= -8
    assert chosen.steps_NK.max() <= 7
    assert np.abs(chosen.factors_NG).max() <= 15
    assert np.array_equal(chosen.sums_N, (chosen.factors_NG.repeat(GROUP, axis=1) * chosen.steps_NK).sum(axis=1))


def naive(weight_K: Floats, factors_G: npt.NDArray[np.int8], scale: float, inputs: InputStatistics) -> list[int]:
    """Algorithm 1 of the paper on one row with known factors, number by number."""
    left, steps = weight_K[inputs.order_K].astype(np.float64), np.zeros(len(weight_K), int)
    upper = inputs.upper_KK.astype(np.float64)
    for place, column in enumerate(inputs.order_K.tolist()):
        step = float(factors_G[column // GROUP]) * scale
        steps[column] = int(np.clip(np.rint(left[place] / step), -8, 7))
        left[place:] -= (left[place] - steps[column] * step) / upper[place, place] * upper[place, place:]
    return steps.tolist()


def test_it_is_the_papers_algorithm() -> None:
    chance = np.random.default_rng(4)
    x_TK, weight_NK = inputs_of(96, chance), chance.standard_normal((20, 96)).astype(np.float32)
    gram_KK = gram_of(x_TK)
    inputs = InputStatistics.of(gram_KK)
    found = round_compensated(weight_NK, inputs)
    scales_N = round_matrix(weight_NK, np.ascontiguousarray(np.diagonal(gram_KK)) + np.float32(1e-8)).scales_N
    same = [
        naive(weight_NK[row], found.factors_NG[row], float(scales_N[row]), inputs) == found.steps_NK[row].tolist()
        for row in range(20)
    ]
    assert sum(same) >= 18  # a tie may fall otherwise in 32 bits, and what follows with it
    weighs = np.diagonal(gram_KK)[inputs.order_K].reshape(-1, GROUP).sum(axis=1)
    assert (np.diff(weighs) <= 0).all(), "the heaviest group is rounded first"


def test_inputs_that_are_always_zero_do_no_harm() -> None:
    chance = np.random.default_rng(5)
    x_TK, weight_NK = inputs_of(64, chance), chance.standard_normal((16, 64)).astype(np.float32)
    x_TK[:, :40], weight_NK[3] = 0, 0
    found = values(round_compensated(weight_NK, InputStatistics.of(gram_of(x_TK))))
    assert np.isfinite(found).all()
    assert not found[3].any()
    assert np.abs(found - weight_NK).max() < np.abs(weight_NK).max()


def texts(count: int, seed: int = 0) -> npt.NDArray[np.int64]:
    return np.random.default_rng(seed).integers(0, VOCABULARY, (count, 60))


@pytest.mark.parametrize("kind", ["qwen2", "qwen3", "granite", "starcoder2"])
def test_the_pass_over_texts_is_the_models(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = make_model(tmp_path / "model", kind)
    shape = shape_of(folder)
    seen: dict[str, Floats] = {}
    monkeypatch.setattr(calibrate, "_values", lambda _rounded: seen["weight"])
    # What stays in bytes, too.
    monkeypatch.setattr(calibrate, "quantise", lambda weight_NK: (weight_NK, np.ones(len(weight_NK), np.float32)))
    monkeypatch.setattr(calibrate, "lay_out_bytes", lambda *_: ())

    def keep(weight_NK: Floats, inputs: InputStatistics) -> Rounded:
        seen["weight"], seen["last"] = weight_NK, inputs.gram_KK
        return round_compensated(weight_NK, inputs)

    monkeypatch.setattr(calibrate, "round_compensated", keep)
    tokens_SC = texts(2)
    with open_weights(folder) as weights:
        calibrate.calibrate(weights, shape, in_four_bits(PLAIN), tokens_SC, lambda _share, _what: None)
        head_VE = weights.array(weights.head_name(), shape.vocabulary, shape.width)
    engine = load(folder, tmp_path, "cpu-fp32")
    logits = []
    for tokens_C in tokens_SC:
        parents = list(range(-1, len(tokens_C) - 1))
        logits.append(run(engine.backend, tokens_C.tolist(), parents, 0))
        engine.backend.compact(0, [])
    engine.close()
    logits_TV = np.concatenate(logits)
    ours_VV = head_VE @ seen["last"] @ head_VE.T
    theirs_VV = logits_TV.T @ logits_TV / len(logits_TV)
    assert np.abs(ours_VV - theirs_VV).max() < 1e-3 * np.abs(theirs_VV).max()
