"""Four bits chosen by what a model computes: closer products, the engine's own pass, kept, found first, judged."""

import dataclasses
import json
import shutil
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from fastcoder_lsp.config import kernels_folder
from fastcoder_lsp.engine import EngineOptions
from fastcoder_lsp.engine.architecture import Shape, fast_shape, read_config
from fastcoder_lsp.engine.backend import Backend
from fastcoder_lsp.engine.calibrated import MOST_LOSS, Loss, choose_weights, judge, known_loss, taken_by_auto
from fastcoder_lsp.engine.int4 import calibrate
from fastcoder_lsp.engine.int4.compensated import DAMPING, Inputs, round_compensated
from fastcoder_lsp.engine.int4.packing import Rounded, round_matrix
from fastcoder_lsp.engine.int8 import selftest
from fastcoder_lsp.engine.int8.dot import AMX, AVX2, GROUP, NEON_DOT, NEON_I8MM, PLAIN, VNNI_512, DotKind, in_four_bits
from fastcoder_lsp.engine.int8.stored import calibrated_name, form_of
from fastcoder_lsp.engine.job import Job, prepare
from fastcoder_lsp.engine.loader import load_engine
from fastcoder_lsp.engine.weights import open_weights
from tests.engine.rows import prefill, run
from tests.engine.tiny_models import VOCABULARY, load, make_model

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


def test_the_triangle_is_that_of_the_inverse() -> None:
    """UᵀU undoes the damped sum in the order of the groups, which go by what they weigh."""
    x_TK = inputs_of(160, np.random.default_rng(2))
    gram_KK = gram_of(x_TK)
    inputs = Inputs.of(gram_KK)
    ordered = gram_KK[np.ix_(inputs.order_K, inputs.order_K)]
    ordered = ordered + np.eye(160) * DAMPING * np.diagonal(gram_KK).mean()
    assert not np.tril(inputs.upper_KK, -1).any()
    assert np.abs(inputs.upper_KK.T @ inputs.upper_KK @ ordered - np.eye(160)).max() < 1e-3
    weighs = np.diagonal(gram_KK)[inputs.order_K].reshape(-1, GROUP).sum(axis=1)
    assert (np.diff(weighs) <= 0).all()
    assert sorted(inputs.order_K.tolist()) == list(range(160))


def test_products_come_closer() -> None:
    """Of rows rounded alone, by what numbers weigh, and with errors made up for, the last leaves far the least."""
    chance = np.random.default_rng(3)
    x_TK, weight_NK = inputs_of(256, chance), chance.standard_normal((70, 256)).astype(np.float32)
    gram_KK = gram_of(x_TK)
    ways = (
        round_matrix(weight_NK),
        round_matrix(weight_NK, np.ascontiguousarray(np.diagonal(gram_KK))),
        round_compensated(weight_NK, Inputs.of(gram_KK)),
    )
    alone, weighed, made_up = (float(((x_TK @ (values(way) - weight_NK).T) ** 2).sum()) for way in ways)
    assert weighed < alone
    assert made_up < weighed / 3
    chosen = ways[-1]
    assert chosen.steps_NK.min() >= -8
    assert chosen.steps_NK.max() <= 7
    assert np.abs(chosen.factors_NG).max() <= 15
    assert np.array_equal(chosen.sums_N, (chosen.factors_NG.repeat(GROUP, axis=1) * chosen.steps_NK).sum(axis=1))


