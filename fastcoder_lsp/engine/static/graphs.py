"""The captured graphs: which programs there are, made when first wanted or ahead of time, and repeated.

Owns them and nothing of what they do.
"""

import logging
from collections.abc import Callable, Hashable, Iterable
from typing import Generic, TypeVar

import torch

from fastcoder_lsp.core import Progress
from fastcoder_lsp.engine.static.device import Device, Launch

logger = logging.getLogger(__name__)
Key = TypeVar("Key", bound=Hashable)


def inferring(work: Launch) -> Launch:
    """The work in torch's inference mode, whoever launches it: a replay needs none, and entering it takes its time."""

    def launch() -> None:
        with torch.inference_mode():
            work()

    return launch


class GraphSet(Generic[Key]):
    """Programs by key.

    A program must leave the same behind however often it runs on the same inputs: making it runs it.

    Args:
        device: captures.
        program: the work of a key.

    Attributes:
        later: whether programs that were not captured ahead of time are launched operation by operation until somebody
            calls `prepare`; else a program is captured at its first run.
        notes: what could not be captured, for the user.
    """

    def __init__(self, device: Device, program: Callable[[Key], Launch]) -> None:
        self._device, self._program = device, program
        self._captured: dict[Key, Launch] = {}
        self._wanted: dict[Key, Launch] = {}
        self._captures, self.later = True, False
        self.notes: set[str] = set()

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
        """Capture `keys` ahead of time, in their order; `ready` hands over what a program may be tried with."""
        wanted = [key for key in keys if key not in self._captured]
        for done, key in enumerate(wanted):
            progress(done / len(wanted), "capturing graphs")
            ready(key)
            self._captured[key] = self._capture(key)

    def want(self, keys: Iterable[Key]) -> None:
        """Have `keys` captured by `prepare`."""
        if self._captures and self._device.captures:
            self._wanted |= {key: self._program(key) for key in keys if key not in self._captured}

    def prepare(self, may: Callable[[Key], bool], ready: Callable[[Key], None]) -> bool:
        """Capture one program that is wanted and may be captured now; whether there was one.

        Where memory runs out, those that are wanted are launched operation by operation for good.
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
        """Capture nothing from now on: a program's operations are launched one by one."""
        self._captures = False
        self.drop()

    def close(self) -> None:
        """Forget all programs, and what makes them, which refers to them."""
        self._captured.clear()
        self._wanted.clear()
        del self._program

    def drop(self) -> None:
        """Forget all programs and give their memory back."""
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
        except Exception as error:  # noqa: BLE001 torch, its allocator and Triton raise what they like; `work` decides
            # Right, only slower: the same work, launch by launch.
            logger.warning("%s runs uncaptured: %s: %s", key, type(error).__name__, error)
            self.notes.add("some steps could not be captured and run slower (see the log)")
            return work
