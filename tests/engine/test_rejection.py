"""Sampling one token from one row, and acceptance by chance: the target's distribution, whatever the guesses."""

import random
from collections import Counter
from collections.abc import Callable, Mapping
from functools import cache
from itertools import product

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fastcoder_lsp.core import DraftTree, Draw, Proposal, Sampler
from fastcoder_lsp.core.noise import gumbel, uniform
from fastcoder_lsp.engine.verification import accept, choose, distribution, top_rows

V = 4
"""Tokens: few, so that each text of three is drawn often."""
DRAWS = 20_000
Distribution = npt.NDArray[np.float64]
Guesser = Callable[[tuple[int, ...], np.random.Generator], DraftTree]


@cache
def target(text: tuple[int, ...]) -> Distribution:
    return np.random.default_rng([1, *text]).dirichlet(np.ones(V) * 0.7)


@cache
def guess(model: int, text: tuple[int, ...]) -> Proposal:
    """What a smaller model says; it never says one of the tokens, and is wrong about the others."""
    weights = np.random.default_rng([2, model, *text]).dirichlet(np.ones(V - 1))
    return Proposal(np.delete(np.arange(V), (len(text) + model) % V), weights)


def drawn(models: tuple[int, ...]) -> Guesser:
    """Chains of two tokens, one a model, which may have a beginning in common; as `specinfer` draws them."""

    def tree(text: tuple[int, ...], noise: np.random.Generator) -> DraftTree:
        tokens, parents, draws = [0], [-1], list[Draw]()
        for model in models:
            node, path = 0, text
            for _ in range(2):
                proposal = guess(model, path)
                token = int(proposal.ids[np.searchsorted(proposal.probabilities.cumsum(), noise.random())])
                known = [n for n in range(1, len(tokens)) if (parents[n], tokens[n]) == (node, token)]
                if not known:
                    known = [len(tokens)]
                    tokens.append(token)
                    parents.append(node)
                node, path = known[0], (*path, token)
                draws.append(Draw(node, proposal))
        return DraftTree(tuple(tokens), tuple(parents), draws=tuple(draws))

    return tree


def certain(text: tuple[int, ...], noise: np.random.Generator) -> DraftTree:
    """Two branches that follow from the text alone, as most drafters guess."""
    first = sum(text) % V
    return DraftTree((0, first, (first + 1) % V, 2), (-1, 0, 0, 1))


def mixed(text: tuple[int, ...], noise: np.random.Generator) -> DraftTree:
    """A drawn guess beside one that was not."""
    tree = drawn((0,))(text, noise)
    free = next(token for token in range(V) if token not in tree.children()[0])
    # Which token is free depends on what was drawn before it, never on itself.
    return DraftTree((*tree.tokens, free), (*tree.parents, 0), draws=tree.draws)


def texts(guesser: Guesser, draws: int = DRAWS) -> Counter[tuple[int, ...]]:
    """The first three tokens of many decodes, each with a seed of its own."""
    found: Counter[tuple[int, ...]] = Counter()
    noise = np.random.default_rng(5)
    logits: dict[tuple[int, ...], npt.NDArray[np.float32]] = {}
    for seed in range(draws):
        text: tuple[int, ...] = ()
        sampler = Sampler(temperature=1.0, seed=seed, rule="rejection")
        while len(text) < 3:
            tree = guesser(text, noise)
            rows, paths = [], [text]
            for node, parent in enumerate(tree.parents):
                path = (*paths[parent], tree.tokens[node]) if node else text
                paths[node:] = [path]
                if path not in logits:
                    logits[path] = np.log(target(path)).astype(np.float32)
                rows.append(logits[path])
            text += accept(tree, np.array(rows), sampler, {}, len(text), 8)[1]
        found[text[:3]] += 1
    return found


