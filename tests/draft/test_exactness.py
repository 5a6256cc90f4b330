"""The shared promise of all drafters: speculative output == plain output, whatever is drafted, at every width."""

import random
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.numpy import load_file, save_file

from fastcoder_lsp.core import GREEDY, DraftContext, Engine, Rewrite, Sampler
from fastcoder_lsp.decode.loop import DecodeRequest, decode
from fastcoder_lsp.draft.base import Drafter, NoDrafter, Smaller
from fastcoder_lsp.draft.frozen_table import FrozenTable, TableShape, build
from fastcoder_lsp.draft.registry import DrafterParts, make, specifications
from tests.draft.adversaries import ADVERSARIES, Adversary
from tests.draft.small_store import pinned
from tests.draft.toys import RepetitiveEngine
from tests.engine import tiny_models
from tests.papers import own_weights
from tests.papers.small_models import lending, toys

VOCABULARY = 40
NAMES = [name for name in specifications() if name != "none"]
LINES = tuple(b"\n" if token % 9 == 0 else b"  " if token % 7 == 0 else b"w" for token in range(VOCABULARY))


def parts(seed: int = 0, vocabulary: int = VOCABULARY) -> DrafterParts:
    """Stores of random files, partly from what the toy engine would say."""
    chance = random.Random(seed)
    files = [[chance.randrange(vocabulary) for _ in range(200)] for _ in range(3)]
    said = decode(RepetitiveEngine(vocabulary), NoDrafter(), request((1, 2), 200), lambda: False).tokens
    corpus = np.array([*files[0], -1, *said, -1], np.int32)

    def frozen(shape: TableShape) -> FrozenTable:
        return build(corpus, shape)

    stores = replace(pinned([*files, list(said)], files[:1]), frozen=frozen)
    return DrafterParts(lambda _: stores, lambda token: LINES[token % VOCABULARY], smaller=toys(vocabulary))


def request(
    prompt: tuple[int, ...], max_tokens: int = 60, nodes: int = 16, sampler: Sampler = GREEDY, document: str = "d"
) -> DecodeRequest:
    return DecodeRequest(
        prompt,
        max_tokens,
        frozenset({VOCABULARY - 1}),
        piece=lambda token: LINES[token % VOCABULARY],
        allow=lambda _: np.arange(VOCABULARY),
        cut=lambda _: None,
        sampler=sampler,
        document=document,
        nodes=nodes,
    )


PARTS = parts()


@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=15, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.lists(st.integers(0, VOCABULARY - 2), min_size=1, max_size=50),
            st.sampled_from([1, 2, 3, 9, 16, 64]),
            st.sampled_from(["", "a", "b"]),
        ),
        min_size=1,
        max_size=4,
    )
)
def test_every_drafter_leaves_the_output_alone(name: str, decodes: list[tuple[list[int], int, str]]) -> None:
    drafter = make(name, PARTS)
    for prompt, nodes, document in decodes:
        asked = request(tuple(prompt), nodes=nodes, document=document)
        plain = decode(RepetitiveEngine(), NoDrafter(), asked, lambda: False)
        drafted = decode(RepetitiveEngine(), drafter, asked, lambda: False)
        assert (drafted.tokens, drafted.finish) == (plain.tokens, plain.finish)


@pytest.mark.parametrize("name", ["rewrite", "auto"])
@settings(max_examples=15, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 59), st.integers(0, 59), st.lists(st.integers(0, VOCABULARY + 5), max_size=4))),
    st.sampled_from([1, 2, 9, 16, 64]),
)
def test_an_old_text_leaves_the_output_alone(name: str, edits: list[tuple[int, int, list[int]]], nodes: int) -> None:
    asked = request((1, 2), nodes=nodes)
    plain = decode(RepetitiveEngine(), NoDrafter(), asked, lambda: False)
    old = list(plain.tokens)
    for start, length, new in edits:
        old[start : start + length % 5] = new
    rewrite = Rewrite(tuple(old), (VOCABULARY - 1,), ((plain.tokens[:9], tuple(old[:9])),))
    drafted = decode(RepetitiveEngine(), make(name, PARTS), replace(asked, rewrite=rewrite), lambda: False)
    assert (drafted.tokens, drafted.finish) == (plain.tokens, plain.finish)
    if not edits and nodes == 16:
        assert drafted.counts.steps <= 1 + len(plain.tokens) // 15


@pytest.mark.parametrize("kind", ADVERSARIES)
def test_no_adversary_changes_the_output(kind: type[Adversary]) -> None:
    for nodes in (1, 2, 16, 64):
        asked = request((5, 6, 7), nodes=nodes)
        plain = decode(RepetitiveEngine(), NoDrafter(), asked, lambda: False)
        assert decode(RepetitiveEngine(), kind(), asked, lambda: False).tokens == plain.tokens


@pytest.mark.parametrize(
    "name",
    [
        name
        for name in NAMES
        if name != "jacobi" and not specifications()[name].tuned_by and not specifications()[name].own_weights
    ],
)
def test_a_second_decode_of_the_same_text_is_quicker_than_plain(name: str) -> None:
    drafter, prompt = make(name, PARTS), (1, 2)
    decode(RepetitiveEngine(), drafter, request(prompt, nodes=64), lambda: False)
    result = decode(RepetitiveEngine(), drafter, request(prompt, nodes=64), lambda: False)
    assert result.counts.steps < len(result.tokens)
    assert result.counts.accepted > 0


