"""What a drafter with weights learns from: texts, and the target's hidden states at each of their tokens.

The int8 engine reads each text once, or goes on with it in its own words; what it computed on the way is written to the
run's folder, so that learning reads files and never runs the target. Owns the samples, their files, and their making:
batch i is a function of (texts, seed, i) alone, and a run that was interrupted goes on behind its last whole file.
"""

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from fastcoder_lsp.core import KeepingEngine
from fastcoder_lsp.decode.loop import DecodeRequest, decode
from fastcoder_lsp.draft.registry import make
from fastcoder_lsp.errors import FastcoderError
from fastcoder_lsp.tokenizer import Tokenizer
from fastcoder_lsp.train.example import Ids

EACH = 16
"""Samples of a file."""
QUICK = "recycling"
"""Who drafts while the target speaks: what it says is the same, sooner."""


@dataclass(frozen=True, slots=True)
class Sample:
    """One text as the target read it.

    Attributes:
        tokens: the text, [T].
        first: the first token that is learnt; those before are the prompt of what the target said.
        states_TLE: behind each layer that was asked for, in half precision.
    """

    tokens: Ids
    first: int
    states_TLE: npt.NDArray[np.float16]

    def __len__(self) -> int:
        return len(self.tokens)


@dataclass(frozen=True, slots=True)
class Collector:
    """Makes samples.

    Attributes:
        engine: the target.
        tokenizer: its tokenizer.
        layers: whose hidden states are kept.
        said: tokens that the target goes on with behind the first half of a text; 0: the text is taken as it is.
    """

    engine: KeepingEngine
    tokenizer: Tokenizer
    layers: tuple[int, ...]
    said: int

    def samples(
        self,
        folder: Path,
        texts: Callable[[int], Ids],
        count: int,
        should_stop: Callable[[], bool],
        told: Callable[[int, int], None],
    ) -> list[Sample]:
        """The samples of the texts 0…`count`; fewer where `should_stop` says so.

        Raises:
            FastcoderError: a file of them is damaged.
        """
        folder.mkdir(parents=True, exist_ok=True)
        found: list[Sample] = []
        for start in range(0, count, EACH):
            path = folder / f"{start // EACH:06}"
            if not path.with_suffix(".npz").is_file():
                made: list[Sample] = []
                for index in range(start, min(start + EACH, count)):
                    if should_stop():
                        return found
                    made.append(self._sample(texts(index)))
                _save(path, made)
            found += _load(path)
            told(len(found), count)
        return found

    def _sample(self, text: Ids) -> Sample:
        tokens, first = text, 1
        if self.said:
            first = max(1, len(text) // 2)
            tokens = self._said(text[:first])
        self.engine.keep_states(self.layers)
        self.engine.prefill(tokens.tolist(), lambda: False)
        return Sample(tokens, first, self.engine.states(self.layers, 0, len(tokens)).astype(np.float16))

    def _said(self, prompt: Ids) -> Ids:
        tokenizer = self.tokenizer
        request = DecodeRequest(
            tuple(prompt.tolist()),
            self.said,
            tokenizer.end_ids,
            tokenizer.piece,
            tokenizer.starting_with,
            lambda _: None,
        )
        output = decode(self.engine, make(QUICK), request, lambda: False).tokens
        return np.array([*prompt.tolist(), *output], np.int64)


def _save(path: Path, samples: Sequence[Sample]) -> None:
    """Two files: the states, to be read where they lie, and then the rest, which says that both are whole."""
    partial = path.with_suffix(".part")
    with partial.open("wb") as file:
        np.save(file, np.concatenate([sample.states_TLE for sample in samples]))
    partial.replace(path.with_suffix(".npy"))
    with partial.open("wb") as file:
        np.savez(
            file,
            tokens=np.concatenate([sample.tokens for sample in samples]),
            ends=np.cumsum([len(sample) for sample in samples]),
            firsts=np.array([sample.first for sample in samples]),
        )
        file.flush()
        os.fsync(file.fileno())
    partial.replace(path.with_suffix(".npz"))


def _load(path: Path) -> list[Sample]:
    try:
        states = np.load(path.with_suffix(".npy"), mmap_mode="r", allow_pickle=False)
        with np.load(path.with_suffix(".npz"), allow_pickle=False) as rest:
            tokens, ends, firsts = rest["tokens"], rest["ends"].tolist(), rest["firsts"].tolist()
        starts = [0, *ends[:-1]]
        return [
            Sample(tokens[start:end], first, states[start:end])
            for start, end, first in zip(starts, ends, firsts, strict=True)
        ]
    except (OSError, ValueError, KeyError, EOFError) as error:
        raise FastcoderError(f"{path}.npz is damaged: {error}", "Start again with --restart.") from error


def order(count: int, seed: int, index: int) -> int:
    """Which of `count` samples is the index-th that is shown: all once in each round, each round in another order."""
    epoch, place = divmod(index, count)
    return int(np.random.default_rng([seed, epoch]).permutation(count)[place])