def surprise(found: Counter[tuple[int, ...]]) -> float:
    """Chi squared of the texts against the products of the target's probabilities, as a multiple of the edge."""
    chances = {
        text: float(np.prod([target(text[:place])[token] for place, token in enumerate(text)]))
        for text in product(range(V), repeat=3)
    }
    draws = found.total()
    rare = [text for text, chance in chances.items() if chance * draws < 5]
    cells = [(found[text], chances[text] * draws) for text in chances if text not in rare]
    if rare:
        cells.append((sum(found[text] for text in rare), sum(chances[text] for text in rare) * draws))
    freedom = len(cells) - 1
    # Wilson and Hilferty: the 0.999 quantile of chi squared.
    edge = freedom * (1 - 2 / (9 * freedom) + 3.0902 * np.sqrt(2 / (9 * freedom))) ** 3
    return float(sum((seen - due) ** 2 / max(due, 1e-9) for seen, due in cells) / edge)


@pytest.mark.ci
@pytest.mark.parametrize(
    "guesser", [drawn((0,)), drawn((0, 1, 2)), certain, mixed], ids=["one model", "three models", "certain", "mixed"]
)
def test_three_tokens_have_the_distribution_of_plain_sampling(guesser: Guesser) -> None:
    """20,000 decodes against the exact probabilities: no difference at p = 0.001."""
    assert surprise(texts(guesser)) < 1


def test_without_guesses_it_is_plain_sampling() -> None:
    chance = random.Random(2)
    for seed in range(200):
        logits_V = np.random.default_rng(seed).normal(size=50).astype(np.float32)
        sampler = Sampler(0.8, chance.choice([0, 10]), chance.choice([1.0, 0.9]), seed, "rejection")
        allowed: Mapping[int, npt.NDArray[np.int64]] = {0: np.arange(0, 50, 3)} if seed % 2 else {}
        _, emitted = accept(DraftTree.chain((1,)), logits_V[None], sampler, allowed, 7, 5)
        assert emitted == (choose(logits_V, sampler, 8, allowed.get(0)),)


def test_what_agrees_is_always_accepted() -> None:
    text: tuple[int, ...] = ()
    logits = np.log(target(text)).astype(np.float32)
    ids = np.arange(V)
    for seed in range(300):
        sampler = Sampler(1.0, seed=seed, rule="rejection")
        proposal = Proposal(ids, distribution(logits, sampler))
        tree = DraftTree((0, seed % V), (-1, 0), draws=(Draw(1, proposal),))
        assert accept(tree, np.array([logits, logits]), sampler, {}, 0, 8)[0] == (1,)
    greedy = Sampler(0.0, rule="rejection")
    tree = DraftTree((0, int(np.argmax(logits))), (-1, 0))
    assert accept(tree, np.array([logits, logits]), greedy, {}, 0, 8)[0] == (1,)


def test_a_guess_outside_the_vocabulary_is_never_accepted() -> None:
    logits = np.log(target(())).astype(np.float32)
    tree = DraftTree((0, 99), (-1, 0), draws=(Draw(1, Proposal(np.array([1, 99]), np.array([0.5, 0.5]))),))
    for seed in range(50):
        path, emitted = accept(tree, np.array([logits, logits]), Sampler(1.0, seed=seed, rule="rejection"), {}, 0, 8)
        assert path == ()
        assert emitted[0] < V


def test_single_numbers_are_spread_evenly() -> None:
    numbers = np.array([uniform(seed, place, index) for seed in range(20) for place in range(20) for index in range(5)])
    assert abs(numbers.mean() - 0.5) < 4 / np.sqrt(12 * len(numbers))
    assert len(set(numbers.tolist())) == len(numbers)


@given(st.lists(st.integers(0, 3), min_size=1, max_size=40), st.data())
def test_ties_go_to_the_lowest_id(values: list[int], data: st.DataObject) -> None:
    logits = np.array(values, dtype=np.float32)
    assert choose(logits, Sampler(), 0) == values.index(max(values))
    allowed = data.draw(st.lists(st.integers(0, len(values) - 1), min_size=1))
    best = max(values[token] for token in allowed)
    expected = min(token for token in allowed if values[token] == best)
    assert choose(logits, Sampler(), 0, np.array(allowed, dtype=np.int64)) == expected


