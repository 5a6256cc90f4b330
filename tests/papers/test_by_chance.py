"""Guesses that are accepted by chance: through the whole loop, on real weights, texts are as likely as ever."""

from collections import Counter
from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pytest

from fastcoder_lsp.core import DraftTree, Sampler, Tokens
from fastcoder_lsp.decode.loop import DecodeRequest, decode
from fastcoder_lsp.draft.registry import DrafterParts, make
from fastcoder_lsp.engine.tree_engine import TreeEngine
from fastcoder_lsp.engine.verification import distribution, top_rows
from tests.engine import tiny_models
from tests.fake_engine import RankingEngine
from tests.papers.small_models import lending

PROMPT = (5, 9, 17, 3)
SAMPLER = Sampler(temperature=0.7, top_k=3, rule="rejection")
"""Three tokens in each place, so that a text of three is drawn often."""
DRAWN = ("draft-model:length=2", "specinfer:expansion=1/2", "self:length=2,threshold=0.5,step=0")
NAMES = (*DRAWN, "draft-model-tree:length=2,branch=3", "ouroboros:length=2,rows=8", "recycling")


class Known:
    """What a tiny model says after each text, computed once."""

    def __init__(self, engine: TreeEngine) -> None:
        self.info = engine.info
        self._engine = engine
        self._rows: dict[tuple[int, ...], npt.NDArray[np.float32]] = {}

    def after(self, text: tuple[int, ...]) -> npt.NDArray[np.float32]:
        if text not in self._rows:
            vocabulary = self.info.vocabulary
            self._engine.prefill(text[:-1], lambda: False)
            verified = self._engine.step(DraftTree.chain(text[-1:]), top_k=vocabulary)
            assert verified.top_ids_NK is not None
            assert verified.top_logits_NK is not None
            row = np.empty(vocabulary, np.float32)
            row[verified.top_ids_NK[0]] = verified.top_logits_NK[0]
            self._rows[text] = row
        return self._rows[text]


class Recalling(RankingEngine):
    """An engine that looks up what a tiny model says."""

    def __init__(self, known: Known) -> None:
        super().__init__(known.info)
        self._known = known

    def logits(self, text: tuple[int, ...]) -> npt.NDArray[np.float32]:
        return self._known.after(text)


class Skimming(Recalling):
    """One that says what another model says where parts of it are left out."""

    sublayers = 4

    def __init__(self, known: Known, partly: Known) -> None:
        super().__init__(known)
        self._partly, self._skimmed = partly, list[int]()

    def skim(
        self, tokens: Tokens, after: int, skipped: frozenset[int], top_k: int
    ) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float32]]:
        self._skimmed[after:] = tokens
        ids_NK, best_NK = top_rows(self._partly.after((*self._cached, *self._skimmed))[None], top_k)
        return ids_NK[0], best_NK[0]


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> tuple[Known, Known]:
    """A tiny model, and one that differs from it by noise in its weights."""
    made = []
    for kind, layers in (("target", 2), ("smaller", 1)):
        folder = tmp_path_factory.mktemp(kind)
        tiny_models.make_model(folder, "qwen2", num_hidden_layers=layers, vocab_size=24)
        made.append(Known(tiny_models.load(folder, tmp_path_factory.mktemp(f"{kind}-cache"), "cpu-fp32")))
    return made[0], made[1]


def request(seed: int) -> DecodeRequest:
    return DecodeRequest(
        PROMPT,
        3,
        frozenset(),
        lambda _: b"x",
        lambda _: np.arange(24),
        lambda _: None,
        sampler=replace(SAMPLER, seed=seed),
        nodes=9,
    )


def surprise(found: Counter[tuple[int, ...]], target: Known) -> float:
    """Chi squared against the products of the target's own probabilities, as a multiple of its 0.999 quantile."""
    due: dict[tuple[int, ...], float] = {(): float(found.total())}
    for _ in range(3):
        due = {
            (*text, int(token)): weight * chances[token]
            for text, weight in due.items()
            for chances in [distribution(target.after((*PROMPT, *text)), SAMPLER)]
            for token in np.flatnonzero(chances)
        }
    assert set(found) <= set(due)
    cells = [(found[text], expected) for text, expected in due.items() if expected >= 5]
    rest = (found.total() - sum(seen for seen, _ in cells), found.total() - sum(expected for _, expected in cells))
    cells += [rest] if rest[1] >= 1 else []
    freedom = len(cells) - 1
    edge = freedom * (1 - 2 / (9 * freedom) + 3.0902 * np.sqrt(2 / (9 * freedom))) ** 3
    return float(sum((seen - expected) ** 2 / expected for seen, expected in cells) / edge)


@pytest.mark.ci
@pytest.mark.parametrize("name", NAMES)
def test_three_tokens_are_as_likely_as_in_plain_sampling(models: tuple[Known, Known], name: str) -> None:
    compare(models, name, 1_500)


@pytest.mark.long
@pytest.mark.parametrize("name", DRAWN)
def test_so_they_are_over_many_more_decodes(models: tuple[Known, Known], name: str) -> None:
    compare(models, name, 20_000)


def compare(models: tuple[Known, Known], name: str, draws: int) -> None:
    """No difference at p = 0.001; guesses are accepted, and some are not."""
    target, small = models
    drafter = make(name, DrafterParts(smaller=lending(lambda: Recalling(small), lambda: Recalling(target))))
    found: Counter[tuple[int, ...]] = Counter()
    steps = accepted = 0
    for seed in range(draws):
        decoded = decode(Skimming(target, small), drafter, request(seed), lambda: False)
        found[decoded.tokens] += 1
        steps += decoded.counts.steps
        accepted += decoded.counts.accepted
    assert surprise(found, target) < 1
    assert accepted > draws / 20
    assert steps > draws
