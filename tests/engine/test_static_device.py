"""`CudaDevice`'s own code against a model of CUDA: the order of streams, captures that fail, copies that don't wait."""

import gc
from pathlib import Path
from typing import Any

import pytest
import torch

from fastcoder_lsp.engine.static import device as device_module
from fastcoder_lsp.engine.static.device import CudaDevice
from tests.engine.fake_cuda import FakeCuda, faked
from tests.engine.planted import changed

WAIT_BEFORE = "        self._side.wait_stream(torch.cuda.current_stream(self.place))\n"
RECORD = "self._done.record(torch.cuda.current_stream(self.place))"
RENEW = "torch.cuda.default_generators[self._index].graphsafe_set_state(fresh.graphsafe_get_state())"
FAULTS = {
    "the capture's stream does not wait for the inputs": {WAIT_BEFORE: ""},
    "nothing was run before the capture": {"for _ in range(2):": "for _ in range(0):"},
    "the mark is not recorded": {RECORD: "pass"},
    "the mark is recorded on another stream": {RECORD: "self._done.record(self._side)"},
    "the host does not wait": {"self._done.synchronize()": "pass"},
    "a failed capture is left as it is": {"            self._undo(outside)\n": ""},
    "its stream stays": {"        torch.cuda.set_stream(outside)\n": ""},
    "its pool goes on recording": {"allocator._cuda_endAllocateToPool(self._index, self._pool)": "pass"},
    "its pool is not given back": {"allocator._cuda_releasePool(self._index, self._pool)": "pass"},
    "its pool is taken again": {"        self._pool = torch.cuda.graph_pool_handle()\n        try": "        try"},
    "its generator goes on capturing": {RENEW: "pass"},
    "the collector runs within a capture": {"                _uncollected(),\n": ""},
    "the collector stays off": {"        if was:\n            gc.enable()": "        pass"},
    "a copy to the device waits": {"source, non_blocking=True)\n\n    def fetch": "source)\n\n    def fetch"},
    "a copy to the host waits": {"source, non_blocking=True)\n\n    def mark": "source)\n\n    def mark"},
    "staging is not pinned": {", pin_memory=True": ""},
}
"""What is wrong → how the device's text is changed."""


@pytest.fixture
def cuda(monkeypatch: pytest.MonkeyPatch) -> FakeCuda:
    """CUDA's model in torch's places, which knows no pinned memory either."""
    found, zeros = FakeCuda(), torch.zeros
    found.install(monkeypatch)

    def pinned(*sizes: Any, pin_memory: bool = False, **named: Any) -> torch.Tensor:
        found.pinned += pin_memory
        return zeros(*sizes, **named)

    monkeypatch.setattr(torch, "zeros", pinned)
    return found


class Copied:
    """A tensor that is copied to: `waited` where the copy would wait for the device."""

    waited = False

    def copy_(self, _source: object, *, non_blocking: bool = False) -> None:
        """See torch."""
        self.waited = self.waited or not non_blocking


def check(kind: type[CudaDevice], cuda: FakeCuda) -> None:
    """All that is asked of a device, in turn; whatever is wrong raises."""
    device, ran = faked(kind), list[bool]()

    def work() -> None:
        assert ran or not cuda.recording, "compiled within a capture"
        ran.append(True)
        cuda.touch("inputs")

    cuda.touch("inputs")
    replay = device.capture(work)
    cuda.touch("inputs")
    replay()
    device.mark()
    device.wait()
    cuda.look("inputs")
    cuda.refused = 1
    with pytest.raises(RuntimeError, match="previous error"):
        device.capture(work)
    assert cuda.as_before
    assert cuda.released == cuda.failures == 1
    assert gc.isenabled()
    device.release()
    device.capture(work)
    assert cuda.captured == 2
    copied: Any = Copied()
    device.send(torch.ones(1), copied)
    device.fetch(torch.ones(1), copied)
    assert not copied.waited
    kind.staging(device, 3, torch.int64)
    assert cuda.pinned == 1


def test_the_device_does_all_that_is_asked(cuda: FakeCuda) -> None:
    """In the order that CUDA wants, and after a capture that fails as before it."""
    check(CudaDevice, cuda)


@pytest.mark.parametrize("fault", FAULTS)
def test_a_planted_fault_is_found(fault: str, cuda: FakeCuda, tmp_path: Path) -> None:
    """Each of these changes of the device makes the check fail."""
    module = changed(device_module, tmp_path, FAULTS[fault])
    try:
        with pytest.raises((AssertionError, RuntimeError, pytest.fail.Exception)):
            check(module.CudaDevice, cuda)
    finally:
        gc.enable()


def test_what_was_not_waited_for_may_not_be_looked_at(cuda: FakeCuda) -> None:
    """The model itself: a stream sees another one's work after a wait, the host after an event or a synchronisation."""
    torch_cuda: Any = torch.cuda  # its streams and events are not typed
    stream = torch_cuda.Stream(0)
    cuda.touch("a")
    with pytest.raises(RuntimeError, match="waited"):
        cuda.look("a")
    with torch.cuda.stream(stream), pytest.raises(RuntimeError, match="waited"):
        cuda.touch("a")
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        cuda.touch("a")
    event = torch_cuda.Event()
    event.record(torch.cuda.current_stream())
    event.synchronize()
    with pytest.raises(RuntimeError, match="waited"):
        cuda.look("a")
    torch.cuda.synchronize()
    cuda.look("a")


def test_a_capture_that_does_not_begin_is_tried_once_more(cuda: FakeCuda) -> None:
    """With a new pool; a second failure is told."""
    device = faked()
    cuda.not_begun = 1
    device.capture(lambda: None)
    assert (cuda.captured, cuda.failures) == (1, 1)
    cuda.not_begun = 2
    with pytest.raises(RuntimeError, match="is gone"):
        device.capture(lambda: None)
    assert cuda.as_before


def test_a_device_that_does_not_capture_launches(cuda: FakeCuda) -> None:
    """The fallback of graphs: the work is run beforehand all the same, so that what it needs is compiled."""
    ran = list[bool]()
    device = faked(captures=False)
    replay = device.capture(lambda: ran.append(True))
    assert (len(ran), cuda.captured) == (2, 0)
    replay()
    assert len(ran) == 3


def test_an_error_of_a_lost_device_ends_the_process(cuda: FakeCuda) -> None:
    """One that passes, or memory that ran out, does not."""
    device, told = faked(), list[str]()
    device.on_lost = told.append
    device.failed(RuntimeError("CUDA error: invalid argument"))
    assert told == []
    cuda.lost = True
    device.failed(torch.OutOfMemoryError("out of memory"))
    assert told == []
    device.failed(RuntimeError("CUDA error: an illegal memory access\nand more"))
    assert told == ["CUDA error: an illegal memory access"]
