"""A language client: turns plain values into the protocol's messages, and back; the caller decides when to ask."""

import asyncio
import json
import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fastcoder_lsp import __version__
from fastcoder_lsp.completion.status import Status
from fastcoder_lsp.config.environment import neutral_folder
from fastcoder_lsp.core.differences import common_ends
from fastcoder_lsp.errors import FastcoderError
from fastcoder_lsp.workspace.document import Encoding, position_at, units_to_index

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
    """JSON-RPC over a child process's stdin and stdout. Everything runs on the event loop that called `open`.

    pygls' client neither cancels requests nor drains the server's stderr, and it starts more slowly. `on_notification`
    receives (method, params). `on_request` answers the server's requests; None is sent as null. `on_gone` is called
    once if the server ends by itself, with the last line of its stderr.
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
        """Start the server in a neutral folder, with this process's environment by default; raises ServerGoneError."""
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

        Raises RequestFailedError if the server answers with an error, ServerGoneError if it ends first.
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


# What editors' "accept word" takes at once: a word or a run of signs with the space before it, or space alone.
_WORD = re.compile(r"\s*(?:\w+|[^\w\s]+)|\s+")


@dataclass(frozen=True, slots=True)
class ReceivedSuggestion:
    """A suggestion: `text` replaces start…end (character offsets); run `command` after it was accepted."""

    text: str
    start: int
    end: int
    command: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class LatePlace:
    """The place of a suggestion that came after its request was answered; `position` is the protocol's."""

    uri: str
    version: int
    position: Mapping[str, int]


class LanguageClient:
    """A client of one server for one workspace; `on_told` receives every other notification, as (method, params)."""

    def __init__(
        self,
        on_status: Callable[[Status], None],
        on_notice: Callable[[str], None],
        on_gone: Callable[[ServerGoneError], None],
        *,
        on_late: Callable[[LatePlace], None] | None = None,
        on_told: Callable[[str, Params], None] = lambda _method, _params: None,
        name: str = "fastcoder-lsp play",
    ) -> None:
        self._on_status, self._on_notice, self._on_told, self._name = on_status, on_notice, on_told, name
        self._on_late = on_late
        self._connection = Connection(self._notified, self._requested, on_gone)
        self._encoding = Encoding.UTF16
        self._folders: list[dict[str, str]] = []

    @property
    def process_id(self) -> int:
        """The process id of the server."""
        return self._connection.process_id

    async def start(
        self, command: Sequence[str], root: Path, options: Params, environment: Mapping[str, str] | None = None
    ) -> None:
        """Start the server on a workspace; `options` are settings, as in an editor's configuration."""
        self._folders = [{"uri": root.as_uri(), "name": root.name}]
        await self._connection.open(command, environment)
        answer = await self._connection.request(
            "initialize",
            {
                "processId": os.getpid(),
                "clientInfo": {"name": self._name, "version": __version__},
                "rootUri": root.as_uri(),
                "workspaceFolders": self._folders,
                "initializationOptions": options,
                "capabilities": {
                    "general": {"positionEncodings": [Encoding.UTF32.value, Encoding.UTF16.value]},
                    "textDocument": {"synchronization": {}, "inlineCompletion": {}},
                    "window": {"workDoneProgress": True, "showMessage": {}},
                    "workspace": {"configuration": True, "workspaceFolders": True},
                    "experimental": {"fastcoderLate": True, "fastcoderStatus": True},
                },
            },
        )
        self._encoding = Encoding(answer["capabilities"].get("positionEncoding", Encoding.UTF16.value))
        self._connection.notify("initialized", {})

    async def stop(self) -> None:
        """End the server."""
        await self._connection.close()

    def open(self, uri: str, language: str, version: int, text: str) -> None:
        """Tell the server that a document was opened."""
        document = {"uri": uri, "languageId": language, "version": version, "text": text}
        self._connection.notify("textDocument/didOpen", {"textDocument": document})

    def change(self, uri: str, version: int, before: str, after: str) -> None:
        """Tell the server that a document changed; sends only the difference."""
        self.edit(uri, version, before, *difference(before, after))

    def edit(self, uri: str, version: int, before: str, start: int, end: int, text: str) -> None:
        """Tell the server that `text` replaced start…end of `before`; the document now has the number `version`."""
        change = {"range": {"start": self.position(before, start), "end": self.position(before, end)}, "text": text}
        self._connection.notify(
            "textDocument/didChange", {"textDocument": {"uri": uri, "version": version}, "contentChanges": [change]}
        )

    def cursor(self, uri: str, version: int, text: str, offset: int) -> None:
        """Tell the server that the cursor rests at `offset`."""
        document = {"uri": uri, "version": version}
        self._connection.notify("fastcoder/cursor", {"textDocument": document, "position": self.position(text, offset)})

    def save(self, uri: str) -> None:
        """Tell the server that a document was saved."""
        self._connection.notify("textDocument/didSave", {"textDocument": {"uri": uri}})

    def close(self, uri: str) -> None:
        """Tell the server that a document was closed."""
        self._connection.notify("textDocument/didClose", {"textDocument": {"uri": uri}})

    async def suggest(self, uri: str, text: str, offset: int, *, invoked: bool) -> ReceivedSuggestion | None:
        """Ask for a suggestion at `offset`. Cancelling the call cancels the request at the server."""
        answer = await self._connection.request(
            "textDocument/inlineCompletion",
            {
                "textDocument": {"uri": uri},
                "position": self.position(text, offset),
                "context": {"triggerKind": 1 if invoked else 2},
            },
        )
        items = answer["items"] if isinstance(answer, dict) else answer or []
        if not items:
            return None
        item = items[0]
        place = item.get("range")
        start, end = (self._offset(text, place[edge]) for edge in ("start", "end")) if place else (offset, offset)
        insert = item["insertText"]
        return ReceivedSuggestion(
            insert if isinstance(insert, str) else insert["value"], start, end, item.get("command")
        )

    async def next_edits(self, uri: str, version: int, text: str, offset: int) -> list[Params]:
        """Ask for the next edit after the last change, as Copilot's clients do; cancelled like `suggest`."""
        place = {"textDocument": {"uri": uri, "version": version}, "position": self.position(text, offset)}
        answer = await self._connection.request("textDocument/copilotInlineEdit", place)
        edits: list[Params] = answer["edits"]
        return edits

    def with_edits(self, text: str, edits: Sequence[Params]) -> str:
        """The text of a document with next edits made."""
        places = [
            (*(self._offset(text, one["range"][edge]) for edge in ("start", "end")), one["text"]) for one in edits
        ]
        for start, end, new in sorted(places, reverse=True):
            text = text[:start] + new + text[end:]
        return text

    async def accepted(self, suggestion: ReceivedSuggestion) -> None:
        """Run the suggestion's command, which tells the server that it was accepted."""
        if suggestion.command is not None:
            command = {key: suggestion.command[key] for key in ("command", "arguments") if key in suggestion.command}
            await self._connection.request("workspace/executeCommand", command)

    async def why(self, uri: str) -> str:
        """Why a document's last answers were empty, most important reason first; raises RequestFailedError."""
        answer = await self._connection.request("fastcoder/why", {"textDocument": {"uri": uri}})
        return str(answer["text"])

    async def stats(self) -> Params:
        """The server's statistics; raises RequestFailedError if the server refused the request."""
        answer: Params = await self._connection.request("fastcoder/stats")
        return answer

    def position(self, text: str, offset: int) -> dict[str, int]:
        """The protocol's position of an offset."""
        position = position_at(text, offset, self._encoding)
        return {"line": position.line, "character": position.character}

    def _offset(self, text: str, position: Mapping[str, int]) -> int:
        lines = text.split("\n")
        line = min(position["line"], len(lines) - 1)
        index = units_to_index(lines[line], position["character"], self._encoding)
        return sum(map(len, lines[:line])) + line + index

    def _notified(self, method: str, params: Params) -> None:
        if method == "fastcoder/status":
            status = Status(
                params["state"], params.get("percent"), params.get("message") or "", params.get("hint") or ""
            )
            self._on_status(status)
        elif method == "fastcoder/late" and self._on_late is not None:
            document = params["textDocument"]
            self._on_late(LatePlace(document["uri"], document["version"], params["position"]))
        elif method == "window/showMessage":
            self._on_notice(params["message"])
        else:
            self._on_told(method, params)

    def _requested(self, method: str, params: Params) -> object:
        """Answer the server's requests; raises NotImplementedError for unknown ones."""
        if method == "workspace/configuration":
            return [None] * len(params.get("items", ()))  # the initialization options have all settings
        if method == "workspace/workspaceFolders":
            return self._folders
        if method == "window/showMessageRequest":
            self._on_notice(params["message"])
            return None
        if method in ("client/registerCapability", "client/unregisterCapability", "window/workDoneProgress/create"):
            return None
        raise NotImplementedError