def test_draws_follow_the_softmax() -> None:
    logits = np.log(np.array([0.5, 0.3, 0.15, 0.05], dtype=np.float32))
    count = 4000
    drawn = np.bincount([choose(logits, Sampler(1.0, seed=3), position) for position in range(count)], minlength=4)
    shares = np.exp(logits)
    assert (np.abs(drawn / count - shares) < 5 * np.sqrt(shares * (1 - shares) / count)).all()


def test_top_k_top_p_and_min_p_leave_the_best_alone() -> None:
    logits = np.log(np.array([0.05, 0.5, 0.15, 0.3], dtype=np.float32))

    def reachable(sampler: Sampler) -> set[int]:
        return {choose(logits, sampler, position) for position in range(300)}

    assert reachable(Sampler(1.0, top_k=2)) == {1, 3}
    assert reachable(Sampler(1.0, top_p=0.75)) == {1, 3}
    assert reachable(Sampler(1.0, top_p=0.85)) == {1, 2, 3}
    assert reachable(Sampler(1.0, top_p=0.0)) == {1}
    assert reachable(Sampler(1.0, min_p=1.0)) == {1}
    assert reachable(Sampler(1.0, min_p=0.4)) == {1, 3}
    assert reachable(Sampler(1.0, min_p=0.25)) == {1, 2, 3}
    assert reachable(Sampler(1.0, top_k=2, min_p=0.25)) == {1, 3}
    assert reachable(Sampler(5.0, top_k=3, top_p=0.99)) == {1, 2, 3}


def test_noise_depends_on_seed_and_position_alone() -> None:
    ids = np.arange(1000, dtype=np.int64)
    noise = gumbel(5, 17, ids)
    assert (gumbel(5, 17, ids[[3, 500]]) == noise[[3, 500]]).all()
    assert (gumbel(5, 18, ids) != noise).mean() > 0.99
    assert (gumbel(6, 17, ids) != noise).mean() > 0.99
    assert np.isfinite(gumbel(2**70 + 1, 2**20, ids)).all()


@given(st.lists(st.lists(st.integers(0, 5), min_size=7, max_size=7), min_size=1, max_size=4), st.integers(1, 9))
def test_top_rows_equal_a_full_sort(rows: list[list[int]], count: int) -> None:
    logits = np.array(rows, dtype=np.float32)
    ids, values = top_rows(logits, count)
    for row, found in zip(rows, ids.tolist(), strict=True):
        assert found == sorted(range(7), key=lambda token: (-row[token], token))[:count]
    assert (values == np.take_along_axis(logits, ids, axis=1)).all()


@given(st.lists(st.integers(0, 5), min_size=7, max_size=7), st.sets(st.integers(0, 6), min_size=1), st.integers(1, 9))
def test_top_rows_of_a_row_that_only_some_may_follow(row: list[int], allowed: set[int], count: int) -> None:
    ids, values = top_rows(np.array([row, row], dtype=np.float32), count, {1: np.array([*allowed, *allowed])})
    assert ids[0].tolist() == sorted(range(7), key=lambda token: (-row[token], token))[:count]
    wanted = sorted(allowed, key=lambda token: (-row[token], token))[:count]
    assert ids[1, : len(wanted)].tolist() == wanted
    assert values[1].tolist() == [*(row[token] for token in wanted), *[-np.inf] * (min(count, 7) - len(wanted))]


@given(st.integers(0, 2**32), st.integers(1, 12), st.integers(2, 40), st.integers(700, 5000))
def test_top_rows_of_a_wide_row(seed: int, count: int, distinct: int, width: int) -> None:
    logits = np.random.default_rng(seed).integers(0, distinct, (1, width)).astype(np.float32)
    ids, _ = top_rows(logits, count)
    assert ids[0].tolist() == sorted(range(width), key=lambda token: (-logits[0, token], token))[:count]
