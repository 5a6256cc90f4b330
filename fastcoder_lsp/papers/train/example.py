"""Training data: windows of files, some re-ordered for filling in the middle, and examples, trees of tokens with goals.

A text is a chain, the *trunk*. A state of a Jacobi trajectory or a run of adaptive tokens hangs from the trunk as a
branch, so that one pass shows each branch the clean context it will have when decoding, and a long prompt is computed
once for all branches.

Window i is a function of (texts, seed, i) alone, so a resumed run gets the same windows again. The last files of the
seeded order are held out for evaluation.
"""

import random
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fastcoder_lsp.core.arrays import Int64s
from fastcoder_lsp.errors import UsageError
from fastcoder_lsp.prompt.templates import template_of
from fastcoder_lsp.tokenizer import Tokenizer

Ids = Int64s


def _none() -> Ids:
    return np.zeros(0, np.int64)


@dataclass(frozen=True, slots=True)
class Labels:
    """Node `nodes[i]` learns to predict token `ids[i]`: cross-entropy."""

    nodes: Ids
    ids: Ids


@dataclass(frozen=True, slots=True)
class Pairs:
    """Node `students[i]` learns to predict like node `teachers[i]`: forward KL, no gradient through teachers."""

    students: Ids
    teachers: Ids


@dataclass(frozen=True, slots=True)
class Example:
    """A tree of tokens and the goals at its nodes, by the name of the loss term that each goal belongs to.

    `parents[i] < i`; -1 is the start of the text, the parent of node 0 alone.
    """

    tokens: Ids
    parents: Ids
    labels: dict[str, Labels]
    pairs: dict[str, Pairs]

    def __post_init__(self) -> None:
        assert len(self.tokens) == len(self.parents) > 0
        assert self.parents[0] == -1
        assert bool((self.parents < np.arange(len(self.parents))).all())
        assert bool((self.parents[1:] >= 0).all())

    def __len__(self) -> int:
        return len(self.tokens)

    @property
    def is_chain(self) -> bool:
        """Whether there are no branches."""
        return bool((self.parents == np.arange(-1, len(self) - 1)).all())

    def depths(self) -> Ids:
        """Each node's distance from the start of the text: its position."""
        depths = np.zeros(len(self), np.int64)
        for node in range(1, len(self)):
            depths[node] = depths[self.parents[node]] + 1
        return depths

    def wanted(self) -> Ids:
        """The nodes whose logits the goals need, ascending."""
        parts = [goal.nodes for goal in self.labels.values()]
        parts += [side for goal in self.pairs.values() for side in (goal.students, goal.teachers)]
        return np.unique(np.concatenate([_none(), *parts]))

    def counts(self) -> dict[str, int]:
        """How many goals each loss term has."""
        return {name: len(goal.nodes) for name, goal in self.labels.items()} | {
            name: len(goal.students) for name, goal in self.pairs.items()
        }

    def path(self, node: int) -> list[int]:
        """The nodes from the start of the text to `node`, itself last."""
        path = [node]
        while (node := int(self.parents[node])) >= 0:
            path.append(node)
        return path[::-1]


def trunk(tokens: Ids) -> tuple[Ids, Ids]:
    """Tokens and parents of a plain text."""
    return tokens.astype(np.int64), np.arange(-1, len(tokens) - 1, dtype=np.int64)


FIM_SHARE = 0.5
"""The share of windows that are re-ordered, half of them each way (SDSAT, section 3.1: PSM and SPM 25 % each)."""
HELD_OUT_SHARE, HELD_OUT_MOST = 0.05, 24
SHORTEST = 24  # tokens of a window worth a pass
MARGIN = 8  # tokens left for control tokens, and for those that tokenizing a cut text adds


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

    def counts(self, vocabulary: int) -> Int64s:
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

        Families with an SPM of their own have that alone. The text is cut between two characters, so that a part may
        begin or end inside a word, as it does for a user.
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
