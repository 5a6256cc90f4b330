"""The device of the graph engine: a GPU that captures and replays work, or the CPU, which runs it directly.

Holds every difference between the two, so that everything else is one code path.
"""

import gc
import logging
from collections.abc import Callable, Hashable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

import psutil
import torch

from fastcoder_lsp.core import Progress

logger = logging.getLogger(__name__)
Launch = Callable[[], None]  # launches work that reads and writes fixed tensors; its shapes never change


@dataclass(frozen=True, slots=True)
class Memory:
    """Bytes of the device: all of them, and the free ones."""

    total: int
    free: int


class Device(Protocol):
    """A place for tensors and work."""

    name: str  # the name for the user
    place: torch.device
    captures: bool  # whether making a program is expensive, so that it is worth doing ahead of time
    chunk: int
    """Rows of a prefill's chunk: enough to keep the device busy, few enough for a cancelled request to wait for."""

    def capture(self, work: Launch) -> Launch:
        """Run `work` at least once, and return a function that repeats it.

        Raises torch.OutOfMemoryError, or RuntimeError if it holds an operation that cannot be captured.
        """

    def staging(self, count: int, dtype: torch.dtype) -> torch.Tensor:
        """A tensor on the host that is copied to and from the device without waiting."""

    def send(self, source: torch.Tensor, target: torch.Tensor) -> None:
        """Launch a copy from a staging tensor, which must not change until a wait for the copy."""

    def fetch(self, source: torch.Tensor, target: torch.Tensor) -> None:
        """Launch a copy to a staging tensor, which is undefined until a wait for the copy."""

    def mark(self) -> None:
        """Mark the end of the work launched so far."""

    def wait(self) -> None:
        """Wait until the work before the mark is done."""

    def memory(self) -> Memory:
        """The device's memory, total and free."""

    def release(self) -> None:
        """Return memory that no tensor holds to the system."""

    def failed(self, why: RuntimeError) -> None:
        """Record that work failed; if this process has lost the device, the process ends."""


class CpuDevice:
    """The CPU: work is done when it is launched."""

    def __init__(self) -> None:
        self.name = "cpu"
        self.captures = False
        self.chunk = 128
        self.place = torch.device("cpu")

    def capture(self, work: Launch) -> Launch:
        """Run `work` at least once, and return what repeats it; the work itself."""
        work()
        return work

    def staging(self, count: int, dtype: torch.dtype) -> torch.Tensor:
        """A tensor on the host that is copied to and from the device without waiting."""
        return torch.zeros(count, dtype=dtype)

    def send(self, source: torch.Tensor, target: torch.Tensor) -> None:
        """Launch a copy from a staging tensor, which must not change until a wait for the copy."""
        target.copy_(source)

    def fetch(self, source: torch.Tensor, target: torch.Tensor) -> None:
        """Launch a copy to a staging tensor, which is undefined until a wait for the copy."""
        target.copy_(source)

    def mark(self) -> None:
        """Do nothing: work is done when it is launched."""

    def wait(self) -> None:
        """Do nothing: work is done when it is launched."""

    def memory(self) -> Memory:
        """The device's memory, total and free."""
        found = psutil.virtual_memory()
        return Memory(found.total, found.available)

    def release(self) -> None:
        """Do nothing: the system has the memory already."""

    def failed(self, why: RuntimeError) -> None:
        """Do nothing: a CPU is never lost."""


