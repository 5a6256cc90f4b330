"""The weights of a GGUF as an ordinary checkpoint of transformers, for who trains or compares: made when asked for.

Owns that file, `model.safetensors` beside the configuration: fp32, the numbers that the blocks stand for. No engine of
ours needs it.
"""

import json
import math
import os
from contextlib import closing
from pathlib import Path

from fastcoder_lsp.core import Progress
from fastcoder_lsp.model.files import INDEX, WEIGHTS, weight_files
from fastcoder_lsp.model.gguf_names import all_names
from fastcoder_lsp.model.gguf_tensors import GgufTensors
from fastcoder_lsp.model.origin import gguf_of
from fastcoder_lsp.model.safetensors_file import SafetensorsTensors
from fastcoder_lsp.model.store import Store, require_space, writing

_AT_ONCE = 1 << 22


def require_checkpoint(folder: Path, progress: Progress) -> None:
    """See that the model in `folder` has its weights beside it; nothing where it has.

    Args:
        folder: of a model that was found.
        progress: told the share done.

    Raises:
        ModelInvalidError: the file that holds the weights is damaged or gone.
        ResourceError: the disk does not suffice.
    """
    if not _lacks_it(folder):
        return
    names = _names(folder)
    store = Store(folder.parents[2])
    name = f"checkpoint-{folder.name[:16]}"
    with store.lock(name, lambda: progress(0.0, "waiting for another process that unpacks the weights")):
        if not (folder / WEIGHTS).is_file():
            with writing(folder, "unpacking the weights"), store.workspace(name) as work:
                _write(work / WEIGHTS, GgufTensors.of(folder), names, progress)
                (work / WEIGHTS).replace(folder / WEIGHTS)


def count_parameters(folder: Path) -> int:
    """Numbers in the weights of the model in `folder`, from the files' headers, before a checkpoint is made too.

    Raises:
        ModelInvalidError: the file that holds the weights is damaged or gone.
    """
    if _lacks_it(folder):
        with closing(GgufTensors.of(folder)) as packed:
            return sum(math.prod(packed.shape(name)) for name in _names(folder))
    with closing(SafetensorsTensors(weight_files(folder))) as plain:
        return sum(math.prod(plain.shape(name)) for name in plain.names())


def _lacks_it(folder: Path) -> bool:
    """Whether the weights are in a GGUF alone."""
    return not (folder / WEIGHTS).is_file() and not (folder / INDEX).is_file() and gguf_of(folder) is not None


def _names(folder: Path) -> list[str]:
    """The tensors of a model that comes as a GGUF."""
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    return list(all_names(config["model_type"], config["num_hidden_layers"], tied=config["tie_word_embeddings"]))


def _write(path: Path, tensors: GgufTensors, names: list[str], progress: Progress) -> None:
    head: dict[str, object] = {"__metadata__": {"format": "pt"}}
    total = 0
    for name in names:
        size = 4
        for side in tensors.shape(name):
            size *= side
        head[name] = {"dtype": "F32", "shape": list(tensors.shape(name)), "data_offsets": [total, total + size]}
        total += size
    text = json.dumps(head, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    require_space(path.parent, total + (64 << 20), "unpacking the weights")
    try:
        with path.open("wb") as file:
            file.write(len(text).to_bytes(8, "little") + text)
            written = 0
            for name in names:
                rows, *columns = tensors.shape(name)
                each = max(1, _AT_ONCE // columns[0]) if columns else rows
                for start in range(0, rows, each):
                    written += file.write(tensors.rows(name, start, min(rows, start + each)).tobytes())
                progress(written / total, "unpacking the weights (first time only)")
            file.flush()
            os.fsync(file.fileno())
    finally:
        tensors.close()
