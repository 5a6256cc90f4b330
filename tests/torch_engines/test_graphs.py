"""The graph engine on the CPU: the programs that a GPU would capture, against the eager engine, and under bad luck."""

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest
import torch

from fastcoder_lsp.core import Draft, DraftTree, Engine, Sampler
from fastcoder_lsp.decode.tree import Healing, build_tree
from fastcoder_lsp.errors import ResourceError
from fastcoder_lsp.model import ModelFiles
from fastcoder_lsp.torch_engines.graphs import weights
from fastcoder_lsp.torch_engines.graphs.build import build
from fastcoder_lsp.torch_engines.graphs.device import CpuDevice
from fastcoder_lsp.torch_engines.graphs.engine import StaticEngine
from fastcoder_lsp.torch_engines.graphs.weights import GROUP, Int4Product, Int8Product, PlainProduct, working_product
from tests.engine.rows import check_place
from tests.engine.tiny_models import VOCABULARY, load, make_model
from tests.fake_engine import never
from tests.torch_engines.graph_parts import MeanDevice, lengthen, tiny_recipe

FREE = Healing(b"", lambda _token: b"", lambda _bytes: np.zeros(0, np.int64))


def plain(engine: Engine, prompt: Sequence[int], count: int, sampler: Sampler | None = None) -> list[int]:
    engine.prefill(prompt[:-1], never)
    pending, found = [prompt[-1]], list[int]()
    while len(found) < count:
        pending = list(engine.step(DraftTree.chain(pending), sampler or Sampler()).emitted)
        found += pending
    return found[:count]


def drafted(
    engine: Engine,
    prompt: Sequence[int],
    truth: Sequence[int],
    rng: np.random.Generator,
    sampler: Sampler | None = None,
) -> tuple[list[int], int]:
    """The tokens of decoding with guesses of which many are right, and the steps that it took."""
    engine.prefill(prompt[:-1], never)
    pending, found, steps = [prompt[-1]], list[int](), 0
    while len(found) < len(truth):
        right = list(truth[len(found) : len(found) + int(rng.integers(0, 9))])
        wrong = [int(token) for token in rng.integers(0, VOCABULARY, int(rng.integers(0, 20)))]
        tokens, parents = [*wrong, *right], list(range(-1, len(wrong) - 1))
        parents += [-1, *range(len(wrong), len(wrong) + len(right) - 1)][: len(right)]
        for index in range(len(wrong)):
            parents[index] = int(rng.integers(-1, index)) if index else -1
        room = engine.info.max_nodes - 1
        tree = build_tree(pending, Draft(tuple(tokens), tuple(parents)), room=room, vocabulary=VOCABULARY, healing=FREE)
        verified = engine.step(tree, sampler or Sampler())
        pending, steps = [verified.emitted[-1]], steps + 1
        found += verified.emitted
    return found[: len(truth)], steps


def compare(expected: Engine, found: Engine, prompts: int, tokens: int, longest: int) -> None:
    """Plain decoding of one engine and drafted decoding of the other say the same, greedy and sampled."""
    rng = np.random.default_rng(prompts)
    for number in range(prompts):
        prompt = rng.integers(0, VOCABULARY, int(rng.integers(1, longest))).tolist()
        sampler = (Sampler(), Sampler(0.9, seed=number), Sampler(0.8, 30, 0.9, number))[number % 3]
        truth = plain(expected, prompt, tokens, sampler)
        said, steps = drafted(found, prompt, truth, rng, sampler)
        assert said == truth, (number, len(prompt), sampler)
        assert steps < tokens


@pytest.mark.parametrize("kind", ["qwen2", "llama", "llama-long", "starcoder2"])
def test_it_says_what_the_eager_engine_says(kind: str, tmp_path: Path) -> None:
    folder = lengthen(make_model(tmp_path, kind), 4096)
    eager, graphs = load(folder, tmp_path, "cpu-fp32", 1500), load(folder, tmp_path, "cpu-graphs", 1500)
    assert isinstance(graphs, StaticEngine)
    assert len(graphs.static.programs.plan.buckets) > 1
    compare(eager, graphs, prompts=6, tokens=16, longest=1400)


@pytest.mark.long
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("kind", ["qwen2", "llama-long", "starcoder2"])
def test_it_says_so_at_two_hundred_prompts(kind: str, tmp_path: Path) -> None:
    folder = lengthen(make_model(tmp_path, kind), 4096)
    compare(load(folder, tmp_path, "cpu-fp32", 1500), load(folder, tmp_path, "cpu-graphs", 1500), 200, 32, 1400)