class CudaDevice:
    """One NVIDIA GPU. All graphs share one memory pool: they run one after the other, and keep no data in it.

    `memory_share`: the most of the GPU's memory that this process may take. Without `captures` work is launched
    operation by operation. `on_lost` receives the reason when every later CUDA call of this process would fail.
    """

    def __init__(self, memory_share: float = 1.0, index: int = 0, *, captures: bool = True) -> None:
        self._index = index
        self.name = torch.cuda.get_device_name(index)
        self.place = torch.device("cuda", index)
        self.captures = captures
        self.chunk = 512
        self.on_lost: Callable[[str], object] = logger.critical
        self._share = memory_share
        # cuDNN's attention builds a plan for every shape, which takes longer than all of our captures.
        torch.backends.cuda.enable_cudnn_sdp(False)
        if memory_share < 1.0:
            torch.cuda.set_per_process_memory_fraction(memory_share, index)
        self._pool: Any = torch.cuda.graph_pool_handle()
        cuda: Any = torch.cuda  # its streams and events are not typed
        self._side = cuda.Stream(index)
        self._done = cuda.Event()

    def capture(self, work: Launch) -> Launch:
        """Capture the work once, and return a function that replays it. Runs it twice before, on the capture's stream.

        cuBLAS allocates its workspaces in the first run, which a capture would forbid.
        """
        self._side.wait_stream(torch.cuda.current_stream(self.place))
        with torch.cuda.stream(self._side):
            for _ in range(2):
                work()
        torch.cuda.current_stream(self.place).wait_stream(self._side)
        torch.cuda.synchronize(self.place)
        if not self.captures:
            return work
        try:
            return self._captured(work)
        except _NotBegunError as why:  # an earlier capture has spoilt the pool: try again with a new one
            logger.info("a capture could not begin: %s", why)
            return self._captured(work)

    def _captured(self, work: Launch) -> Launch:
        graph, begun = torch.cuda.CUDAGraph(), False
        outside = torch.cuda.current_stream(self.place)
        try:
            with (
                _uncollected(),
                torch.cuda.graph(graph, pool=self._pool, stream=self._side, capture_error_mode="thread_local"),
            ):
                begun = True
                work()
        except Exception as why:  # re-raised once torch is back in order
            self._undo(outside)
            if begun or isinstance(why, torch.OutOfMemoryError):
                raise
            raise _NotBegunError(str(why)) from why
        replay: Launch = graph.replay
        return replay

    def _undo(self, outside: Any) -> None:
        """Clean up a failed capture: torch leaves its stream current, its pool recording, its generator capturing.

        Until the pool's recording ends, no memory can be freed and no capture can begin.
        """
        torch.cuda.set_stream(outside)
        allocator: Any = torch._C  # noqa: SLF001 torch has no other names for what is called below
        try:
            allocator._cuda_endAllocateToPool(self._index, self._pool)  # noqa: SLF001
        except (RuntimeError, AttributeError) as why:
            logger.info("the pool of the capture that failed was not recording: %s", why)
        else:
            allocator._cuda_releasePool(self._index, self._pool)  # noqa: SLF001
        self._pool = torch.cuda.graph_pool_handle()
        try:
            fresh = torch.Generator(self.place)
            torch.cuda.default_generators[self._index].graphsafe_set_state(fresh.graphsafe_get_state())
        except (RuntimeError, AttributeError) as why:
            logger.info("the default generator could not be renewed: %s", why)

    def staging(self, count: int, dtype: torch.dtype) -> torch.Tensor:
        """A tensor on the host, pinned, so that copies to and from the device don't wait."""
        return torch.zeros(count, dtype=dtype, pin_memory=True)

    def send(self, source: torch.Tensor, target: torch.Tensor) -> None:
        """Launch a copy from a staging tensor, which must not change until a wait for the copy."""
        target.copy_(source, non_blocking=True)

    def fetch(self, source: torch.Tensor, target: torch.Tensor) -> None:
        """Launch a copy to a staging tensor, which is undefined until a wait for the copy."""
        target.copy_(source, non_blocking=True)

    def mark(self) -> None:
        """Mark the end of the work launched so far."""
        self._done.record(torch.cuda.current_stream(self.place))

    def wait(self) -> None:
        """Wait until all work before the mark is done; spins, since a sleep would cost more than the rest of a step."""
        self._done.synchronize()

    def memory(self) -> Memory:
        """The device's memory; memory that torch has reserved and does not use counts as free."""
        free, total = torch.cuda.mem_get_info(self.place)
        idle = torch.cuda.memory_reserved(self.place) - torch.cuda.memory_allocated(self.place)
        allowed = int(total * self._share)
        return Memory(allowed, max(min(free + idle, allowed - torch.cuda.memory_allocated(self.place)), 0))

    def release(self) -> None:
        """Return memory that no tensor holds to the system."""
        torch.cuda.empty_cache()

    def failed(self, why: RuntimeError) -> None:
        """Record that work failed. After an illegal access, for example, every later call fails, which a wait shows."""
        if isinstance(why, torch.OutOfMemoryError):
            return
        try:
            torch.cuda.synchronize(self.place)
        except RuntimeError:
            self.on_lost(str(why).splitlines()[0])


