"""What the graph engine's tests share: recipes for tiny models, and devices that behave badly on purpose."""

import json
from pathlib import Path

import torch

from fastcoder_lsp.engine.architecture import graph_shape, read_config
from fastcoder_lsp.engine.static.build import Recipe
from fastcoder_lsp.engine.static.device import CpuDevice, Memory, Work
from fastcoder_lsp.engine.weights import open_weights
from tests.engine.tiny_models import make_model


def lengthen(folder: Path, positions: int) -> Path:
    """Let a model look back further, so that its cache has several buckets."""
    path = folder / "config.json"
    config = json.loads(path.read_text(encoding="utf-8")) | {"max_position_embeddings": positions}
    path.write_text(json.dumps(config), encoding="utf-8")
    return folder


def tiny_recipe(folder: Path, kind: str = "qwen2", **changes: object) -> Recipe:
    """A recipe for a tiny model that is written to `folder`, for a context of 2,000 tokens."""
    lengthen(make_model(folder, kind), 4096)
    shape = graph_shape(read_config(folder))
    assert shape is not None
    given: dict[str, object] = {
        "name": "cpu-graphs",
        "model": kind,
        "source": "test",
        "identity": str(folder),
        "shape": shape,
        "open_source": lambda: open_weights(folder),
        "context": 2000,
        "dtype": torch.float32,
        "cache": folder / "cache",
        "progress": lambda _share, _what: None,
    }
    return Recipe(**(given | changes))  # type: ignore[arg-type]  # a test names only what it changes


class MeanDevice(CpuDevice):
    """A CPU that claims to capture, with so much memory, of which every captured program takes a piece.

    `rejected`: captures that fail as CUDA's do where a program waits for the host.
    """

    def __init__(self, free: int, program_bytes: int = 0, rejected: int = 0) -> None:
        super().__init__()
        self.captures = True
        self.captured: list[Work] = []
        self.given_back = 0
        self._free, self._program_bytes, self._rejected = free, program_bytes, rejected

    def capture(self, work: Work) -> Work:
        """See `Device`."""
        if self._rejected:
            self._rejected -= 1
            raise RuntimeError("operation not permitted when stream is capturing")
        if self._program_bytes * (len(self.captured) + 1) > self._free:
            raise torch.OutOfMemoryError("CUDA out of memory")
        self.captured.append(work)
        return super().capture(work)

    def memory(self) -> Memory:
        """See `Device`."""
        return Memory(self._free, self._free)

    def release(self) -> None:
        """See `Device`."""
        self.captured.clear()
        self.given_back += 1