@pytest.mark.long
@pytest.mark.timeout(3600)
def test_a_real_model_at_two_hundred_prompts(llama_model: ModelFiles, tmp_path: Path) -> None:
    import argparse
    import asyncio.base_events

    from fastcoder_lsp.tokenizer import Tokenizer

    ids = [
        token
        for module in (argparse, asyncio.base_events)
        for token in Tokenizer.load(llama_model.folder).encode(Path(str(module.__file__)).read_text(encoding="utf-8"))
    ]
    eager, graphs = (load(llama_model.folder, tmp_path, kind, 640, threads=2) for kind in ("cpu-fp32", "cpu-graphs"))
    rng = np.random.default_rng(0)
    for number in range(200):
        start = int(rng.integers(0, len(ids) - 500))
        prompt = ids[start : start + int(rng.integers(40, 480))]
        truth = plain(eager, prompt, 16)
        said, _ = drafted(graphs, prompt, truth, rng)
        assert said == truth, number


def test_a_step_may_be_launched_and_collected_apart(tmp_path: Path) -> None:
    engine = build(tiny_recipe(tmp_path), CpuDevice())
    prompt = [3, 1, 4, 1, 5]
    expected = plain(engine, prompt, 2)
    engine.prefill(prompt[:-1], never)
    engine.launch(DraftTree((prompt[-1], expected[0]), (-1, 0)))
    with pytest.raises(AssertionError, match="under way"):
        engine.launch(DraftTree.chain([1]))
    with pytest.raises(AssertionError, match="under way"):
        engine.prefill([1, 2], never)
    assert engine.collect().emitted == tuple(expected)
    assert engine.cached() == (*prompt, expected[0])


def test_a_row_that_the_best_cannot_decide_is_looked_at_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = lengthen(make_model(tmp_path, "qwen2"), 4096)
    eager, graphs = load(folder, tmp_path, "cpu-fp32", 600), load(folder, tmp_path, "cpu-graphs", 600)
    monkeypatch.setattr("fastcoder_lsp.torch_engines.graphs.verifier.HEAD", 8)
    sampler, prompt, rng = Sampler(1.2, 0, 0.95, 3), [5, 6, 7] * 20, np.random.default_rng(0)
    truth = plain(eager, prompt, 16, sampler)
    assert plain(graphs, prompt, 16, sampler) == truth
    assert drafted(graphs, prompt, truth, rng, sampler)[0] == truth


def test_rejection_and_skimming_are_the_eager_engines(tmp_path: Path) -> None:
    folder = lengthen(make_model(tmp_path, "qwen2"), 4096)
    eager, graphs = load(folder, tmp_path, "cpu-fp32", 600), load(folder, tmp_path, "cpu-graphs", 600)
    prompt, sampler, skipped = [5, 6, 7] * 20, Sampler(0.9, seed=4, rule="rejection"), frozenset({1, 2})
    assert graphs.sublayers == eager.sublayers == 4
    for engine in (eager, graphs):
        engine.prefill(prompt[:-1], never)
    found = [engine.skim([prompt[-1], 3], 0, skipped, 5) for engine in (eager, graphs)]
    assert found[0][0].tolist() == found[1][0].tolist()
    assert np.allclose(found[0][1], found[1][1], atol=1e-3)
    truth = plain(eager, prompt, 16, sampler)
    assert plain(graphs, prompt, 16, sampler) == truth
    tree = DraftTree((prompt[-1], truth[0], truth[1], 9), (-1, 0, 1, 0))
    taken = []
    for engine in (eager, graphs):
        engine.prefill(prompt[:-1], never)
        taken.append(engine.step(tree, sampler, top_k=3))
    assert (taken[0].path, taken[0].emitted) == (taken[1].path, taken[1].emitted)


def test_warming_up_captures_every_size_and_changes_nothing(tmp_path: Path) -> None:
    device, told = MeanDevice(1 << 40), list[str]()
    recipe = tiny_recipe(tmp_path, progress=lambda _share, what: told.append(what))
    engine = build(recipe, device)
    plan = engine.static.programs.plan
    assert len(device.captured) >= len(plan.buckets) * len(plan.widths)
    assert told.count("capturing graphs") + len(engine.static.programs.moves.graphs) == len(device.captured)
    before = len(device.captured)
    prompt = [7, 8, 9] * 300
    assert plain(engine, prompt, 8) == plain(build(tiny_recipe(tmp_path), CpuDevice()), prompt, 8)
    assert len(device.captured) == before


