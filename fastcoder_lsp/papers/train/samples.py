"""The lessons of drafters: texts, the target's hidden states at each of their tokens, and its frozen tensors.

The int8 engine reads each text once, or continues it; the hidden states are written to the run's folder, so training
never runs the target. Batch i is a function of (texts, seed, i) alone, and an interrupted run goes on behind its last
whole file. The number of samples is planned once and kept when the run is resumed.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Generic, TypeVar

import numpy as np
import numpy.typing as npt
import torch
from typing_extensions import override

from fastcoder_lsp import engine as engines
from fastcoder_lsp.config import kernels_folder
from fastcoder_lsp.core import NORMED, KeepingEngine
from fastcoder_lsp.core.files import appearing
from fastcoder_lsp.decode.loop import DecodeRequest, decode
from fastcoder_lsp.draft.registry import make
from fastcoder_lsp.engine.architecture import Shape, fast_shape, read_config
from fastcoder_lsp.engine.weights import open_weights
from fastcoder_lsp.errors import FastcoderError, UsageError
from fastcoder_lsp.model import ModelFiles
from fastcoder_lsp.papers.train.example import Ids, order
from fastcoder_lsp.tokenizer import Tokenizer

Own = TypeVar("Own")

HELD_OUT = 8  # texts for evaluation: of the losses, and of the drafter at the end
CPU_SAMPLES = 400
SHARE = 0.4  # the share of --max-minutes for collecting samples or trajectories
EACH = 16  # samples of a file
QUICK = "recycling"  # the drafter while the target generates text, which is the same with any drafter


@dataclass(frozen=True, slots=True)
class Sample:
    """One text as the target read it: tokens, the first one to learn (the prompt is before), and the hidden states."""

    tokens: Ids
    first: int
    states_TLE: npt.NDArray[np.float16]  # behind each collected layer, in half precision

    def __len__(self) -> int:
        return len(self.tokens)


@dataclass(frozen=True, slots=True)
class Collector:
    """Makes samples of the target, with the hidden states of `layers`."""

    engine: KeepingEngine
    tokenizer: Tokenizer
    layers: tuple[int, ...]
    said: int  # tokens that the target generates after the first half of a text; 0: it reads the text as it is

    def samples(
        self,
        folder: Path,
        texts: Callable[[int], Ids],
        count: int,
        should_stop: Callable[[], bool],
        progress: Callable[[int, int], None],
    ) -> list[Sample]:
        """The samples of texts 0…`count`, fewer if `should_stop` says so; raises FastcoderError for a damaged file."""
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
            progress(len(found), count)
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
    """Two files: the states, to be mapped into memory, then the rest, whose presence says that both are whole."""
    with appearing(path.with_suffix(".npy")) as file:
        np.save(file, np.concatenate([sample.states_TLE for sample in samples]))
    with appearing(path.with_suffix(".npz")) as file:
        np.savez(
            file,
            tokens=np.concatenate([sample.tokens for sample in samples]),
            ends=np.cumsum([len(sample) for sample in samples]),
            firsts=np.array([sample.first for sample in samples]),
        )


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


@dataclass(frozen=True, slots=True)
class Teacher:
    """Frozen tensors of the target."""

    shape: Shape
    ids_D: torch.Tensor  # the tokens that the drafter can predict, ascending
    places_V: torch.Tensor  # each token's place among them, or -1
    head_DE: torch.Tensor  # their rows of the head
    known_U: torch.Tensor  # the tokens of the samples and of `ids_D`, ascending, with `embedding_UE`
    embedding_UE: torch.Tensor

    def embed(self, tokens: torch.Tensor) -> torch.Tensor:
        """Embeddings of tokens that are among `known_U`, [..., E]."""
        return self.embedding_UE[torch.searchsorted(self.known_U, tokens)]


def shape_of(folder: Path) -> Shape:
    """The sizes of the target. Raises UsageError if no engine gives the hidden states of this kind of model."""
    shape = fast_shape(read_config(folder))
    if shape is None:
        raise UsageError(
            f"no engine gives the hidden states of the model in {folder}",
            "Use a model of the kinds Qwen2 or Llama, or one built like them.",
        )
    return shape


def most_frequent(counts_V: Ids, count: int) -> tuple[Ids, Ids]:
    """The most frequent tokens, ascending, [D], and each token's place among them, [V], or -1."""
    ids_D = np.sort(np.argsort(-counts_V, kind="stable")[: min(count, len(counts_V))])
    places_V = np.full(len(counts_V), -1, np.int64)
    places_V[ids_D] = np.arange(len(ids_D))
    return ids_D, places_V


def head_rows(folder: Path, shape: Shape, ids_D: Ids) -> torch.Tensor:
    """Rows of the head of the model in `folder`, in fp32."""
    with open_weights(folder) as weights:
        return weights.head(shape)[torch.from_numpy(ids_D)].float().contiguous()


def open_target(files: ModelFiles, context: int, cache: Path) -> KeepingEngine:
    """The target in eight bits, for `context` tokens."""
    engine = engines.load(
        files,
        engines.EngineOptions(kind="cpu-int8", context=context),
        cache=cache,
        progress=lambda _share, _what: None,
        kernels=kernels_folder(),
    )
    assert isinstance(engine, KeepingEngine)
    return engine


