"""`bench leisure`, `bench prompt`, `bench priors`: their arithmetic on made-up values."""

import contextlib
from dataclasses import replace

import numpy as np
import pytest

from benchmarks.datasets import histories
from benchmarks.leisure import ShownTexts, ask, choose
from benchmarks.priors import PriorExample, fit
from benchmarks.prompt import replay
from fastcoder_lsp.client.client import LanguageClient, ReceivedSuggestion
from fastcoder_lsp.draft.auto.evidence import CELLS, RECYCLED, SOURCES, TEXT, Priors
from fastcoder_lsp.prompt import PromptOptions
from tests.bench.keystroke.test_typist import MadeUpTime
from tests.prompt.toy_tokenizers import of_family

TREE = {
    "a.py": "".join(f"value_{number} = compute(first, second_{number})\n" for number in range(80)),
    "short.py": "x = 1\n",
    "notes.md": "words " * 1000,
}


@pytest.mark.parametrize(
    ("texts", "found"),
    [
        (["one", "two"], ShownTexts("one", 0.0, "two")),
        (["", "", "late", "two"], ShownTexts("late", 2.0, "two")),
        ([""] * 8, ShownTexts("", 6.0, "")),
    ],
)
@pytest.mark.parametrize("cursor_s", [0.0, 1.5])
def test_a_place_is_asked_until_it_shows_a_text_and_after_a_rest(
    texts: list[str], found: ShownTexts, cursor_s: float
) -> None:
    said = iter(texts)
    told: list[str] = []
    place = choose(TREE, 1, 5)[0]

    class Server(LanguageClient):
        def open(self, uri: str, language: str, version: int, text: str) -> None:
            told.append("open")

        def change(self, uri: str, version: int, before: str, after: str) -> None:
            told.append("change")
            assert (version, len(before), after) == (2, len(place.text) - 1, place.text)

        def cursor(self, uri: str, version: int, text: str, offset: int) -> None:
            told.append("cursor")
            assert (version, text, offset) == (2, place.text, place.offset)

        def close(self, uri: str) -> None:
            told.append("close")

        async def suggest(self, uri: str, text: str, offset: int, *, invoked: bool) -> ReceivedSuggestion | None:
            assert invoked
            answer = next(said)
            return ReceivedSuggestion(answer, offset, offset) if answer else None

    client = Server(lambda _: None, lambda _: None, lambda _: None)
    with contextlib.closing(MadeUpTime()) as loop:
        assert loop.run_until_complete(ask(client, "file:///a.py", place, 1, 2.0, cursor_s)) == found
    assert next(said, None) is None
    assert told == ["open", *(("change", "cursor") if cursor_s else ()), "close"]


RUN = histories.TypedRun("a.py", "python", "a = 1\nz = 9\n", 6, "if a:\n    b = 2\n")


def test_replay_counts_each_kind_of_first_prompt() -> None:
    """A short one is followed by the whole one, which no key waits for."""
    document = "".join(f"value_{number} = compute({number})\n" for number in range(300))
    runs = [replace(RUN, document=document, offset=document.index(f"value_{line} ")) for line in (150, 160)]
    found = replay(of_family("Qwen2.5-Coder"), PromptOptions(), runs, room=400).tokens
    assert [len(found[kind]) for kind in ("file", "place", "behind")] == [1, 1, 2]
    assert max(found["file"] + found["place"]) <= 420 < min(found["behind"][:1])
    whole = replay(of_family("Qwen2.5-Coder"), PromptOptions(), runs).tokens
    assert whole["behind"] == []
    assert whole["file"][0] > 1.5 * whole["place"][0] > 0


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
    logits_SC = np.zeros((len(SOURCES), CELLS), np.float32)
    logits_SC[TEXT, [3, 40]], logits_SC[RECYCLED, [0, 10]] = (1.5, -1.0), (2.0, 0.5)
    truth = Priors(logits_SC, -1.5)
    drawn = examples(truth, 4000)
    found = fit(drawn)
    for example in drawn[:50]:
        np.testing.assert_allclose(likely(found, example.cell_BS), likely(truth, example.cell_BS), atol=0.05)
