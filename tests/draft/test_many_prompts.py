"""Every drafter that runs a model of its own, over many prompts: token for token what plain decoding says."""

import random
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from fastcoder_lsp.core import GREEDY, Engine, Sampler
from fastcoder_lsp.decode.loop import decode
from fastcoder_lsp.draft.base import NoDrafter
from fastcoder_lsp.draft.registry import SPECIFICATIONS, DrafterParts, make
from fastcoder_lsp.draft.smaller import Smaller
from tests.draft import own_weights
from tests.draft.small_models import lending
from tests.draft.test_exactness import request
from tests.engine import tiny_models

SMALLER = [name for name, known in SPECIFICATIONS.items() if known.smaller]
NAMES = [*SMALLER, *own_weights.MADE, "self", "auto"]
AUTO = "auto:priced=false,width=fixed"
PROMPTS = 200
TOKENS = 16
SAMPLE = 6
"""Prompts without `--long`."""


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model by chance."""
    return tiny_models.make_model(tmp_path_factory.mktemp("target"), "qwen2")


@pytest.fixture(scope="module")
def engine(target: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    made = tiny_models.load(target, tmp_path_factory.mktemp("cache"), "cpu-int8")
    yield made
    made.close()


@pytest.fixture(scope="module")
def smaller(target: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Smaller]:
    """Two that say nearly what the target says: its weights, changed a little."""
    made = []
    for seed in (1, 2):
        folder = tiny_models.make_model(tmp_path_factory.mktemp("smaller"), "qwen2")
        chance, weights = np.random.default_rng(seed), load_file(target / "model.safetensors")
        noisy = {name: value + 0.1 * value.std() * chance.normal(size=value.shape) for name, value in weights.items()}
        save_file({name: value.astype(np.float32) for name, value in noisy.items()}, folder / "model.safetensors")
        made.append(tiny_models.load(folder, tmp_path_factory.mktemp("cache"), "cpu-int8"))
    yield lending(*(lambda one=one: one for one in made))
    for one in made:
        one.close()


def compared(name: str, engine: Engine, smaller: Smaller, weights: Path, *, sampled: bool, count: int) -> int:
    """How many guesses were accepted over so many prompts; all tokens are the plain ones."""
    parts = DrafterParts(smaller=smaller, skipped=frozenset({1}) if name in ("self", "auto") else frozenset())
    asked = own_weights.write(weights, name) if name in own_weights.MADE else name
    if name == "auto":
        own_weights.write(weights, "eagle")
        asked = f"{AUTO},weights={weights}"
    drafter, chance, accepted = make(asked, parts), random.Random(11), 0
    for number in range(count):
        prompt = tuple(chance.randrange(tiny_models.VOCABULARY) for _ in range(chance.randrange(4, 40)))
        sampler = Sampler(temperature=0.8, top_k=50, top_p=0.95, seed=number) if sampled else GREEDY
        wanted = request(prompt, TOKENS, chance.choice((2, 5, 8, 16, 33)), sampler, f"d{number % 3}")
        plain = decode(engine, NoDrafter(), wanted, lambda: False)
        drafted = decode(engine, drafter, wanted, lambda: False)
        assert drafted.tokens == plain.tokens, (name, number)
        accepted += drafted.counts.accepted
    return accepted


@pytest.mark.parametrize("sampled", [False, True], ids=["greedy", "keyed"])
@pytest.mark.parametrize("name", NAMES)
def test_some_prompts_are_the_same(name: str, sampled: bool, engine: Engine, smaller: Smaller, tmp_path: Path) -> None:
    """A sample of the two hundred; and smaller models are right at times, or nothing would be compared."""
    accepted = compared(name, engine, smaller, tmp_path, sampled=sampled, count=SAMPLE)
    assert accepted or name not in SMALLER


@pytest.mark.long
@pytest.mark.parametrize("sampled", [False, True], ids=["greedy", "keyed"])
@pytest.mark.parametrize("name", NAMES)
def test_two_hundred_prompts_are_the_same(
    name: str, sampled: bool, engine: Engine, smaller: Smaller, tmp_path: Path
) -> None:
    assert compared(name, engine, smaller, tmp_path, sampled=sampled, count=PROMPTS) > 0
