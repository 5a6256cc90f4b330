"""JSON-RPC over a child process's stdin and stdout, framed as in LSP.

Owns the process, the framing and the open requests; of the protocol's methods it knows only `exit`, `shutdown` and
`$/cancelRequest`. pygls' client neither cancels requests nor drains the server's stderr, and it starts more slowly.
"""

import asyncio
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from fastcoder_lsp.config.processes import neutral_folder
from fastcoder_lsp.errors import FastcoderError

Params = Mapping[str, Any]
METHOD_NOT_FOUND_CODE = -32601
LAST_WORDS_BYTES = 4000
CLOSE_S = 3.0


class ServerGoneError(FastcoderError):
    """The server's process has ended, or could not be started."""


class RequestFailedError(FastcoderError):
    """The server answered a request with an error."""

    def __init__(self, method: str, code: int, message: str) -> None:
        super().__init__(f"the server refused {method}: {message} ({code})")
        self.code = code


class Connection:
    """A running server. Everything runs on the event loop that called `open`.

    Args:
        on_notification: called with (method, params) for each notification.
        on_request: answers the server's requests; None is sent as null.
        on_gone: called once if the server ends by itself, with the last line of its stderr.
    """

    def __init__(
        self,
        on_notification: Callable[[str, Params], None],
        on_request: Callable[[str, Params], object],
        on_gone: Callable[[ServerGoneError], None],
    ) -> None:
        self._on_notification, self._on_request, self._on_gone = on_notification, on_request, on_gone
        self._process: asyncio.subprocess.Process | None = None
        self._open: dict[int, asyncio.Future[Any]] = {}
        self._next_id = 1
        self._last_words = b""
        self._tasks: list[asyncio.Task[None]] = []
        self._closing = False

    @property
    def process_id(self) -> int:
        """The id of the server's process, once it is started."""
        assert self._process is not None
        return self._process.pid

    async def open(self, command: Sequence[str], environment: Mapping[str, str] | None = None) -> None:
        """Start the server in a neutral folder, by default with this process's environment.

        Raises:
            ServerGoneError: it cannot be started.
        """
        pipe = asyncio.subprocess.PIPE
        try:
            self._process = await asyncio.create_subprocess_exec(
                *command, stdin=pipe, stdout=pipe, stderr=pipe, env=environment, cwd=neutral_folder()
            )
        except OSError as error:
            raise ServerGoneError(f"cannot start {command[0]}: {error.strerror}") from error
        self._tasks = [asyncio.create_task(self._read()), asyncio.create_task(self._listen_to_stderr())]

    def notify(self, method: str, params: Params | None = None) -> None:
        """Send a notification."""
        self._send({"method": method} | ({} if params is None else {"params": params}))

    async def request(self, method: str, params: Params | None = None) -> Any:
        """Send a request and wait for its result. Cancelling the caller cancels the request at the server.

        Raises:
            RequestFailedError: the server answered with an error.
            ServerGoneError: it ended first.
        """
        number, self._next_id = self._next_id, self._next_id + 1
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._open[number] = answer
        self._send({"id": number, "method": method} | ({} if params is None else {"params": params}))
        try:
            message = await answer
        except asyncio.CancelledError:
            if number in self._open:
                self.notify("$/cancelRequest", {"id": number})
            raise
        if "error" in message:
            raise RequestFailedError(method, message["error"].get("code", 0), message["error"].get("message", ""))
        return message.get("result")

    async def close(self) -> None:
        """End the server by `shutdown` and `exit`; kill it if it does not end."""
        process, self._closing = self._process, True
        if process is None:
            return
        try:
            async with asyncio.timeout(CLOSE_S):
                await self.request("shutdown")
                self.notify("exit")
                await process.wait()
        except (TimeoutError, FastcoderError):
            if process.returncode is None:
                process.kill()
                await process.wait()
        await asyncio.gather(*self._tasks)

    def _send(self, message: Params) -> None:
        if self._process is None or self._process.stdin is None or self._process.returncode is not None:
            raise ServerGoneError("the language server is not running")
        body = json.dumps({"jsonrpc": "2.0", **message}, ensure_ascii=False).encode("utf-8", "surrogatepass")
        self._process.stdin.write(b"Content-Length: %d\r\n\r\n%b" % (len(body), body))

    async def _read(self) -> None:
        """Handle messages until the server closes its stdout."""
        assert self._process is not None
        assert self._process.stdout is not None
        message = "the language server ended"
        try:
            while (body := await _frame(self._process.stdout)) is not None:
                self._take(json.loads(body))
        except ValueError as error:
            message = f"the language server wrote what is no message ({error})"
            self._process.kill()
        code = await self._process.wait()
        last_line = self._last_words.decode(errors="replace").strip().rpartition("\n")[2]
        gone = ServerGoneError(f"{message}, exit code {code}", last_line)
        for answer in self._open.values():
            if not answer.done():
                answer.set_exception(gone)
        self._open.clear()
        if not self._closing:
            self._on_gone(gone)

    def _take(self, message: Mapping[str, Any]) -> None:
        method = message.get("method")
        if method is None:
            answer = self._open.pop(message.get("id", 0), None)
            if answer is not None and not answer.done():
                answer.set_result(message)
        elif "id" in message:
            self._send({"id": message["id"], **self._answer(method, message.get("params") or {})})
        else:
            self._on_notification(method, message.get("params") or {})

    def _answer(self, method: str, params: Params) -> Params:
        try:
            return {"result": self._on_request(method, params)}
        except NotImplementedError:
            return {"error": {"code": METHOD_NOT_FOUND_CODE, "message": f"{method} is unknown"}}

    async def _listen_to_stderr(self) -> None:
        """Keep the server's last lines, which say why it ended; a full pipe would block it."""
        assert self._process is not None
        assert self._process.stderr is not None
        while words := await self._process.stderr.read(LAST_WORDS_BYTES):
            self._last_words = (self._last_words + words)[-LAST_WORDS_BYTES:]


async def _frame(reader: asyncio.StreamReader) -> bytes | None:
    """The next message's body; None at the end of the stream."""
    length = 0
    try:
        while (header := await reader.readuntil(b"\r\n")) != b"\r\n":
            name, _, value = header.partition(b":")
            if name.strip().lower() == b"content-length":
                length = int(value)
        return await reader.readexactly(length)
    except asyncio.IncompleteReadError:
        return None