def difference(before: str, after: str) -> tuple[int, int, str]:
    """(start, end, text): replacing start…end of `before` by `text` makes it `after`."""
    start, kept = common_ends(before, after)
    return start, len(before) - kept, after[start : len(after) - kept]


@dataclass(frozen=True, slots=True)
class Ghost:
    """Ghost text at the cursor, never empty; accepting it replaces the next `replaces` characters of the document."""

    text: str
    replaces: int
    suggestion: ReceivedSuggestion

    def after_typing(self, typed: str) -> "Ghost | None":
        """The rest after the user typed `typed`; None if that is other text, or all of it."""
        rest = self.text.removeprefix(typed)
        return Ghost(rest, self.replaces, self.suggestion) if rest and self.text.startswith(typed) else None

    def word(self) -> str:
        """The part that "accept word" takes."""
        match = _WORD.match(self.text)
        assert match is not None
        return match.group()

    def accept(self, text: str, cursor: int) -> tuple[str, int]:
        """The document and the cursor after accepting all of it."""
        return text[:cursor] + self.text + text[cursor + self.replaces :], cursor + len(self.text)


def ghost_of(suggestion: ReceivedSuggestion | None, text: str, cursor: int) -> Ghost | None:
    """The ghost text for a suggestion; None if it cannot be shown at the cursor, or would change nothing."""
    if suggestion is None or not suggestion.start <= cursor <= suggestion.end:
        return None
    typed = text[suggestion.start : cursor]
    if not suggestion.text.startswith(typed):
        return None
    rest, replaced = suggestion.text[len(typed) :], text[cursor : suggestion.end]
    return Ghost(rest, len(replaced), suggestion) if rest and rest != replaced else None
