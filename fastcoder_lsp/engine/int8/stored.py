"""A model's packed weights: from the cache folder, or converted and kept there; where they cannot be kept, in memory.

Owns the choice among these and the files' names.
"""

import hashlib
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from fastcoder_lsp.core import Progress
from fastcoder_lsp.engine.architecture import Shape
from fastcoder_lsp.engine.int8.dot import DotKind
from fastcoder_lsp.engine.int8.packed_file import (
    delete_unfinished,
    held,
    layout_bytes,
    packed_in_memory,
    read_packed,
    unjudged,
    write_packed,
    writing_alone,
)
from fastcoder_lsp.engine.int8.packing import IN_HEAD, Array, Products, embedding_kind, layout, pack
from fastcoder_lsp.engine.weights import Weights, open_weights
from fastcoder_lsp.errors import ResourceError, UsageError
from fastcoder_lsp.index.files import check_room, private_folder
from fastcoder_lsp.model.store import size_text, write_error
from fastcoder_lsp.model.tensors import rounded_already

FORMATS = {8: 1, 4: 2}
"""Of the packed file, by the bits of a weight; another number makes old ones unread, and lower ones deleted. 8: 1, rows
by blocks of columns, embeddings in 16 bits. 4: 1, lines of 32 numbers by blocks of columns, factors before codes; 2,
attention's matrices as in 8, no embeddings where they are the head's rows."""
CHOSEN = "four-bit weights: calibrated; to go back, run: fastcoder-lsp model calibrate --undo"
PLAIN = "four-bit weights: not calibrated"
_FORMAT = re.compile(r"-v(\d{1,9})-x[^/]*\.(safetensors|json|lock)$")


@dataclass(frozen=True, slots=True)
class WeightsRequest:
    """Weights to be had: of the model in `folder`, whose hash is `digest`, for products of `kind`; kept in `cache`."""

    folder: Path
    shape: Shape
    kind: DotKind
    digest: str
    cache: Path

    def path(self, embedding: str, *, calibrated: bool = False) -> Path:
        """The file of the packed form; `calibrated`: of weights that were chosen by what the model computes."""
        name = calibrated_name(self.digest) if calibrated else _name(self.digest)
        return self.cache / f"int{self.kind.bits}" / f"{name}-{form_of(self.kind)}-{embedding.lower()}.safetensors"


def form_of(kind: DotKind) -> str:
    """What tells files of one layout from those of another, in their names."""
    known = f"x{kind.vectors}" + ("-by8" if kind.line == 8 else "")
    return f"v{FORMATS[8]}-{known}" if kind.in_bytes is None else f"v{FORMATS[4]}-{known}-{form_of(kind.in_bytes)[3:]}"


def calibrated_name(digest: str) -> str:
    """What the names of files begin with that hold a model's calibrated weights, and what they lose."""
    return f"{_name(digest)}-calibrated"


def _name(digest: str) -> str:
    return hashlib.sha256(digest.encode()).hexdigest()[:32]


def _nobody(_: str) -> None:
    pass


def load_arrays(
    wanted: WeightsRequest,
    progress: Progress,
    enter: Callable[[str], None] = _nobody,
    note: Callable[[str], None] = _nobody,
    *,
    chosen: bool = True,
) -> dict[str, Array]:
    """The packed weights, read, or converted first ("convert" is entered then).

    Args:
        wanted: which.
        progress: told what is being done.
        enter: told the stage that begins.
        note: told what is worth knowing: what is rounded again, which four bits are taken, or that they could not be
            kept, and why.
        chosen: whether four bits that were chosen by what the model computes are taken, where they are kept.

    Raises:
        ModelInvalidError: the model's files are damaged.
        ResourceError: memory does not suffice.
    """
    if by := rounded_already(wanted.folder):
        note(f"{by} weights are re-quantized to int{wanted.kind.bits}")
    delete_unfinished(wanted.path("F16").parent)
    _delete_outdated(wanted.cache, note)
    for calibrated in (True, False) if wanted.kind.bits == 4 and chosen else (False,):
        for embedding in (IN_HEAD, "F16", "BF16") if wanted.kind.bits == 4 else ("F16", "BF16"):
            if calibrated and not wanted.path(embedding, calibrated=True).with_suffix(".json").is_file():
                continue  # whoever judged them was killed before it said what they lose
            arrays = _read(wanted, embedding, progress, calibrated=calibrated)
            if arrays is not None:
                if wanted.kind.bits == 4:
                    note(CHOSEN if calibrated else PLAIN)
                return arrays
    if wanted.kind.bits == 4:
        note(PLAIN)
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


