"""Fitting what `auto` believes at first: the likelihood is that of the drafter, and what was put in is found again."""

from typing import cast

import numpy as np

from benchmarks.datasets.repoeval import FunctionTask
from benchmarks.drafting.row_traces import RowTrace
from benchmarks.drafting.tasks import TaskStores
from benchmarks.priors import PriorExample, collect, fit, starting_priors
from fastcoder_lsp.draft.auto.evidence import CELLS, OUTDATED, RECYCLED, SOURCES, TEXT, Priors
from fastcoder_lsp.draft.base import Pinned


def likely(priors: Priors, cell_BS: np.ndarray) -> np.ndarray:
    """The children's probabilities, written out; the last is that of none of them."""
    odds = [
        np.exp(priors.bias + sum(float(priors.logits_SC[s, cell]) for s, cell in enumerate(cells) if cell >= 0))
        for cells in cell_BS.tolist()
    ]
    likely_B = np.array([*odds, 1.0]) / (1 + sum(odds))
    return np.asarray(likely_B / likely_B.sum())


def examples(truth: Priors, count: int) -> list[PriorExample]:
    """Nodes with three children each; which of them follows is drawn with the true probabilities."""
    chance = np.random.default_rng(0)
    drawn = []
    for _ in range(count):
        cell_BS = np.full((3, len(SOURCES)), -1, np.int32)
        cell_BS[:, TEXT] = chance.choice([-1, 3, 40], 3)
        cell_BS[:, RECYCLED] = chance.choice([-1, 0, 10], 3)
        followed = chance.choice(4, p=likely(truth, cell_BS))
        drawn.append(PriorExample("here", cell_BS, np.arange(3) == followed))
    return drawn


def test_the_truth_is_found_again() -> None:
    """Enough examples make the fitted probabilities those that the examples were drawn with."""
    logits_SC = np.zeros((len(SOURCES), CELLS), np.float32)
    logits_SC[TEXT, [3, 40]], logits_SC[RECYCLED, [0, 10]] = (1.5, -1.0), (2.0, 0.5)
    truth = Priors(logits_SC, -1.5)
    drawn = examples(truth, 4000)
    found = fit(drawn)
    for example in drawn[:50]:
        np.testing.assert_allclose(likely(found, example.cell_BS), likely(truth, example.cell_BS), atol=0.05)


def test_what_no_example_tells_of_is_believed_as_at_the_start() -> None:
    """Cells that never came up stand to each other as before; outdated suggestions are believed like the text."""
    found, start = fit(examples(Priors(np.zeros((len(SOURCES), CELLS), np.float32), 0.0), 200)), starting_priors()
    unseen = slice(20, 30)
    shift_C = found.logits_SC[RECYCLED, unseen] - start.logits_SC[RECYCLED, unseen]
    np.testing.assert_allclose(shift_C, shift_C[0], atol=1e-5)
    np.testing.assert_array_equal(found.logits_SC[OUTDATED], found.logits_SC[TEXT])
    assert not np.array_equal(found.logits_SC[TEXT], start.logits_SC[TEXT])


class NoStores:
    """Datastores that hold nothing."""

    def pin(self, _task: FunctionTask) -> Pinned:
        return Pinned()


def test_what_repeats_is_an_example_of_the_running_text() -> None:
    """Along a text that says itself again, the next token is mostly among what `auto`'s sources say."""
    said = (7, 8, 9, 10) * 6
    trace = RowTrace(FunctionTask("t", "r", "p", 0, 0), (1, 7, 8, 9, 10, 7, 8), (9, 10, *said), {}, {})
    examples = list(collect(cast("TaskStores", NoStores()), [trace], starting_priors()))
    assert {example.repo for example in examples} == {"r"}
    right = [example for example in examples if example.right_B.any()]
    assert len(right) > len(examples) / 2
    assert all(example.right_B.sum() <= 1 for example in examples)
    assert all((example.cell_BS[example.right_B][:, TEXT] >= 0).all() for example in right)
    fitted = fit(examples)
    assert fitted.logits_SC.shape == starting_priors().logits_SC.shape
