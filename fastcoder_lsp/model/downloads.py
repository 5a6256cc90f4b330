"""Downloads: the offer before one, how much is here, how fast it comes, and how long the rest takes.

The process that downloads keeps a small file for each model in `downloads` of the cache folder, so that servers and
`doctor` show its progress. It deletes the file once the model is ready; a killed process's file says how much is here.
"""

import hashlib
import json
import math
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import msgspec
import psutil

from fastcoder_lsp.core.files import private_folder, read_cached, replace_file
from fastcoder_lsp.model.store import size_text


@dataclass(frozen=True, slots=True)
class DownloadOffer:
    """A download, announced before it begins.

    `download_bytes` go over the network, `disk_bytes` are needed in `folder`. For a replacement, `instead_of` names the
    requested model, `reason` says why it is unavailable, and `difference` describes the replacement; empty otherwise.
    `trust` names the publisher and the checks; empty where the name says it.
    """

    what: str
    download_bytes: int
    disk_bytes: int
    origin: str
    licence: str
    folder: str
    instead_of: str = ""
    reason: str = ""
    difference: str = ""
    trust: str = ""


@dataclass(frozen=True, slots=True)
class ProgressStep:
    """Progress of one piece of work: `done` of `total`, in bytes, or (`in_bytes` false) in parts of the whole."""

    what: str
    done: int
    total: int
    in_bytes: bool = True


@dataclass(frozen=True, slots=True)
class Dialogue:
    """The listener of a download."""

    announce: Callable[[DownloadOffer], None]  # the download begins
    accept: Callable[[DownloadOffer], bool]  # whether to take a replacement
    advance: Callable[[ProgressStep], None]  # progress, from any thread
    note: Callable[[str], None]  # a line for the user


RECENT_S = 10.0  # the speed is that of the last seconds: it changes while a download runs
WRITE_S = 0.5  # least time between two writes of the file
_LONGEST_S = 360_000.0


class TransferRate:
    """The recent speed of a transfer. `clock`: seconds."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._seen: deque[tuple[float, int]] = deque()

    def observe(self, done: int) -> float:
        """Bytes a second, now that `done` bytes are here; 0 while it is unknown."""
        now = self._clock()
        if self._seen and (done < self._seen[-1][1] or now < self._seen[-1][0]):
            self._seen.clear()  # another file, or a clock that was put back
        self._seen.append((now, done))
        while len(self._seen) > 2 and now - self._seen[0][0] > RECENT_S:
            self._seen.popleft()
        began, before = self._seen[0]
        return (done - before) / (now - began) if now > began else 0.0


@dataclass(frozen=True, slots=True)
class Download:
    """The state of the download of a model, named as `model pull` takes it: a hub id, or `wheels:KEY`.

    `done` and `total` in bytes, `rate` in bytes a second, 0 while unknown.
    """

    name: str
    done: int
    total: int
    rate: float = 0.0
    process: int = 0
    """The one that downloads, -1 once it has given up; it `began` at so many seconds since 1970, because ids are used
    again."""
    began: float = 0.0

    @property
    def percent(self) -> int:
        """The part that is here."""
        return min(100, 100 * self.done // max(1, self.total))

    @property
    def under_way(self) -> bool:
        """Whether its process still runs."""
        try:
            return abs(psutil.Process(self.process).create_time() - self.began) < 1
        except (psutil.Error, ValueError, OverflowError):
            return False

    @property
    def text(self) -> str:
        """Size in words; while it is under way, speed and remaining time, too."""
        return transfer_text(self.done, self.total, self.rate if self.under_way else 0.0)


def transfer_text(done: int, total: int, rate: float) -> str:
    """Size, speed and remaining time of a transfer in words."""
    text = f"{size_text(done)} of {size_text(total)}"
    if rate <= 0:
        return text
    return f"{text}, {size_text(int(rate))}/s, {duration_text((total - done) / rate)} left"


def duration_text(seconds: float) -> str:
    """A time to wait, in its largest unit."""
    seconds = min(max(seconds, 0.0), _LONGEST_S)
    if seconds < 60:
        return f"{math.ceil(seconds)} s"
    return f"{math.ceil(seconds / 60)} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def read_download(cache: Path, name: str) -> Download | None:
    """The download of the model with this name; None where none has begun or it has ended."""
    return read_cached(_path(cache, name), _parsed)


def downloads(cache: Path) -> list[Download]:
    """All downloads that have begun and not ended."""
    found = (read_cached(path, _parsed) for path in sorted((cache / "downloads").glob("*.json")))
    return [download for download in found if download is not None]


def forget_download(cache: Path, name: str) -> None:
    """Delete the file of a download: the model is ready, or was removed."""
    with suppress(OSError):
        _path(cache, name).unlink(missing_ok=True)


@contextmanager
def recorded(cache: Path, name: str, dialogue: Dialogue) -> Iterator[Dialogue]:
    """A dialogue that keeps the file of a download; the file stays where the block raises.

    A folder that cannot be written costs the others their view of the progress.
    """
    own = psutil.Process()
    begun, rate, written_s = own.create_time(), TransferRate(), -math.inf
    state: Download | None = None

    def keep() -> None:
        path = _path(cache, name)
        with suppress(OSError):
            if state is not None:
                private_folder(path.parent)
                replace_file(path, json.dumps(asdict(state)).encode() + b"\n")

    def advance(step: ProgressStep) -> None:
        nonlocal state, written_s
        if step.in_bytes:
            now = time.monotonic()
            state = Download(name, step.done, step.total, rate.observe(step.done), own.pid, begun)
            if now - written_s >= WRITE_S:
                written_s = now
                keep()
        dialogue.advance(step)

    try:
        yield replace(dialogue, advance=advance)
    except BaseException:
        state = replace(state, process=-1) if state is not None else None
        keep()
        raise
    forget_download(cache, name)


def _path(cache: Path, name: str) -> Path:
    return cache / "downloads" / f"{hashlib.sha256(name.encode('utf-8', 'surrogatepass')).hexdigest()[:32]}.json"


def _parsed(data: bytes) -> Download:
    found = msgspec.json.decode(data, type=Download)
    if not (0 <= found.done <= found.total and 0 <= found.rate < math.inf and found.name):
        raise ValueError("impossible sizes")
    return found
