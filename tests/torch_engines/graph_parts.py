"""What the graph engine's tests share: recipes for tiny models, and devices that behave badly on purpose."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from fastcoder_lsp.engine.architecture import Shape, fast_shape, read_config
from fastcoder_lsp.engine.weights import open_weights
from fastcoder_lsp.torch_engines.graphs.build import Recipe
from fastcoder_lsp.torch_engines.graphs.cache import StaticCache
from fastcoder_lsp.torch_engines.graphs.device import CpuDevice, Launch, Memory
from fastcoder_lsp.torch_engines.graphs.plan import plan
from fastcoder_lsp.torch_engines.graphs.programs import Programs
from fastcoder_lsp.torch_engines.graphs.transformer import TorchKernels, Transformer, TreeAttention
from fastcoder_lsp.torch_engines.graphs.weights import Block, ModelWeights, Norm, PlainProduct
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
    shape = fast_shape(read_config(folder))
    assert shape is not None
    given: dict[str, object] = {
        "name": "cpu-graphs",
        "model": kind,
        "source": "test",
        "shape": shape,
        "open_source": lambda: open_weights(folder),
        "context": 2000,
        "dtype": torch.float32,
        "progress": lambda _share, _what: None,
    }
    return Recipe(**(given | changes))  # type: ignore[arg-type]  # a test names only what it changes


class MeanDevice(CpuDevice):
    """A CPU that claims to capture, with so much memory, of which every captured program takes a piece."""

    def __init__(self, free: int, program_bytes: int = 0) -> None:
        super().__init__()
        self.captures = True
        self.captured: list[Launch] = []
        self.given_back = 0
        self._free, self._program_bytes = free, program_bytes

    def capture(self, work: Launch) -> Launch:
        if self._program_bytes * (len(self.captured) + 1) > self._free:
            raise torch.OutOfMemoryError("CUDA out of memory")
        self.captured.append(work)
        return super().capture(work)

    def memory(self) -> Memory:
        return Memory(self._free, self._free)

    def release(self) -> None:
        self.captured.clear()
        self.given_back += 1


class StreamDevice(CpuDevice):
    """A CPU that takes its time: a model of what a stream promises, and what it does not.

    What is fetched shows nothing of use until it was marked and waited for; what is sent may not be changed before.
    """

    def __init__(self) -> None:
        super().__init__()
        self._going: list[tuple[torch.Tensor, torch.Tensor]] = []
        self._coming: list[tuple[torch.Tensor, torch.Tensor]] = []
        self._marked = 0, 0

    def send(self, source: torch.Tensor, target: torch.Tensor) -> None:
        self._check()
        target.copy_(source)
        self._going.append((source, source.clone()))

    def fetch(self, source: torch.Tensor, target: torch.Tensor) -> None:
        self._coming.append((target, source.clone()))
        target.fill_(NOT_YET)

    def mark(self) -> None:
        self._marked = len(self._going), len(self._coming)

    def wait(self) -> None:
        """See `Device`; only what was launched before the mark is done."""
        self._check()
        sent, fetched = self._marked
        for target, value in self._coming[:fetched]:
            target.copy_(value)
        del self._going[:sent], self._coming[:fetched]
        self._marked = 0, 0

    def _check(self) -> None:
        for source, value in self._going:
            assert torch.equal(source, value), "a staging tensor was written while it was copied from"


NOT_YET = -(1 << 40)
"""What a fetched tensor holds before it was waited for: no token, no row."""
META = torch.device("meta")
_Mode: Any = TorchDispatchMode  # not typed


class MetaDevice(CpuDevice):
    """A place for tensors without data: whatever looks into one, as a wait for the GPU would, raises."""

    def __init__(self) -> None:
        super().__init__()
        self.place = META

    def send(self, source: torch.Tensor, target: torch.Tensor) -> None:
        """See `Device`; nothing is copied."""


class Counted(_Mode):  # type: ignore[misc]  # as above
    """Counts what a GPU would be launched for: operations that are no views, and the bytes that they read and write."""

    def __init__(self) -> None:
        super().__init__()
        self.operations: Counter[str] = Counter()
        self.bytes = 0
        self.largest = 0
        """Bytes of the largest tensor that was made."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        found = func(*args, **(kwargs or {}))
        if not func.is_view and func.overloadpacket.__name__ not in NO_LAUNCH:
            self.operations[func.overloadpacket.__name__] += 1
            touched = [each for each in (*args, *(kwargs or {}).values()) if isinstance(each, torch.Tensor)]
            made = found if isinstance(found, tuple) else (found,)
            self.largest = max(self.largest, *(each.numel() * each.itemsize for each in made))
            touched += made
            self.bytes += sum(each.numel() * each.itemsize for each in touched)
        return found


NO_LAUNCH = {"empty", "empty_like", "new_empty", "_unsafe_view", "_reshape_alias", "tensor_split", "chunk", "unflatten"}


def meta_programs(shape: Shape, layers: int = 2, context: int = 2048, *, strict: bool = False) -> Programs:
    """Programs over so many layers of a model without data."""
    size = plan(context, strict=strict)

    def tensor(*sizes: int) -> torch.Tensor:
        return torch.empty(sizes, dtype=torch.bfloat16, device=META)

    def product(rows: int, columns: int, *, biased: bool = False) -> PlainProduct:
        return PlainProduct(tensor(rows, columns), tensor(rows) if biased else None)

    norm = Norm(tensor(shape.width), None)
    block = Block(
        norm1=norm,
        qkv=product((shape.heads + 2 * shape.kv_heads) * shape.head_dim, shape.width, biased=True),
        out=product(shape.width, shape.heads * shape.head_dim),
        norm2=norm,
        inner=product(2 * shape.inner, shape.width),
        down=product(shape.width, shape.inner),
    )
    embedding = tensor(min(shape.vocabulary, 1000), shape.width)
    model = ModelWeights(embedding, (block,) * layers, norm, PlainProduct(embedding, None))
    cache = StaticCache(shape, size.capacity, torch.bfloat16, MetaDevice())
    attention = TreeAttention(shape, size.capacity, torch.bfloat16, META, strict=strict)
    kernels = TorchKernels(shape, size.capacity, attention, torch.bfloat16, META)
    return Programs(Transformer(model, kernels, cache), attention, size, MetaDevice(), len(embedding))
