"""macOS' and Windows' own ways of telling changes, scripted: what watchdog's real code is given to read.

FSEvents are a stream of (path, inode, flags); Windows fills a buffer with records at each call, and an empty one says
that it ran over.
"""

import ctypes
import errno
import importlib
import queue
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest.mock import patch

CREATED, REMOVED, RENAMED, MODIFIED, FOLDER = 0x100, 0x200, 0x800, 0x1000, 0x20000
"""FSEvents' flags of what happened, and of what it happened to (FSEvents.h)."""
MUST_SCAN, USER_DROPPED, KERNEL_DROPPED = 0x1, 0x2, 0x4
ROOT_CHANGED = 0x20

_FLAGS = {
    "is_root_changed": ROOT_CHANGED,
    "is_created": CREATED,
    "is_removed": REMOVED,
    "is_renamed": RENAMED,
    "is_modified": MODIFIED,
    "is_inode_meta_mod": 0x400,
    "is_xattr_mod": 0x8000,
    "is_owner_change": 0x4000,
    "is_directory": FOLDER,
}


class NativeEvent:
    """As watchdog's module in C makes it."""

    def __init__(self, path: str, inode: int, flags: int, event_id: int) -> None:
        self.path, self.inode, self.flags, self.event_id = path, inode, flags, event_id

    def __getattr__(self, name: str) -> bool:
        return bool(self.flags & _FLAGS[name])


class Stream:
    """FSEvents of one folder: `tell` what happened."""

    def __init__(self, _paths: list[str], latency: float) -> None:
        self.latency, self._stopped = latency, threading.Event()
        self._callback: Callable[..., None] | None = None
        LIVE.append(self)

    def run(self, callback: Callable[..., None], began: Callable[[], None]) -> None:
        self._callback = callback
        began()
        self._stopped.wait()

    def stop(self) -> None:
        self._stopped.set()

    def tell(self, *events: tuple[Path, int]) -> None:
        """Paths and flags, in one batch; an item has the inode that is there, or one of its own where it is gone."""
        assert self._callback is not None
        inodes = [path.lstat().st_ino if path.exists() else 10**9 for path, _ in events]
        self._callback(
            [str(path) for path, _ in events], inodes, [flags for _, flags in events], list(range(len(events)))
        )


LIVE: list[Stream] = []


@contextmanager
def fsevents() -> Iterator[ModuleType]:
    """`workspace.fsevents` over this system."""
    native = ModuleType("_watchdog_fsevents")
    vars(native).update(NativeEvent=NativeEvent, Stream=Stream)
    LIVE.clear()
    with _modules({"_watchdog_fsevents": native}, "watchdog.observers.fsevents", "fastcoder_lsp.workspace.fsevents"):
        yield importlib.import_module("fastcoder_lsp.workspace.fsevents")


class Kernel32:
    """Windows' calls as watchdog makes them: each reading one gives the next of `buffers`, or fails with its number."""

    def __init__(self) -> None:
        self.buffers: queue.Queue[bytes | int] = queue.Queue()

    def __getattr__(self, name: str) -> Callable[..., int]:
        return _Call(getattr(type(self), f"_{name}", lambda *_: 1), self)

    def _ReadDirectoryChangesExW(self, _handle: Any, room: Any, _size: int, *rest: Any) -> int:  # noqa: N802
        told = self.buffers.get()
        if isinstance(told, int):
            error = OSError(errno.EIO, "the call failed")
            error.winerror = told  # type: ignore[attr-defined]  # there on Windows alone
            raise error
        ctypes.memmove(room._obj, told, len(told))
        rest[2]._obj.value = len(told)
        return 1

    def _GetFinalPathNameByHandleW(self, _handle: Any, name: Any, *_: Any) -> int:  # noqa: N802
        name.value = self.root
        return 1

    def _CreateFileW(self, *_: Any) -> int:  # noqa: N802
        if self.closed:
            raise FileNotFoundError(errno.ENOENT, "The system cannot find the path specified")
        return 1

    def _CancelIoEx(self, *_: Any) -> int:  # noqa: N802
        self.buffers.put(ABORTED)
        return 1

    root, closed = "", False


class _Call:
    """One of the library's functions; watchdog says of what types it is."""

    def __init__(self, call: Callable[..., int], library: Kernel32) -> None:
        self._call, self._library = call, library

    def __call__(self, *arguments: Any) -> int:
        return self._call(self._library, *arguments)


ABORTED, ENUM_DIR = 995, 1022
"""Windows' numbers of two failures: reading was given up, and a folder is to be listed anew."""
ADDED, DELETED, CHANGED, OLD_NAME, NEW_NAME = 1, 2, 3, 4, 5


def record(*entries: tuple[int, str]) -> bytes:
    """A buffer of FILE_NOTIFY_EXTENDED_INFORMATION, as wide as its numbers are on this system."""
    form = sys.modules["watchdog.observers.winapi"].FileNotifyExtendedInformation
    data = b""
    for number, (action, name) in enumerate(entries):
        letters = name.encode("utf-16-le")
        size = -(-(form.FileName.offset + len(letters)) // 8) * 8
        head = form(Action=action, FileNameLength=len(letters))
        head.NextEntryOffset = size if number + 1 < len(entries) else 0
        data += (bytes(head)[: form.FileName.offset] + letters).ljust(size, b"\0")
    return data


@contextmanager
def directory_changes(library: Kernel32) -> Iterator[ModuleType]:
    """`workspace.directory_changes` over this system."""
    ours = "fastcoder_lsp.workspace.directory_changes"
    with (
        patch.object(ctypes, "WinDLL", lambda _name: library, create=True),
        _modules({}, "watchdog.observers.winapi", "watchdog.observers.read_directory_changes", ours),
    ):
        yield importlib.import_module(ours)


@contextmanager
def _modules(given: dict[str, ModuleType], *fresh: str) -> Iterator[None]:
    """Modules that are imported anew inside, and forgotten afterwards."""
    names = [*given, *fresh]
    before = {name: sys.modules.pop(name, None) for name in names}
    sys.modules.update(given)
    try:
        yield
    finally:
        for name, module in before.items():
            sys.modules.pop(name, None)
            if module is not None:
                sys.modules[name] = module