class _NotBegunError(RuntimeError):
    """A capture that failed before any work was captured."""


@contextmanager
def _uncollected() -> Iterator[None]:
    """Disable garbage collection meanwhile: freeing a tensor or a graph during a capture breaks it."""
    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was:
            gc.enable()


Key = TypeVar("Key", bound=Hashable)


def inferring(work: Launch) -> Launch:
    """The work in torch's inference mode, for any caller: a replay needs none, and entering it takes time."""

    def launch() -> None:
        with torch.inference_mode():
            work()

    return launch


class GraphSet(Generic[Key]):
    """Programs by key; making one runs it, so it must give the same results however often it runs.

    With `later`, programs that were not captured ahead of time are launched operation by operation until a call of
    `prepare`; else a program is captured at its first run.
    """

    def __init__(self, device: Device, program: Callable[[Key], Launch]) -> None:
        self._device, self._program = device, program
        self._captured: dict[Key, Launch] = {}
        self._wanted: dict[Key, Launch] = {}
        self._captures, self.later = True, False
        self.notes: set[str] = set()  # programs that could not be captured, for the user

    def run(self, key: Key) -> None:
        """Launch the program of `key`."""
        work = self._captured.get(key) or self._wanted.get(key)
        if work is None:
            if self.later and self._captures and self._device.captures:
                work = self._wanted[key] = self._program(key)
            else:
                work = self._captured[key] = self._capture(key)
        work()

    def warm_up(self, keys: Iterable[Key], progress: Progress, ready: Callable[[Key], None]) -> None:
        """Capture `keys` ahead of time, in their order; `ready` sets inputs that a program can be run with."""
        wanted = [key for key in keys if key not in self._captured]
        for done, key in enumerate(wanted):
            progress(done / len(wanted), "capturing graphs")
            ready(key)
            self._captured[key] = self._capture(key)

    def want(self, keys: Iterable[Key]) -> None:
        """Request that `prepare` captures `keys`."""
        if self._captures and self._device.captures:
            self._wanted |= {key: self._program(key) for key in keys if key not in self._captured}

    def prepare(self, may: Callable[[Key], bool], ready: Callable[[Key], None]) -> bool:
        """Capture one requested program that may be captured now; returns whether there was one.

        If memory runs out, all requested programs are launched operation by operation for good.
        """
        key = next((key for key in self._wanted if may(key)), None)
        if key is None:
            return False
        work = self._wanted.pop(key)
        ready(key)
        try:
            self._captured[key] = self._capture(key)
        except torch.OutOfMemoryError:
            logger.warning("%d programs are not captured: memory ran out", 1 + len(self._wanted))
            self._captured |= {key: work, **self._wanted}
            self._wanted.clear()
            self._device.release()
        return True

    def launch_singly(self) -> None:
        """Capture no more programs: their operations are launched one by one."""
        self._captures = False
        self.drop()

    def close(self) -> None:
        """Drop all programs, and their makers, which refer to them."""
        self._captured.clear()
        self._wanted.clear()
        del self._program

    def drop(self) -> None:
        """Drop all programs and free their memory."""
        self._captured.clear()
        self._wanted.clear()
        self._device.release()

    def __contains__(self, key: Key) -> bool:
        return key in self._captured

    def __len__(self) -> int:
        return len(self._captured)

    def _capture(self, key: Key) -> Launch:
        work = self._program(key)
        if not self._captures:
            return work
        try:
            return self._device.capture(work)
        except torch.OutOfMemoryError:
            raise
        except Exception as error:  # noqa: BLE001 torch and its allocator have no common error; `work` decides
            # Slower, with the same result: the work, launch by launch.
            logger.warning("%s runs uncaptured: %s: %s", key, type(error).__name__, error)
            self.notes.add("some steps could not be captured and run slower (see the log)")
            return work