def _delete_outdated(cache: Path, note: Callable[[str], None]) -> None:
    """Delete what earlier versions kept in a layout that is not read any more; a later one's stays.

    So does what one of them, which runs still, is about to make: without its lock others would take that for left over.
    """
    size, chosen = 0, False
    for whole in sorted({path.with_suffix(".safetensors") for bits in FORMATS for path in _outdated(cache, bits)}):
        with suppress(OSError), held(whole) as ours:
            for path in [whole.with_suffix(suffix) for suffix in (".safetensors", ".json", ".lock") if ours]:
                with suppress(OSError):
                    freed = path.lstat().st_size
                    path.unlink()
                    size, chosen = size + freed, chosen or ("-calibrated-" in path.name and path.suffix == ".json")
    if size:
        note(f"deleted {size_text(size)} of weights that an earlier version had prepared")
    if chosen:
        note("the four-bit weights are no longer calibrated; run: fastcoder-lsp model calibrate")


def _outdated(cache: Path, bits: int) -> list[Path]:
    files = [(path, _FORMAT.search(path.name)) for path in sorted((cache / f"int{bits}").glob("*-v*"))]
    return [path for path, found in files if found is not None and int(found[1]) < FORMATS[bits]]


def _make(
    wanted: WeightsRequest, weights: Weights, embedding: str, progress: Progress, enter: Callable[[str], None]
) -> dict[str, Array]:
    """Convert and keep them, unless another process does so meanwhile."""
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


@contextmanager
def choosing_alone(wanted: WeightsRequest) -> Iterator[None]:
    """Hold the four bits that are being chosen of a model, for as long as that takes.

    Raises:
        ResourceError: the folder cannot be written to, or the disk has no room for them.
        UsageError: another process chooses them.
    """
    with open_weights(wanted.folder) as weights:
        embedding = embedding_kind(weights, wanted.shape, wanted.kind)
    path = wanted.path(embedding, calibrated=True)
    try:
        private_folder(path.parent)
        delete_unfinished(path.parent)  # while this is held, what others left of it would stay, and take room
        check_room(path.parent, layout_bytes(layout(wanted.shape, wanted.kind, embedding)))
    except OSError as error:
        raise write_error(error, path.parent, "calibrating four-bit weights") from error
    with held(path, strict=True) as ours:
        if not ours:
            raise UsageError("another process is calibrating this model", "Wait until it ends.")
        yield


def write_chosen(wanted: WeightsRequest, choose: Callable[[Weights], Products], progress: Progress) -> Path:
    """Have weights chosen, and write them beside the name under which they would be taken; their file.

    `put_in_place` makes them what is taken. What a killed process leaves of them is deleted at the next start.

    Args:
        wanted: which, in four bits; held by `choosing_alone`.
        choose: gives the model's matrices, rounded.
        progress: told what is being done.

    Raises:
        ModelInvalidError: the model's files are damaged.
        ResourceError: memory or disk does not suffice.
    """
    with open_weights(wanted.folder) as weights:
        embedding = embedding_kind(weights, wanted.shape, wanted.kind)
        pieces = pack(weights, wanted.shape, wanted.kind, choose(weights), in_head=embedding == IN_HEAD)
        path = unjudged(wanted.path(embedding, calibrated=True))
        try:
            write_packed(path, layout(wanted.shape, wanted.kind, embedding), pieces, progress, into="int4")
        except BaseException:  # interrupted when it has its name
            path.unlink(missing_ok=True)
            raise
    return path


def read_chosen(wanted: WeightsRequest, path: Path, progress: Progress) -> dict[str, Array]:
    """What `write_chosen` wrote.

    Raises:
        ResourceError: it cannot be read.
    """
    for embedding in (IN_HEAD, "F16", "BF16"):
        arrays = read_packed(path, layout(wanted.shape, wanted.kind, embedding), progress)
        if arrays is not None:
            return arrays
    raise ResourceError(f"{path} was written but cannot be read", "Check that disk.")


def _read(
    wanted: WeightsRequest, embedding: str, progress: Progress, *, calibrated: bool = False
) -> dict[str, Array] | None:
    return read_packed(
        wanted.path(embedding, calibrated=calibrated), layout(wanted.shape, wanted.kind, embedding), progress
    )