@pytest.mark.parametrize(("programs", "lengths"), [(200, 3), (90, 2), (50, 1)])
def test_memory_that_runs_out_costs_buckets_first(programs: int, lengths: int, tmp_path: Path) -> None:
    engine = build(tiny_recipe(tmp_path), MeanDevice(1 << 40, program_bytes=(1 << 40) // programs))
    assert len(engine.static.programs.plan.buckets) == lengths
    assert engine.info.context == 2000
    assert bool(engine.info.notes) == (lengths < 3)
    prompt = [5, 6, 7] * 50
    assert plain(engine, prompt, 8) == plain(build(tiny_recipe(tmp_path), CpuDevice()), prompt, 8)


def test_a_cache_that_does_not_fit_costs_context(tmp_path: Path) -> None:
    recipe = tiny_recipe(tmp_path)
    slot_bytes = recipe.shape.slot_numbers * 4
    engine = build(recipe, MeanDevice(2000 * slot_bytes))
    assert 512 <= engine.info.context < 2000
    assert any("context" in note for note in engine.info.notes)
    with pytest.raises(ResourceError, match="context"):
        engine.prefill([1] * 1999, never)


@pytest.mark.parametrize(
    "device", [MeanDevice(1000), MeanDevice(1 << 40, program_bytes=1 << 39)], ids=["cache", "programs"]
)
def test_too_little_memory_for_anything_is_said_clearly(device: MeanDevice, tmp_path: Path) -> None:
    with pytest.raises(ResourceError) as caught:
        build(tiny_recipe(tmp_path), device)
    assert "memory" in caught.value.message
    assert "smaller model" in caught.value.hint


def test_going_back_to_another_document_costs_no_prefill(tmp_path: Path) -> None:
    engine = build(tiny_recipe(tmp_path), CpuDevice())
    rng = np.random.default_rng(0)
    shared, first, second = (rng.integers(0, VOCABULARY, size).tolist() for size in (300, 400, 500))
    expected = plain(engine, shared + first, 6)
    assert engine.prefill(shared + second, never).reused == 300
    back = engine.prefill(shared + first, never)
    assert (back.reused, back.computed) == (700, 0)
    assert plain(engine, shared + first, 6) == expected
    assert engine.prefill(shared + second, never).computed == 0
    engine.prefill((), never)
    assert engine.prefill(shared + first, never).reused == 0


def test_the_shelf_stays_within_its_memory(tmp_path: Path) -> None:
    recipe = tiny_recipe(tmp_path)
    slots = 12_000
    engine = build(recipe, MeanDevice(slots * recipe.shape.slot_numbers * 4))
    shelf = engine.static._saved_prefixes
    for document in range(20):
        engine.prefill([(document * 7 + i) % VOCABULARY for i in range(900)], never)
        assert sum(kept.slots.nbytes for kept in shelf._kept) <= slots * recipe.shape.slot_numbers
    assert 1 <= len(shelf) <= 3


def test_strict_rows_are_the_same_bits_in_every_tree(tmp_path: Path) -> None:
    engine = build(tiny_recipe(tmp_path, strict=True), CpuDevice())
    rng = np.random.default_rng(1)
    for length in (1, 40, 150):
        tokens = rng.integers(0, VOCABULARY, length + 16).tolist()
        assert check_place(engine.backend, tokens, 16, rng) == 16
    truth = plain(engine, tokens, 24)
    assert drafted(engine, tokens, truth, rng)[0] == truth


@pytest.fixture
def weight() -> torch.Tensor:
    return torch.randn(96, 4 * GROUP, generator=torch.Generator().manual_seed(0)) * 0.05


@pytest.mark.parametrize(("make", "error"), [(Int8Product, 0.01), (Int4Product, 0.12)])
def test_rounded_products_are_near_the_plain_one(
    make: Callable[..., Int8Product | Int4Product], error: float, weight: torch.Tensor
) -> None:
    x, bias = torch.randn(5, weight.shape[1]), torch.randn(96)
    for given in (bias, None):
        expected = PlainProduct(weight, given)(x)
        product = make(weight, given)
        assert (product(x) - expected).norm() < error * expected.norm()
        assert product.bytes < weight.nbytes / (3 if make is Int8Product else 5)


def broken(_weight: torch.Tensor, _bias: torch.Tensor | None) -> PlainProduct:
    """A product whose operator this torch lacks."""
    raise NotImplementedError("not for this device")


def false(weight: torch.Tensor, bias: torch.Tensor | None) -> PlainProduct:
    """A product that is another matrix's."""
    return PlainProduct(weight.roll(1, 0), bias)


@pytest.mark.parametrize("make", [broken, false])
def test_a_product_is_used_only_where_it_works(
    make: Callable[..., PlainProduct], weight: torch.Tensor, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert working_product(weight.bfloat16(), "int8") == "torch"
    monkeypatch.setattr(weights, "PRODUCTS", {"int8": {"torch": make, "widened": Int8Product}})
    assert working_product(weight.bfloat16(), "int8") == "widened"


def test_a_quantised_engine_is_near_the_plain_one(tmp_path: Path) -> None:
    prompts = [[(number * 31 + i * 7) % VOCABULARY for i in range(12)] for number in range(20)]
    chosen = []
    for precision in ("plain", "int8", "int4"):
        engine = build(tiny_recipe(tmp_path / precision, precision=precision), CpuDevice())
        chosen.append(np.array([plain(engine, prompt, 1)[0] for prompt in prompts]))
    assert (chosen[0] == chosen[1]).mean() >= 0.8
    assert (chosen[0] == chosen[2]).mean() >= 0.25
