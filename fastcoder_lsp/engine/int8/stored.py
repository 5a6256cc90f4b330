"""A model's packed weights: read from the cache folder, or converted and stored there; in memory if that fails."""

import hashlib
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from fastcoder_lsp.core import Progress
from fastcoder_lsp.engine.architecture import Shape
from fastcoder_lsp.engine.int8.dot import DotKind
from fastcoder_lsp.engine.int8.packed_file import (
    delete_unfinished,
    packed_in_memory,
    read_packed,
    write_packed,
    writing_alone,
)
from fastcoder_lsp.engine.int8.packing import IN_HEAD, Array, embedding_kind, layout, pack
from fastcoder_lsp.engine.weights import Weights, open_weights
from fastcoder_lsp.errors import ResourceError
from fastcoder_lsp.model.tensors import rounded_already

FORMATS = {8: 1, 4: 2}
"""Versions of the packed file, by the bits of a weight; files of other versions are not read.
8: 1, rows by blocks of columns, embeddings in 16 bits. 4: 1, lines of 32 numbers by blocks of columns, factors before
codes; 2, attention's matrices as in 8, no embeddings if they are the head's rows."""


@dataclass(frozen=True, slots=True)
class WeightsRequest:
    """A request for weights: of the model in `folder` with hash `digest`, for products of `kind`, stored in `cache`."""

    folder: Path
    shape: Shape
    kind: DotKind
    digest: str
    cache: Path

    def path(self, embedding: str) -> Path:
        """The file of the packed form."""
        name = hashlib.sha256(self.digest.encode()).hexdigest()[:32]
        return self.cache / f"int{self.kind.bits}" / f"{name}-{_form_of(self.kind)}-{embedding.lower()}.safetensors"


def _form_of(kind: DotKind) -> str:
    """The part of a file's name that identifies its layout."""
    known = f"x{kind.vectors}" + ("-by8" if kind.line == 8 else "")
    return f"v{FORMATS[8]}-{known}" if kind.in_bytes is None else f"v{FORMATS[4]}-{known}-{_form_of(kind.in_bytes)[3:]}"


def _ignore(_: str) -> None:
    pass


def load_arrays(
    wanted: WeightsRequest,
    progress: Progress,
    enter: Callable[[str], None] = _ignore,
    note: Callable[[str], None] = _ignore,
) -> dict[str, Array]:
    """The packed weights, read, or converted first ("convert" is entered then).

    `note` receives notes for the user: what is rounded again, or why the weights could not be stored.

    Raises:
        ModelInvalidError: the model's files are damaged.
        ResourceError: memory does not suffice.
    """
    if by := rounded_already(wanted.folder):
        note(f"the engine re-quantizes {by} weights to int{wanted.kind.bits}")
    delete_unfinished(wanted.path("F16").parent)
    for embedding in (IN_HEAD, "F16", "BF16") if wanted.kind.bits == 4 else ("F16", "BF16"):
        arrays = _read(wanted, embedding, progress)
        if arrays is not None:
            return arrays
    if any(os.path.lexists(wanted.path(embedding)) for embedding in (IN_HEAD, "F16", "BF16")):
        note("prepared weights are damaged or of another version, and are converted again")
    enter("convert")
    with open_weights(wanted.folder) as weights:
        embedding = embedding_kind(weights, wanted.shape, wanted.kind)
        try:
            return _make(wanted, weights, embedding, progress, enter)
        except ResourceError as error:
            note(f"{error.message}; every start converts them again. {error.hint}")
        places = layout(wanted.shape, wanted.kind, embedding)
        return packed_in_memory(
            places,
            pack(weights, wanted.shape, wanted.kind, in_head=embedding == IN_HEAD),
            progress,
            into=f"int{wanted.kind.bits}",
        )


def _make(
    wanted: WeightsRequest, weights: Weights, embedding: str, progress: Progress, enter: Callable[[str], None]
) -> dict[str, Array]:
    """Convert and store them, unless another process does so meanwhile."""
    path = wanted.path(embedding)
    with writing_alone(path, progress):
        arrays = _read(wanted, embedding, progress)
        if arrays is None:
            places = layout(wanted.shape, wanted.kind, embedding)
            pieces = pack(weights, wanted.shape, wanted.kind, in_head=embedding == IN_HEAD)
            write_packed(path, places, pieces, progress, into=f"int{wanted.kind.bits}")
            enter("weights")
            arrays = _read(wanted, embedding, progress)
    if arrays is None:
        raise ResourceError(f"{path} was written but cannot be read", "Check that disk.")
    return arrays


def _read(wanted: WeightsRequest, embedding: str, progress: Progress) -> dict[str, Array] | None:
    return read_packed(wanted.path(embedding), layout(wanted.shape, wanted.kind, embedding), progress)