def make_teacher(
    folder: Path, engine: KeepingEngine, samples: Sequence[Sample], vocabulary: int, counts_V: Ids | None = None
) -> Teacher:
    """The tensors for `samples`.

    The drafter predicts the `vocabulary` tokens that are most frequent in the samples and in `counts_V`, the counts
    over all texts, since samples are few and know frequent tokens alone.
    """
    shape = shape_of(folder)
    seen_V = np.zeros(shape.vocabulary, np.int64)
    for sample in samples:
        seen_V += np.bincount(sample.tokens, minlength=shape.vocabulary)
    ids_D, places_V = most_frequent(seen_V if counts_V is None else counts_V + seen_V, vocabulary)
    known_U = np.union1d(ids_D, np.flatnonzero(seen_V))
    embedded = [engine.embed(part.tolist()) for part in np.array_split(known_U, len(known_U) // 4096 + 1)]
    return Teacher(
        shape,
        torch.from_numpy(ids_D),
        torch.from_numpy(places_V),
        head_rows(folder, shape, ids_D),
        torch.from_numpy(known_U),
        torch.from_numpy(np.concatenate(embedded)),
    )


def states_of(sample: Sample) -> torch.Tensor:
    """A sample's hidden states in fp32, [T, L, E]."""
    return torch.from_numpy(np.asarray(sample.states_TLE, np.float32))


class SampleLesson(ABC):
    """Training on samples, `batch` of them in a step (`loop.Lesson`), in the order of `seed`; `held` are held out.

    `half`: compute products in bf16 on a CPU; weights, sums and the optimiser stay in fp32.
    """

    fade = 0.8  # the weight of each term of a sample's loss over that of the term before it

    def __init__(
        self, samples: Sequence[Sample], held: Sequence[Sample], *, batch: int, seed: int, half: bool = False
    ) -> None:
        self._samples, self._held, self._batch, self._seed, self._half = samples, held, batch, seed, half

    @abstractmethod
    def parameters(self) -> dict[str, torch.nn.Parameter]:
        """The trained parameters by name, in a fixed order."""

    def terms(self, sample: Sample, draw: str) -> dict[str, torch.Tensor]:
        """The terms of a sample's loss, for `losses`; `draw` is the seed of its random draws."""
        raise NotImplementedError

    def gradients(self, step: int) -> dict[str, float]:
        """Add the gradients of a step, and return the mean of each loss term."""
        chosen = range(step * self._batch, (step + 1) * self._batch)
        shown = [
            (self._samples[order(len(self._samples), self._seed, index)], f"anchors {self._seed} {index}")
            for index in chosen
        ]
        with self._precision():
            return self.losses(shown, learn=True)

    def held_out(self) -> dict[str, float]:
        """The mean of each loss term on held-out samples."""
        with torch.no_grad(), self._precision():
            return self.losses([(sample, f"held out {place}") for place, sample in enumerate(self._held)], learn=False)

    def losses(self, shown: Sequence[tuple[Sample, str]], *, learn: bool) -> dict[str, float]:
        """The mean of each loss term; with `learn`, gradients of their weighted sum are added."""
        means: dict[str, float] = {}
        for sample, draw in shown:
            terms = self.terms(sample, draw)
            if learn and terms:
                weighed = [self.fade**place * loss / len(shown) for place, loss in enumerate(terms.values())]
                torch.stack(weighed).sum().backward()  # type: ignore[no-untyped-call]
            for name, loss in terms.items():
                means[name] = means.get(name, 0.0) + loss.item() / len(shown)
        return means

    def _precision(self) -> AbstractContextManager[None]:
        return torch.autocast("cpu", torch.bfloat16, enabled=self._half)


class DrafterLesson(SampleLesson, Generic[Own]):
    """A lesson whose result is a drafter: samples of a target, by the settings of the method."""

    def __init__(
        self,
        teacher: Teacher,
        samples: Sequence[Sample],
        held: Sequence[Sample],
        settings: Own,
        *,
        batch: int,
        seed: int,
        half: bool = False,
    ) -> None:
        super().__init__(samples, held, batch=batch, seed=seed, half=half)
        self._teacher, self._settings = teacher, settings
        self._parts = {name: torch.nn.Parameter(value) for name, value in sorted(self.beginning().items())}

    @abstractmethod
    def beginning(self) -> dict[str, torch.Tensor]:
        """The parameters before the first step."""

    method: ClassVar[str]  # the name of the drafter

    @staticmethod
    def layers(shape: Shape, settings: Any) -> tuple[int, ...]:  # noqa: ARG004 by default the same for all
        """The layers whose hidden states the drafter reads."""
        return (NORMED,)

    @classmethod
    def collected(cls, shape: Shape, settings: Any) -> tuple[int, ...]:
        """The layers whose hidden states are collected: those that the drafter reads, and more for the loss."""
        return cls.layers(shape, settings)

    @staticmethod
    @abstractmethod
    def numbers(shape: Shape, settings: Any) -> dict[str, float]:
        """The sizes for the drafter's record."""

    @override
    def parameters(self) -> dict[str, torch.nn.Parameter]:
        return self._parts

    def tensors(self) -> dict[str, torch.Tensor]:
        """The drafter's tensors, as `draft` reads them."""
        return {name: value.detach() for name, value in self._parts.items()} | {"ids": self._teacher.ids_D}

    def ranks(self) -> tuple[tuple[float, ...], ...]:
        """How often candidates are right, by place and rank; empty where the tree grows by the drafter's confidence."""
        return ()
