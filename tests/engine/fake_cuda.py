"""CUDA as torch shows it, as far as captures go, failing as it fails: for `CudaDevice` where there is no GPU.

Owns the state that a failed capture leaves behind in torch 2.11 to 2.13, read off its sources: `capture_end` raises
before the allocation to the pool is ended, before the generator is told, and before the stream is set back.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch

from fastcoder_lsp.engine.static.device import CudaDevice, Launch


class FakeCuda:
    """`refused`: captures that will fail at their end. `failures`: those that did."""

    def __init__(self, refused: int = 0) -> None:
        self.refused, self.failures, self.captured, self.released = refused, 0, 0, 0
        self.stream: object = "outside"
        self.recording: set[object] = set()
        self.generator_captures = False
        self._pools = 0

    def install(self, patch: pytest.MonkeyPatch) -> None:
        """Put it into torch's places."""
        cuda: Any = torch.cuda
        for name, found in {
            "get_device_name": lambda _index: "fake",
            "get_device_properties": lambda _index: type("Properties", (), {"multi_processor_count": 8}),
            "graph_pool_handle": self._pool,
            "Stream": lambda _index: FakeStream(),
            "Event": FakeStream,
            "current_stream": lambda _place=None: self.stream if self.stream != "outside" else FakeStream(),
            "set_stream": self._set_stream,
            "stream": self._on,
            "synchronize": lambda _place=None: None,
            "CUDAGraph": FakeGraph,
            "graph": self._graph,
            "empty_cache": self._empty_cache,
            "mem_get_info": lambda _place: (1 << 34, 1 << 34),
            "memory_reserved": lambda _place: 0,
            "memory_allocated": lambda _place: 0,
            "default_generators": [FakeGenerator(self)],
        }.items():
            patch.setattr(cuda, name, found)
        patch.setattr(torch, "Generator", lambda _place: FakeGenerator(self))
        patch.setattr(torch._C, "_cuda_endAllocateToPool", self._end, raising=False)
        patch.setattr(torch._C, "_cuda_releasePool", self._release, raising=False)

    def _pool(self) -> int:
        self._pools += 1
        return self._pools

    def _set_stream(self, stream: object) -> None:
        self.stream = "outside" if isinstance(stream, FakeStream) and not stream.side else stream

    @contextmanager
    def _on(self, stream: object) -> Iterator[None]:
        before, self.stream = self.stream, stream
        yield
        self.stream = before

    @contextmanager
    def _graph(self, graph: "FakeGraph", *, pool: object, stream: object, capture_error_mode: str) -> Iterator[None]:
        assert capture_error_mode == "thread_local"
        if self.recording or self.generator_captures or self.stream != "outside":
            raise RuntimeError("a capture is under way")
        stream.side = True  # type: ignore[attr-defined]
        before, self.stream = self.stream, stream
        self.recording.add(pool)
        self.generator_captures = True
        yield
        if self.refused:
            self.refused -= 1
            self.failures += 1
            raise RuntimeError("operation failed due to a previous error during capture")
        self.recording.discard(pool)
        self.generator_captures = False
        self.stream = before
        self.captured += 1

    def _empty_cache(self) -> None:
        if self.recording:
            raise RuntimeError("captures_underway.empty() INTERNAL ASSERT FAILED")

    def _end(self, _index: int, pool: object) -> None:
        if pool not in self.recording:
            raise RuntimeError("not recording to this pool")
        self.recording.discard(pool)

    def _release(self, _index: int, _pool: object) -> None:
        self.released += 1


class FakeStream:
    """A stream or an event, on which everything is done at once."""

    side = False

    def wait_stream(self, _other: object) -> None:
        """See torch."""

    def record(self, _stream: object) -> None:
        """See torch."""

    def synchronize(self) -> None:
        """See torch."""


class FakeGenerator:
    """The default generator, or a fresh one."""

    def __init__(self, cuda: FakeCuda) -> None:
        self._cuda = cuda

    def graphsafe_get_state(self) -> object:
        """See torch."""
        return self

    def graphsafe_set_state(self, _state: object) -> None:
        """See torch: the state that was capturing is gone."""
        self._cuda.generator_captures = False


class FakeGraph:
    """A graph; `FakedDevice` knows what its replay is."""

    def replay(self) -> None:
        """See torch."""


class FakedDevice(CudaDevice):
    """`CudaDevice` itself, but that tensors are on the CPU, and a replay runs the work."""

    def __init__(self) -> None:
        super().__init__()
        self.place = torch.device("cpu")

    def capture(self, work: Launch) -> Launch:
        """See `Device`."""
        super().capture(work)
        return work

    def staging(self, count: int, dtype: torch.dtype) -> torch.Tensor:
        """See `Device`."""
        return torch.zeros(count, dtype=dtype)


class CarelessDevice(FakedDevice):
    """The same with a planted fault: what a failed capture leaves behind is not undone, but for the stream."""

    def _undo(self, outside: Any) -> None:
        torch.cuda.set_stream(outside)
