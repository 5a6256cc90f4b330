"""SDSAT's examples: text in which adaptive tokens replace words, so that the model learns to guess ahead.

Liu et al. 2024, *SDSAT: Accelerating LLM Inference through Speculative Decoding with Semantic Adaptive Tokens* (arXiv
2403.18647v2), section 2.2. Three ways to show windows of adaptive tokens:
- `improved`, the paper's: two streams, one plain with the loss on all tokens, one with windows and the loss on the
  replaced positions alone. loss = ½ (plain + w · masked).
- `basic`, the paper's for comparison: one stream with windows, the loss on everything.
- `branches`, ours: windows hang beside one plain stream. The loss is that of `improved`, but a window never sees
  another one, as it never does when decoding, and the text is run once, not twice.
"""

import random
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from fastcoder_lsp.papers.train.example import Example, Ids, Labels, Sequence, Sequences, trunk
from fastcoder_lsp.tokenizer import Tokenizer

Stream = Literal["improved", "basic", "branches"]
PLAIN, MASKED = "plain", "masked"
_FILLING = re.compile(r"\[PAD\d+\]")


@dataclass(frozen=True, slots=True)
class SdsatSettings:
    """Published: `longest` L = 5 (7B) or 7 (13B), `weight` w = 1, a tenth of positions `starts` a window, one id."""

    longest: int = 5
    weight: float = 1.0
    starts: float = 0.1
    stream: Stream = "improved"
    distinct: bool = False  # SDSAT-D, L different ids, the j-th token of a window being the j-th of them

    def weights(self) -> dict[str, float]:
        """The weights of the loss terms."""
        return {PLAIN: 1.0} if self.stream == "basic" else {PLAIN: 0.5, MASKED: 0.5 * self.weight}


def examples_of(
    sequence: Sequence, adaptive: tuple[int, ...], settings: SdsatSettings, draw: random.Random
) -> Iterator[Example]:
    """The examples of one window of text. `adaptive`: the adaptive token's id, or L of them."""
    windows = list(_windows(len(sequence), settings, draw, apart=settings.stream != "branches"))
    if settings.stream == "branches":
        yield _beside(sequence, adaptive, windows)
        return
    if settings.stream == "improved":
        yield Example(*trunk(sequence.tokens), {PLAIN: _next_tokens(sequence)}, {})
    tokens, replaced = _inside(sequence, adaptive, windows)
    labels = _next_tokens(sequence)
    if settings.stream == "basic":
        yield Example(*trunk(tokens), {PLAIN: labels}, {})
        return
    kept = np.isin(labels.nodes, np.flatnonzero(replaced))
    if kept.any():
        yield Example(*trunk(tokens), {MASKED: Labels(labels.nodes[kept], labels.ids[kept])}, {})


def _windows(length: int, settings: SdsatSettings, draw: random.Random, *, apart: bool) -> Iterator[tuple[int, int]]:
    """Start and length of each window, apart and within the text, drawn with probability `starts`; at least one."""
    found = free = 0
    for start in range(1, length - 1):
        if draw.random() < settings.starts and (not apart or start > free):
            size = min(draw.randint(1, settings.longest), length - 1 - start)
            free = start + size
            found += 1
            yield start, size
    if not found and length > 2:
        yield draw.randrange(1, length - 1), 1


def _next_tokens(sequence: Sequence) -> Labels:
    nodes = np.flatnonzero(sequence.text[1:])
    return Labels(nodes.astype(np.int64), sequence.tokens[nodes + 1])


def _inside(sequence: Sequence, adaptive: tuple[int, ...], windows: list[tuple[int, int]]) -> tuple[Ids, Ids]:
    """The tokens with windows in place of text, and a mask of them; control tokens stay and end a window."""
    tokens, replaced = sequence.tokens.copy(), np.zeros(len(sequence), np.int64)
    for start, size in windows:
        for place in range(size):
            if not sequence.text[start + place]:
                break
            tokens[start + place] = adaptive[min(place, len(adaptive) - 1)]
            replaced[start + place] = 1
    return tokens, replaced


def _beside(sequence: Sequence, adaptive: tuple[int, ...], windows: list[tuple[int, int]]) -> Example:
    """The text with each window as a branch below the token before it."""
    tokens, parents = (list(part) for part in trunk(sequence.tokens))
    nodes: list[int] = []
    ids: list[int] = []
    for start, size in windows:
        above = start - 1
        for place in range(size):
            if not (sequence.text[start + place] and sequence.text[start + place + 1]):
                break
            nodes.append(len(tokens))
            ids.append(int(sequence.tokens[start + place + 1]))
            tokens.append(adaptive[min(place, len(adaptive) - 1)])
            parents.append(above)
            above = nodes[-1]
    labels = {PLAIN: _next_tokens(sequence)}
    if nodes:
        labels[MASKED] = Labels(np.array(nodes, np.int64), np.array(ids, np.int64))
    return Example(np.array(tokens, np.int64), np.array(parents, np.int64), labels, {})


class SdsatTask:
    """SDSAT over windows of text, `batch` of them in a step."""

    def __init__(
        self,
        sequences: Sequences,
        adaptive: tuple[int, ...],
        settings: SdsatSettings,
        *,
        batch: int,
        seed: int,
        held_out: int,
    ) -> None:
        self._sequences, self._adaptive, self._settings = sequences, adaptive, settings
        self._batch, self._seed, self._held_out = batch, seed, held_out
        self.weights = settings.weights()

    def examples(self, step: int) -> list[Example]:
        """The examples to train on."""
        found: list[Example] = []
        for index in range(step * self._batch, (step + 1) * self._batch):
            draw = random.Random(f"adaptive {self._seed} {index}")  # noqa: S311 a reproducible draw, no secret
            found += examples_of(self._sequences.at(index), self._adaptive, self._settings, draw)
        return found

    def held_out(self) -> list[Example]:
        """The held-out examples, always made as `branches`, so that all streams can be compared."""
        measured = replace(self._settings, stream="branches")
        found: list[Example] = []
        for index, sequence in enumerate(self._sequences.held_out()[: self._held_out]):
            draw = random.Random(f"held out {index}")  # noqa: S311 as above
            found += examples_of(sequence, self._adaptive, measured, draw)
        return found


def choose_adaptive(tokenizer: Tokenizer, rows: int, count: int) -> tuple[int, ...]:
    """Ids for `count` adaptive tokens (1, or L for SDSAT-D) that no text yields.

    Rows of the embedding without a token come first, then tokens that only fill the vocabulary up (`[PAD151665]`, as
    GGUF names such rows); if both are too few, training adds rows to the embedding, which has `rows`.
    """
    unnamed = range(tokenizer.vocabulary, rows)
    filling = sorted(token for name, token in tokenizer.control.items() if _FILLING.fullmatch(name) and token < rows)
    added = range(max(tokenizer.vocabulary, rows), max(tokenizer.vocabulary, rows) + count)
    return next(tuple(ids[:count]) for ids in (unnamed, filling, added) if len(ids) >= count)
