"""The weights of a GGUF, read directly a few rows at a time, under the names of the transformers format."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from fastcoder_lsp.core.arrays import Floats
from fastcoder_lsp.errors import ModelInvalidError
from fastcoder_lsp.model.files import gguf_of, read_origin
from fastcoder_lsp.model.gguf_blocks import GgmlType, kind_of, unfold
from fastcoder_lsp.model.gguf_config import config_of, gguf_name, turned_heads
from fastcoder_lsp.model.gguf_header import DAMAGED_HINT, TensorHead, check_header
from fastcoder_lsp.model.store import sha256_file

_OTHER_HINT = "Take engine = \"llama\" (pip install 'fastcoder-lsp[llama]'), or another model."
GONE_HINT = "Put the file back, or run: fastcoder-lsp model pull. If it is not the default model, add its name."


class GgufTensors:
    """The tensors of one file (`tensors.Tensors`); ModelInvalidError if they cannot be read directly."""

    def __init__(self, path: Path) -> None:
        self._path = path
        header = check_header(path)
        config = config_of(header)
        if config is None:
            raise ModelInvalidError(f"our kernels do not run models of the kind of {path}", _OTHER_HINT)
        self._architecture = str(config["model_type"])
        self._config: Mapping[str, int] = config
        self._heads = {tensor.name: tensor for tensor in header.tensors}
        self._data_from = header.data_from
        self._kinds: dict[int, GgmlType | None] = {kind: kind_of(kind) for kind in {t.kind for t in header.tensors}}
        try:
            self._file = path.open("rb")
        except OSError as error:
            raise ModelInvalidError(f"{path} cannot be read: {error.strerror}", GONE_HINT) from error

    @classmethod
    def of(cls, folder: Path) -> "GgufTensors":
        """The tensors of the file that `folder` notes; ModelInvalidError if it is missing, damaged, or has changed."""
        origin, path = read_origin(folder), gguf_of(folder)
        assert path is not None, "the caller looked"
        try:
            state = path.stat()
            same = state.st_size == origin.size
            if same and state.st_mtime_ns != origin.mtime_ns:  # copied, or touched
                same = sha256_file(path) == origin.gguf_sha256
        except OSError as error:
            raise ModelInvalidError(f"the weights in {path} are missing: {error.strerror}", GONE_HINT) from error
        if not same:
            raise ModelInvalidError(f"{path} has changed since it was prepared", GONE_HINT)
        return cls(path)

    def __contains__(self, name: str) -> bool:
        return gguf_name(name) in self._heads

    def shape(self, name: str) -> tuple[int, ...]:
        """Its sizes, rows first."""
        return self._heads[gguf_name(name)].sizes[::-1]

    def kind(self, name: str) -> str:
        """The type of its numbers: "F32", "BF16", "I32", "Q5_0"."""
        return self._kind(self._heads[gguf_name(name)]).name

    def rows(self, name: str, start: int, stop: int) -> Floats:
        """The rows `start` to `stop`, as fp32."""
        head = self._heads[gguf_name(name)]
        heads = turned_heads(self._architecture, head.name, self._config)
        if not heads:
            return self._read(head, start, stop)
        dim = head.sizes[-1] // heads
        first, last = start // dim, -(-stop // dim)  # whole heads: their rows change places
        found = self._read(head, first * dim, last * dim)
        pairs = found.reshape(last - first, dim // 2, 2, *found.shape[1:])
        turned = np.ascontiguousarray(pairs.swapaxes(1, 2)).reshape(found.shape)
        return turned[start - first * dim : stop - first * dim]

    def raw(self, name: str) -> Floats:
        """The whole tensor, in the precision of its file; bfloat16 as 16-bit patterns, blocks of a GGUF as fp32."""
        return self.rows(name, 0, self.shape(name)[0])

    def close(self) -> None:
        """Close the files."""
        self._file.close()

    def _kind(self, head: TensorHead) -> GgmlType:
        kind = self._kinds[head.kind]
        assert kind is not None, "the header was checked"
        return kind

    def _read(self, head: TensorHead, start: int, stop: int) -> Floats:
        """Rows in the file's order; of a vector its numbers."""
        kind = self._kind(head)
        columns, *outer = head.sizes
        if not outer:  # a vector may be a part of one block
            return self._blocks(head, kind, 0, columns // kind.numbers).reshape(-1)[start:stop]
        blocks = columns // kind.numbers
        return self._blocks(head, kind, start * blocks, (stop - start) * blocks).reshape(stop - start, columns)

    def _blocks(self, head: TensorHead, kind: GgmlType, start: int, count: int) -> Floats:
        found = np.empty((count, kind.size), dtype=np.uint8)
        try:
            self._file.seek(self._data_from + head.offset + start * kind.size)
            read = self._file.readinto(found.data.cast("B"))
        except OSError as error:
            raise ModelInvalidError(f"{head.name} cannot be read: {error}", GONE_HINT) from error
        if read != found.nbytes:
            raise ModelInvalidError(f"{self._path} is cut short", DAMAGED_HINT)
        return unfold(found, head.kind)
