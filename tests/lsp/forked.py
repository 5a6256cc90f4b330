"""Starts scripted servers by forking one process that has imported everything, in milliseconds instead of a second.

Linux only; elsewhere, and where a test names a command, a server is a program of its own.
"""

import asyncio
import atexit
import json
import os
import select
import signal
import socket
import subprocess
import sys
import traceback
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, NoReturn

ROOT = Path(__file__).parents[2]
POSSIBLE = sys.platform == "linux"
_LONGEST = 2**16


class ForkedServer:
    """What tests use of `asyncio.subprocess.Process`, for a server that another process forked."""

    def __init__(
        self,
        pid: int,
        stdin: asyncio.StreamWriter,
        stdout: asyncio.StreamReader,
        stderr: asyncio.StreamReader,
        exited: asyncio.Task[int],
    ) -> None:
        self.pid, self.stdin, self.stdout, self.stderr = pid, stdin, stdout, stderr
        self._exited = exited

    @property
    def returncode(self) -> int | None:
        return self._exited.result() if self._exited.done() else None

    async def wait(self) -> int:
        return await asyncio.shield(self._exited)

    def send_signal(self, number: int) -> None:
        if not self._exited.done():
            os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


async def start(arguments: tuple[str, ...], limit: int) -> ForkedServer:
    """Fork a scripted server with these arguments and pipes of its own, whose lines have at most `limit` bytes."""
    loop = asyncio.get_running_loop()
    ours, theirs = socket.socketpair()
    pipes = [os.pipe() for _ in range(3)]
    childs = [pipes[0][0], pipes[1][1], pipes[2][1]]
    _zygote().ask(arguments, [theirs.fileno(), *childs])
    theirs.close()
    for end in childs:
        os.close(end)
    told, unused = await asyncio.open_unix_connection(sock=ours)
    pid = int(await told.readline())

    async def exited() -> int:
        line = await told.readline()
        unused.close()
        return int(line) if line else -signal.SIGKILL

    stdout, stderr = [asyncio.StreamReader(limit=limit, loop=loop) for _ in range(2)]
    for reader, (end, _) in ((stdout, pipes[1]), (stderr, pipes[2])):
        protocol = asyncio.StreamReaderProtocol(reader, loop=loop)
        await loop.connect_read_pipe(partial(_same, protocol), os.fdopen(end, "rb", buffering=0))
    transport, flow = await loop.connect_write_pipe(
        partial(asyncio.streams.FlowControlMixin, loop=loop), os.fdopen(pipes[0][1], "wb", buffering=0)
    )
    stdin = asyncio.StreamWriter(transport, flow, None, loop)
    return ForkedServer(pid, stdin, stdout, stderr, asyncio.create_task(exited()))


def _same(protocol: asyncio.StreamReaderProtocol) -> asyncio.StreamReaderProtocol:
    return protocol


class _Zygote:
    """The process that is forked, one for each process that runs tests."""

    def __init__(self) -> None:
        self._socket, theirs = socket.socketpair()
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.lsp.forked", str(theirs.fileno())],
            cwd=ROOT,
            pass_fds=[theirs.fileno()],
            stdin=subprocess.DEVNULL,
        )
        theirs.close()
        atexit.register(self._socket.close)

    def ask(self, arguments: tuple[str, ...], descriptors: list[int]) -> None:
        asked = json.dumps({"arguments": arguments, "environment": dict(os.environ)}).encode()
        assert len(asked) < _LONGEST
        socket.send_fds(self._socket, [asked], descriptors)


_zygotes: list[_Zygote] = []


def _zygote() -> _Zygote:
    if not _zygotes:
        _zygotes.append(_Zygote())
    return _zygotes[0]


def _serve_forks(asked: socket.socket) -> None:
    """Fork for everyone who asks, and tell them how their server ended, until nobody can ask any more."""
    from tests.lsp import scripted_server

    woken, wake = socket.socketpair()
    for end in (woken, wake):
        end.setblocking(False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(wake.fileno())
    told: dict[int, socket.socket] = {}
    while True:
        ready, _, _ = select.select([asked, woken], [], [])
        if woken in ready:
            woken.recv(_LONGEST)
        while told and (ended := os.waitpid(-1, os.WNOHANG))[0]:
            with told.pop(ended[0]) as listener, suppress(OSError):
                listener.sendall(b"%d\n" % os.waitstatus_to_exitcode(ended[1]))
        if asked not in ready:
            continue
        data, descriptors, _, _ = socket.recv_fds(asked, _LONGEST, 8)
        if not data:
            break
        wanted = json.loads(data)
        listener = socket.socket(fileno=descriptors[0])
        pid = os.fork()
        if pid == 0:
            _become_server(scripted_server.main, wanted, descriptors, [asked, woken, wake, listener])
        for one in descriptors[1:]:
            os.close(one)
        told[pid] = listener
        listener.sendall(b"%d\n" % pid)
    for pid in told:
        os.kill(pid, signal.SIGKILL)


def _become_server(
    main: Callable[[], None], wanted: dict[str, Any], descriptors: list[int], sockets: list[socket.socket]
) -> NoReturn:
    """In the fork: the server itself; never returns."""
    try:
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        for number, one in enumerate(descriptors[1:]):
            os.dup2(one, number)
            os.close(one)
        for unneeded in sockets:
            unneeded.close()
        os.environ.clear()
        os.environ.update(wanted["environment"])
        sys.argv = ["scripted_server", *wanted["arguments"]]
        main()
        code = 0
    except SystemExit as left:
        code = left.code if isinstance(left.code, int) else 1
    except BaseException:  # noqa: BLE001 as an interpreter does at its end
        traceback.print_exc()
        code = 1
    sys.stderr.flush()
    os._exit(code)


if __name__ == "__main__":
    _serve_forks(socket.socket(fileno=int(sys.argv[1])))
