"""From texts to sequences of tokens: windows of files, some re-ordered for filling in the middle.

Owns the cutting and the order. Window i is a function of (texts, seed, i) alone, so a resumed run gets the same windows
again. The last files of the seeded order are held out for evaluation.
"""

import random
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fastcoder_lsp.errors import UsageError
from fastcoder_lsp.prompt.templates import template_of
from fastcoder_lsp.tokenizer import Tokenizer
from fastcoder_lsp.train.example import Ids

FIM_SHARE = 0.5
"""The share of windows that are re-ordered, half of them each way (SDSAT, section 4: PSM and SPM 25 % each)."""
HELD_OUT_SHARE, HELD_OUT_MOST = 0.05, 24
SHORTEST = 24
"""Tokens of a window worth a pass."""
MARGIN = 8
"""Tokens left for control tokens, and for those that tokenizing a cut text adds."""


@dataclass(frozen=True, slots=True)
class Sequence:
    """One window: its tokens, and which of them are text (control tokens are neither predicted nor replaced)."""

    tokens: Ids
    text: npt.NDArray[np.bool_]

    def __len__(self) -> int:
        return len(self.tokens)


def order(count: int, seed: int, index: int) -> int:
    """The index-th of `count` items to train on: all once in each epoch, each epoch in another order."""
    epoch, place = divmod(index, count)
    return int(np.random.default_rng([seed, epoch]).permutation(count)[place])


class Sequences:
    """Windows of `length` tokens at most over the texts of a run."""

    def __init__(
        self, texts: tuple[str, ...], tokenizer: Tokenizer, *, length: int, seed: int, fim_share: float = FIM_SHARE
    ) -> None:
        self._tokenizer, self._length, self._seed, self._fim_share = tokenizer, length, seed, fim_share
        self._template = template_of(tokenizer)
        shuffled = list(texts)
        random.Random(f"files {seed}").shuffle(shuffled)  # noqa: S311 a reproducible draw, no secret
        ids = tokenizer.encode_many(shuffled)
        held = min(HELD_OUT_MOST, int(len(ids) * HELD_OUT_SHARE)) if len(ids) > 1 else 0
        if held == 0 and len(ids) > 1:
            held = 1
        self._held = self._cut(ids[len(ids) - held :], 1)[:HELD_OUT_MOST]
        self._windows = self._cut(ids[: len(ids) - held], None)
        if not self._windows:
            raise UsageError("there is too little code to learn from", "Name more folders or archives.")
        self.tokens = sum(map(len, self._windows))
        self.files = len(ids) - held

    def __len__(self) -> int:
        return len(self._windows)

    def at(self, index: int) -> Sequence:
        """The index-th window; after the last, all come again in another order."""
        window = self._windows[order(len(self._windows), self._seed, index)]
        return self._made(window, random.Random(f"window {self._seed} {index}"))  # noqa: S311

    def counts(self, vocabulary: int) -> npt.NDArray[np.int64]:
        """How often each token of the vocabulary occurs in the windows of `at`."""
        return sum(
            (np.bincount(window, minlength=vocabulary) for window in self._windows), np.zeros(vocabulary, np.int64)
        )

    def held_out(self) -> list[Sequence]:
        """Windows of held-out files, one of each, plain text."""
        return [self._plain(window) for window in self._held]

    def _cut(self, files: list[list[int]], most: int | None) -> list[Ids]:
        """Windows that share nothing; at most `most` of a file."""
        step = self._length - MARGIN - len(self._tokenizer.start_ids)
        windows = []
        for ids in files:
            pieces = [ids[start : start + step] for start in range(0, len(ids), step)]
            kept = [np.array(piece, np.int64) for piece in pieces if len(piece) >= min(SHORTEST, step)]
            windows += kept[:most]
        return windows

    def _made(self, window: Ids, draw: random.Random) -> Sequence:
        if self._template.marks and draw.random() < self._fim_share:
            return self._reordered(window, draw, joined=draw.random() < 0.5)
        return self._plain(window)

    def _plain(self, window: Ids) -> Sequence:
        start = self._tokenizer.start_ids
        tokens = np.concatenate([np.array(start, np.int64), window])
        return Sequence(tokens, np.arange(len(tokens)) >= len(start))

    def _reordered(self, window: Ids, draw: random.Random, *, joined: bool) -> Sequence:
        """PSM (prefix, suffix, middle), or SPM as in Code Llama: the suffix first, then prefix and middle as one text.

        Families with an SPM of their own have that alone.

        The text is cut between two characters, so that a part may begin or end inside a word, as it does for a user.
        """
        text = self._tokenizer.decode(window.tolist())
        first, second = sorted(draw.randrange(len(text) + 1) for _ in range(2))
        before, middle, after = text[:first], text[first:second], text[second:]
        marks, control = self._template, self._tokenizer.control
        parts: list[int | str]
        if marks.suffix_first:
            parts = [control[marks.suffix], after, control[marks.prefix], marks.lead + before]
            parts += [control[mark] for mark in marks.marks[2:]] + [middle]
        elif joined:
            parts = [control[marks.prefix], control[marks.suffix], after, control[marks.middle], before + middle]
        else:
            parts = [
                *(control[marks.prefix], marks.lead + before),
                *(control[marks.suffix], after, control[marks.middle], middle),
            ]
        tokens, is_text = list(self._tokenizer.start_ids), [False] * len(self._tokenizer.start_ids)
        for part in parts:
            ids = [part] if isinstance(part, int) else self._tokenizer.encode(part)
            tokens += ids
            is_text += [not isinstance(part, int)] * len(ids)
        cut = self._length
        return Sequence(np.array(tokens[:cut], np.int64), np.array(is_text[:cut], np.bool_))