def test_drafts_fit_and_hang_together() -> None:
    for name in NAMES:
        drafter, engine = make(name, PARTS), RepetitiveEngine()
        decode(engine, drafter, request((1, 2), nodes=64), lambda: False)
        tokens = [1, 2, *decode(engine, NoDrafter(), request((1, 2)), lambda: False).tokens[:20]]
        drafter.begin(DraftContext(tokens, 2, "d"))
        for nodes in (1, 7, 63):
            draft = drafter.propose(DraftContext(tokens, 2, "d"), nodes)
            assert len(draft.tokens) <= nodes, name
            assert len(draft.tokens) == len(draft.parents) == len(draft.sources) == len(draft.matches)
            assert all(-1 <= parent < node for node, parent in enumerate(draft.parents))


@pytest.fixture(scope="module")
def engines(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Engine]]:
    folder = tiny_models.make_model(tmp_path_factory.mktemp("tiny"), "qwen2")
    cache = tmp_path_factory.mktemp("cache")
    made: dict[str, Engine] = {
        "fp32": tiny_models.load(folder, cache, "cpu-fp32"),
        "int8": tiny_models.load(folder, cache, "cpu-int8"),
    }
    yield made
    for engine in made.values():
        engine.close()


SAMPLERS = (
    GREEDY,
    Sampler(temperature=1.0, seed=1),
    Sampler(temperature=0.7, top_k=20, seed=2),
    Sampler(temperature=1.3, top_p=0.9, seed=3),
    Sampler(temperature=0.3, top_k=50, top_p=0.8, seed=4),
)


@pytest.mark.parametrize("kind", ["fp32", "int8"])
@pytest.mark.parametrize("sampler", SAMPLERS)
def test_a_model_says_the_same_under_every_drafter(engines: dict[str, Engine], kind: str, sampler: Sampler) -> None:
    engine, chance = engines[kind], random.Random(7)
    given = parts(3, tiny_models.VOCABULARY)
    drafters: list[Drafter] = [make(name, given) for name in NAMES] + [one() for one in ADVERSARIES]
    for nodes in (3, 24):
        prompt = tuple(chance.randrange(tiny_models.VOCABULARY) for _ in range(30))
        asked = request(prompt, 12, nodes, sampler)
        plain = decode(engine, NoDrafter(), asked, lambda: False).tokens
        asked = replace(asked, rewrite=Rewrite((*plain[:5], *prompt[:2], *plain[5:9]), (0,)))
        for drafter in drafters:
            assert decode(engine, drafter, asked, lambda: False).tokens == plain, drafter.name


@pytest.mark.parametrize("kind", ["fp32", "int8"])
@pytest.mark.parametrize("method", own_weights.MADE)
def test_a_model_says_the_same_under_weights_of_their_own(
    engines: dict[str, Engine], tmp_path: Path, kind: str, method: str
) -> None:
    """Without a folder these drafters draft nothing, so here they have one; some guesses are right by chance."""
    engine, chance, accepted = engines[kind], random.Random(8), 0
    drafter = make(own_weights.write(tmp_path, method))
    for sampler in SAMPLERS:
        for nodes in (3, 24):
            prompt = tuple(chance.randrange(tiny_models.VOCABULARY) for _ in range(30))
            asked = request(prompt, 24, nodes, sampler)
            plain = decode(engine, NoDrafter(), asked, lambda: False)
            drafted = decode(engine, drafter, asked, lambda: False)
            assert drafted.tokens == plain.tokens
            accepted += drafted.counts.accepted
    assert accepted > 0


@pytest.mark.ci
@pytest.mark.model
def test_the_real_model_says_the_same(model_folder: Path) -> None:
    from fastcoder_lsp.config import cache_folder
    from fastcoder_lsp.tokenizer import Tokenizer

    tokenizer = Tokenizer.load(model_folder)
    engine = tiny_models.load(model_folder, cache_folder(), "cpu-int8", context=512)
    text = "def area(width, height):\n    return width * height\n\n\ndef perimeter(width, height):\n"
    stores = pinned([tokenizer.encode(text)], [tokenizer.encode("import os\n\n\ndef main():\n    return 0\n")])
    drafters = [make(name, DrafterParts(lambda _: stores, tokenizer.piece)) for name in NAMES]
    try:
        for sampler in (GREEDY, Sampler(temperature=0.8, top_k=50, top_p=0.95, seed=5)):
            asked = DecodeRequest(
                tuple(tokenizer.encode(text)),
                10,
                tokenizer.end_ids,
                tokenizer.piece,
                tokenizer.starting_with,
                lambda _: None,
                sampler=sampler,
            )
            plain = decode(engine, NoDrafter(), asked, lambda: False)
            for drafter in drafters:
                assert decode(engine, drafter, asked, lambda: False).tokens == plain.tokens, drafter.name
    finally:
        engine.close()


SMALLER = [name for name, known in specifications().items() if known.smaller]
OF_THEIR_OWN = [*SMALLER, *own_weights.MADE, "self", "auto"]
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
@pytest.mark.parametrize("name", OF_THEIR_OWN)
def test_some_prompts_are_the_same(name: str, sampled: bool, engine: Engine, smaller: Smaller, tmp_path: Path) -> None:
    """A sample of the two hundred; and smaller models are right at times, or nothing would be compared."""
    accepted = compared(name, engine, smaller, tmp_path, sampled=sampled, count=SAMPLE)
    assert accepted or name not in SMALLER


@pytest.mark.long
@pytest.mark.parametrize("sampled", [False, True], ids=["greedy", "keyed"])
@pytest.mark.parametrize("name", OF_THEIR_OWN)
def test_two_hundred_prompts_are_the_same(
    name: str, sampled: bool, engine: Engine, smaller: Smaller, tmp_path: Path
) -> None:
    assert compared(name, engine, smaller, tmp_path, sampled=sampled, count=PROMPTS) > 0