def naive(weight_K: Floats, factors_G: npt.NDArray[np.int8], scale: float, inputs: Inputs) -> list[int]:
    """Algorithm 1 of the paper on one row with known factors, number by number."""
    left, steps = weight_K[inputs.order_K].astype(np.float64), np.zeros(len(weight_K), int)
    upper = inputs.upper_KK.astype(np.float64)
    for place, column in enumerate(inputs.order_K.tolist()):
        step = float(factors_G[column // GROUP]) * scale
        steps[column] = int(np.clip(np.rint(left[place] / step), -8, 7))
        left[place:] -= (left[place] - steps[column] * step) / upper[place, place] * upper[place, place:]
    return steps.tolist()


def test_it_is_the_papers_algorithm() -> None:
    """With the factors that were chosen, and the scale of the search, the numbers are those of a naive walk."""
    chance = np.random.default_rng(4)
    x_TK, weight_NK = inputs_of(96, chance), chance.standard_normal((20, 96)).astype(np.float32)
    gram_KK = gram_of(x_TK)
    inputs = Inputs.of(gram_KK)
    found = round_compensated(weight_NK, inputs)
    scales_N = round_matrix(weight_NK, np.ascontiguousarray(np.diagonal(gram_KK)) + np.float32(1e-8)).scales_N
    same = [
        naive(weight_NK[row], found.factors_NG[row], float(scales_N[row]), inputs) == found.steps_NK[row].tolist()
        for row in range(20)
    ]
    assert sum(same) >= 18  # a tie may fall otherwise in 32 bits, and what follows with it


def test_inputs_that_are_always_zero_do_no_harm() -> None:
    """Columns that no token uses are rounded by themselves; rows of zeros stay zero."""
    chance = np.random.default_rng(5)
    x_TK, weight_NK = inputs_of(64, chance), chance.standard_normal((16, 64)).astype(np.float32)
    x_TK[:, :40], weight_NK[3] = 0, 0
    found = values(round_compensated(weight_NK, Inputs.of(gram_of(x_TK))))
    assert np.isfinite(found).all()
    assert not found[3].any()
    assert np.abs(found - weight_NK).max() < np.abs(weight_NK).max()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_model(tmp_path_factory.mktemp("calibrated"), "qwen2")


def texts(count: int, seed: int = 0) -> npt.NDArray[np.int64]:
    return np.random.default_rng(seed).integers(0, VOCABULARY, (count, 60))


def job_of(folder: Path, cache: Path, kind: str = "cpu-int4") -> Job:
    return prepare(
        folder,
        folder.name,
        "test",
        str(folder),
        options=EngineOptions(kind=kind, context=64, threads=1),  # type: ignore[arg-type]
        cache=cache,
        kernels=kernels_folder(),
        progress=lambda _share, _what: None,
        enter=lambda _stage: None,
    )


def test_the_pass_over_texts_is_the_models(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With weights left as they are, what reaches the head is what the engine in 32-bit floats gives to it."""
    shape = fast_shape(read_config(folder))
    assert shape is not None
    seen: dict[str, Floats] = {}
    monkeypatch.setattr(calibrate, "_values", lambda _rounded: seen["weight"])
    # What stays in bytes, too.
    monkeypatch.setattr(calibrate, "quantise", lambda weight_NK: (weight_NK, np.ones(len(weight_NK), np.float32)))
    monkeypatch.setattr(calibrate, "lay_out_bytes", lambda *_: ())

    def keep(weight_NK: Floats, inputs: Inputs) -> Rounded:
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


def test_chosen_weights_are_kept_found_first_and_closer(folder: Path, tmp_path: Path) -> None:
    """The engine takes the file that was made; its logits come closer to 32 bits than plainly rounded ones do."""
    plain = load(folder, tmp_path / "plain", "cpu-int4")
    path = choose_weights(job_of(folder, tmp_path), texts(40))
    assert path.is_file()
    chosen, exact = load(folder, tmp_path, "cpu-int4"), load(folder, tmp_path, "cpu-fp32")
    assert [path] == list((tmp_path / "int4").glob("*.safetensors"))
    away = {}
    tokens = texts(1, seed=9)[0].tolist()
    expected = run(exact.backend, tokens, list(range(-1, len(tokens) - 1)), 0)
    for name, engine in (("plain", plain), ("chosen", chosen)):
        prefill(engine.backend, tokens[:1], [1])
        found = run(engine.backend, tokens, list(range(-1, len(tokens) - 1)), 0)
        away[name] = float(((found - expected) ** 2).mean())
        engine.close()
    exact.close()
    assert away["chosen"] < away["plain"]


def test_what_is_better_is_kept_and_auto_takes_what_loses_little(folder: Path, tmp_path: Path) -> None:
    """What was measured is kept beside the weights and decides; without the weights nothing is known."""
    job = job_of(folder, tmp_path)
    made = list[Path]()

    def choose() -> Path:
        made.append(choose_weights(job, texts(8)))
        return made[-1]

    for better in (True, False):
        # The second time the weights are those of plain rounding, which is no better than itself.
        chosen = choose if better else lambda: Path(shutil.copyfile(plain_file(tmp_path), made[0]))
        found = judge(job, lambda kind: load_engine(job_of(folder, tmp_path, kind)).backend, chosen, texts(3, seed=5))
        assert found.plain.tokens == found.chosen.tokens == 3 * 59
        assert made[0].is_file() == (known_loss(str(folder), tmp_path) is not None) == found.kept
        assert better or not found.kept
    assert known_loss(str(folder), tmp_path) is None
    path = choose()
    for nats, expected in ((MOST_LOSS / 2, "cpu-int4"), (MOST_LOSS * 2, "cpu-int8")):
        told = Loss(nats, MOST_LOSS / 8, 1000)
        path.with_suffix(".json").write_text(json.dumps(dataclasses.asdict(told)), encoding="utf-8")
        assert known_loss(str(folder), tmp_path) == told
        engine = load_engine(job_of(folder, tmp_path, "auto"))
        assert engine.info.name == expected
        assert any("four-bit weights" in note for note in engine.info.notes) == (expected == "cpu-int4")
        engine.close()
    path.with_suffix(".json").write_text("{}", encoding="utf-8")
    assert known_loss(str(folder), tmp_path) is None
    path.with_suffix(".json").write_text(json.dumps(dataclasses.asdict(Loss(0, 0, 1))), encoding="utf-8")
    assert taken_by_auto(str(folder), tmp_path) is not None
    for kept in (path, path.with_suffix(".json")):  # of a layout that nothing here reads
        shutil.copyfile(kept, kept.with_name(kept.name.replace("-x", "-x9")))
    path.unlink()
    assert known_loss(str(folder), tmp_path) is None


@pytest.mark.parametrize(
    ("kinds", "chose", "width", "read"),
    [
        ((AMX, VNNI_512), VNNI_512, 128, False),
        ((AMX, VNNI_512), VNNI_512, 96, True),
        ((AVX2,), NEON_I8MM, 128, False),
        ((AVX2,), NEON_DOT, 128, True),
    ],
)
def test_weights_of_a_layout_that_another_kind_reads_count_as_gone(
    kinds: tuple[DotKind, ...],
    chose: DotKind,
    width: int,
    *,
    read: bool,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A machine with tiles shares a cache with one without: what that one chose is for models that do not fit tiles."""
    monkeypatch.setattr(selftest, "kinds_here", lambda: kinds)
    shape = Shape("qwen2", 1, width, 2, 1, 64, 2 * width, 100, 1e-6, 64, np.ones(32))
    name = f"{calibrated_name('a model')}-{form_of(in_four_bits(chose))}-f16"
    (tmp_path / "int4").mkdir()
    (tmp_path / "int4" / f"{name}.safetensors").touch()
    told = Loss(0.01, 0.001, 1000)
    (tmp_path / "int4" / f"{name}.json").write_text(json.dumps(dataclasses.asdict(told)), encoding="utf-8")
    assert known_loss("a model", tmp_path, shape) == (told if read else None)


def test_weights_that_nobody_judged_are_not_left(folder: Path, tmp_path: Path) -> None:
    """Interrupted while they are compared: the next start takes plainly rounded ones, as before."""
    job, made = job_of(folder, tmp_path), list[Path]()

    def choose() -> Path:
        made.append(Path(shutil.copyfile(plain_file(tmp_path), tmp_path / "int4" / "chosen.safetensors")))
        return made[-1]

    def backend(kind: str) -> Backend:
        if made:
            raise KeyboardInterrupt
        return load_engine(job_of(folder, tmp_path, kind)).backend

    with pytest.raises(KeyboardInterrupt):
        judge(job, backend, choose, texts(1, seed=5))
    assert made
    assert not made[0].exists()


def plain_file(cache: Path) -> Path:
    """The file of plainly rounded weights."""
    return next(path for path in (cache / "int4").glob("*.safetensors") if "calibrated" not in path.name)
