"""What drafters take over from the target: its embeddings, and its head over the tokens that code uses.

Owns the choice of those tokens, and the reading of the rows. Nothing of it is trained.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from fastcoder_lsp.core import KeepingEngine
from fastcoder_lsp.engine.architecture import Shape, fast_shape, read_config
from fastcoder_lsp.engine.weights import open_weights
from fastcoder_lsp.errors import UsageError
from fastcoder_lsp.train.example import Ids
from fastcoder_lsp.train.samples import Sample


@dataclass(frozen=True, slots=True)
class Teacher:
    """Frozen tensors of the target.

    Attributes:
        shape: its sizes.
        ids_D: the tokens that the drafter can say, ascending.
        places_V: for each token of the vocabulary its place among them; -1 for the others.
        head_DE: their rows of the target's head.
        known_U: tokens whose embeddings are here, ascending: all that the samples hold, and a drafter can say.
        embedding_UE: their embeddings.
    """

    shape: Shape
    ids_D: torch.Tensor
    places_V: torch.Tensor
    head_DE: torch.Tensor
    known_U: torch.Tensor
    embedding_UE: torch.Tensor

    def embed(self, tokens: torch.Tensor) -> torch.Tensor:
        """Embeddings of tokens that are among `known_U`, [..., E]."""
        return self.embedding_UE[torch.searchsorted(self.known_U, tokens)]


def shape_of(folder: Path) -> Shape:
    """The sizes of the target.

    Raises:
        UsageError: it is of a kind whose hidden states nobody gives.
    """
    shape = fast_shape(read_config(folder))
    if shape is None:
        raise UsageError(
            f"no engine gives the hidden states of the model in {folder}",
            "Use a model of the kinds Qwen2 or Llama, or one built like them.",
        )
    return shape


def make_teacher(
    folder: Path, engine: KeepingEngine, samples: Sequence[Sample], vocabulary: int, counts_V: Ids | None = None
) -> Teacher:
    """The tensors for what `samples` hold.

    The drafter says the `vocabulary` tokens that are most frequent there and in `counts_V`, how often each stands in
    all texts: samples are a few of them, and tell of frequent tokens alone.
    """
    shape = shape_of(folder)
    counts_V = np.zeros(shape.vocabulary, np.int64) if counts_V is None else counts_V.copy()
    seen_V = np.zeros(shape.vocabulary, np.int64)
    for sample in samples:
        seen_V += np.bincount(sample.tokens, minlength=shape.vocabulary)
    counts_V += seen_V
    ids_D = np.sort(np.argsort(-counts_V, kind="stable")[: min(vocabulary, shape.vocabulary)])
    known_U = np.union1d(ids_D, np.flatnonzero(seen_V))
    places_V = np.full(shape.vocabulary, -1, np.int64)
    places_V[ids_D] = np.arange(len(ids_D))
    with open_weights(folder) as weights:
        head_DE = _rows(weights.head(shape), ids_D)
    embedded = [engine.embed(part.tolist()) for part in np.array_split(known_U, len(known_U) // 4096 + 1)]
    return Teacher(
        shape,
        torch.from_numpy(ids_D),
        torch.from_numpy(places_V),
        head_DE,
        torch.from_numpy(known_U),
        torch.from_numpy(np.concatenate(embedded)),
    )


def _rows(head_VE: torch.Tensor, ids_D: Ids) -> torch.Tensor:
    return head_VE[torch.from_numpy(ids_D)].float().contiguous()


def states_of(sample: Sample) -> torch.Tensor:
    """A sample's hidden states in fp32, [T, L, E]."""
    return torch.from_numpy(np.asarray(sample.states_TLE, np.float32))
