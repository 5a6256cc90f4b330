"""Lists the hosts of this user, and stops them; used by the command line."""

import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import psutil

from fastcoder_lsp.errors import UsageError
from fastcoder_lsp.host.address import build, cache_part, named_address, runtime_folder
from fastcoder_lsp.host.connection import GreetedHost, SilentError, greet
from fastcoder_lsp.host.listening import Address
from fastcoder_lsp.host.transport import AskFronts, Codec, Fronts, ProtocolError, Stop

_ANSWER_S: Final = 5.0  # time for the whole answer, so that a byte each second does not count as one
_LOOK_S: Final = 0.05


@dataclass(frozen=True, slots=True)
class FoundHost:
    """A host that listens."""

    address: Address
    report: Fronts | None  # None if it does not answer, or has a version with another protocol
    process_id: int  # 0 if unknown


def find_hosts(folders: Sequence[Path] | None = None) -> tuple[FoundHost, ...]:
    """All hosts of this user with this cache folder, of any version; `folders` to search, None: the system's."""
    try:
        folder, begins = runtime_folder(folders), cache_part()
        paths = folder.iterdir()
        names = sorted(path for path in paths if path.suffix in {".sock", ".port"} and path.name.startswith(begins))
    except (OSError, UsageError):
        return ()
    answers: dict[Path, FoundHost | None] = {
        name: FoundHost(named_address(folder, name.stem), None, 0) for name in names
    }

    def ask(name: Path) -> None:
        answers[name] = _ask(named_address(folder, name.stem))

    asking = [threading.Thread(target=ask, args=(name,), daemon=True) for name in names]
    for thread in asking:
        thread.start()
    until = time.monotonic() + _ANSWER_S + 1
    for thread in asking:
        thread.join(max(0.0, until - time.monotonic()))
    return tuple(host for name in names if (host := answers[name]) is not None)


def stop_host(host: FoundHost, wait_s: float) -> bool:
    """Ask the host to end, and kill it if it does not; returns whether it is gone."""
    try:
        process = psutil.Process(host.process_id) if host.process_id else None
        reached = greet(host.address, build(), "control", _ANSWER_S)
        reached.channel.send([Codec().encode(Stop())])
        reached.channel.close()
    except psutil.Error:
        return True  # it has already ended
    except (OSError, ProtocolError):
        pass
    if process is None:
        return _gone(host.address, wait_s)
    with suppress(psutil.TimeoutExpired):
        process.wait(wait_s)
        return True
    with suppress(psutil.Error):
        process.kill()
        process.wait(wait_s)
    return not process.is_running()


def _ask(address: Address) -> FoundHost | None:
    try:
        reached = greet(address, build(), "control", _ANSWER_S)
    except SilentError as error:
        return FoundHost(address, None, error.process_id)
    except ProtocolError:
        return FoundHost(address, None, 0)
    except OSError:
        return None
    process_id = 0 if reached.process is None else reached.process.pid
    try:
        return FoundHost(address, _fronts(reached), process_id)
    except (OSError, ProtocolError):
        return FoundHost(address, None, process_id)
    finally:
        reached.channel.close()


def _fronts(reached: GreetedHost) -> Fronts | None:
    codec = Codec()
    reached.channel.limit(_ANSWER_S)
    reached.channel.send([codec.encode(AskFronts())])
    data = reached.channel.receive()
    told = None if data is None else codec.from_host(data)
    return told if isinstance(told, Fronts) else None


def _gone(address: Address, wait_s: float) -> bool:
    until = time.monotonic() + wait_s
    while time.monotonic() < until:
        try:
            address.connect().close()
        except OSError:
            return True
        time.sleep(_LOOK_S)
    return False
