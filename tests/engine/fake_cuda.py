"""CUDA as torch shows it, as far as captures and streams go, failing as it fails: for `CudaDevice` without a GPU.

Owns the state that a failed capture leaves behind in torch 2.11 to 2.13, read off its sources: `capture_end` raises
before the allocation to the pool is ended, before the generator is told, and before the stream is set back. And the
order of work: of two streams neither sees what the other did before it waited, nor does the host.
"""

import gc
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
        self.not_begun = 0
        """Captures that will not begin."""
        self.lost = False
        """Whether every call fails, as after an illegal access."""
        self.outside = FakeStream()
        self.stream = self.outside
        self.recording: set[object] = set()
        self.generator_captures = False
        self.pinned = 0
        self._pools = 0
        self._spoilt: set[object] = set()
        self._host = FakeStream()
        self._streams = [self.outside]
        self._last: dict[str, tuple[FakeStream, int]] = {}

    @property
    def as_before(self) -> bool:
        """Whether nothing is left of a capture: on the stream, in the pools, in the generator."""
        return self.stream is self.outside and not self.recording and not self.generator_captures

    def touch(self, name: str) -> None:
        """Work of the current stream with a thing; an error where what was done with it last may still be going on.

        Within a capture nothing is done.
        """
        if self.recording:
            return
        self._require(name, self.stream)
        self.stream.did += 1
        self._last[name] = self.stream, self.stream.did

    def look(self, name: str) -> None:
        """The host looks at a thing; an error where it did not wait for what was done with it."""
        self._require(name, self._host)

    def _require(self, name: str, who: "FakeStream") -> None:
        stream, number = self._last.get(name, (who, 0))
        if stream is not who and who.saw.get(stream, 0) < number:
            raise RuntimeError(f"{name} is used before it was waited for")

    def _synchronize(self, _place: object = None) -> None:
        """All is done: whoever begins something later comes after it."""
        if self.lost:
            raise RuntimeError("CUDA error: an illegal memory access was encountered")
        for each in (self._host, *self._streams):
            for other in self._streams:
                each.saw[other] = other.did

    def install(self, patch: pytest.MonkeyPatch) -> None:
        """Put it into torch's places."""
        cuda: Any = torch.cuda
        for name, found in {
            "get_device_name": lambda _index: "fake",
            "get_device_properties": lambda _index: type("Properties", (), {"multi_processor_count": 8}),
            "get_device_capability": lambda _index: (9, 0),
            "graph_pool_handle": self._pool,
            "Stream": self._new_stream,
            "Event": lambda: FakeEvent(self._host),
            "current_stream": lambda _place=None: self.stream,
            "set_stream": self._set_stream,
            "stream": self._on,
            "synchronize": self._synchronize,
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

    def _new_stream(self, _index: int) -> "FakeStream":
        self._streams.append(FakeStream())
        return self._streams[-1]

    def _set_stream(self, stream: "FakeStream") -> None:
        self.stream = stream

    @contextmanager
    def _on(self, stream: "FakeStream") -> Iterator[None]:
        before, self.stream = self.stream, stream
        yield
        self.stream = before

    @contextmanager
    def _graph(
        self, graph: "FakeGraph", *, pool: object, stream: "FakeStream", capture_error_mode: str
    ) -> Iterator[None]:
        assert capture_error_mode == "thread_local"
        assert not gc.isenabled(), "what the collector frees within a capture breaks it"
        if not self.as_before or pool in self._spoilt:
            raise RuntimeError("a capture is under way")
        if self.not_begun:
            self.not_begun -= 1
            self.failures += 1
            self._spoilt.add(pool)
            raise RuntimeError("the pool of an earlier capture is gone")
        self._synchronize()  # torch's own does
        before, self.stream = self.stream, stream
        self.recording.add(pool)
        self.generator_captures = True
        yield
        if self.refused:
            self.refused -= 1
            self.failures += 1
            self._spoilt.add(pool)
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
    """A stream: how much was launched on it, and how much of every other one is known to be done before its next."""

    def __init__(self) -> None:
        self.did = 0
        self.saw: dict[FakeStream, int] = {}

    def wait_stream(self, other: "FakeStream") -> None:
        for stream, number in {**other.saw, other: other.did}.items():
            self.saw[stream] = max(self.saw.get(stream, 0), number)


class FakeEvent:
    """An event that the host waits for."""

    def __init__(self, host: FakeStream) -> None:
        self._host = host
        self._recorded = FakeStream()

    def record(self, stream: FakeStream) -> None:
        self._recorded = FakeStream()
        self._recorded.wait_stream(stream)

    def synchronize(self) -> None:
        self._host.wait_stream(self._recorded)


class FakeGenerator:
    """The default generator, or a fresh one."""

    def __init__(self, cuda: FakeCuda) -> None:
        self._cuda = cuda

    def graphsafe_get_state(self) -> object:
        return self

    def graphsafe_set_state(self, _state: object) -> None:
        self._cuda.generator_captures = False


class FakeGraph:
    """A graph; `FakedDevice` knows what its replay is."""

    def replay(self) -> None:
        """See torch."""


def faked(*, captures: bool = True) -> CudaDevice:
    """`CudaDevice` itself, but that its tensors are on the CPU, and a replay runs the work."""

    class Faked(CudaDevice):
        def __init__(self) -> None:
            super().__init__(captures=captures)
            self.place = torch.device("cpu")

        def capture(self, work: Launch) -> Launch:
            super().capture(work)
            return work

        def staging(self, count: int, dtype: torch.dtype) -> torch.Tensor:
            return torch.zeros(count, dtype=dtype)

    return Faked()
