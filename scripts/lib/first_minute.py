"""A person who types into a new file by the real server, on a machine that has only just got it; prints what is shown.

Exits with 1 where a pause brought no text, with the server's own word on why. What a person waits has no limit here but
those that stand for "never".
"""

import asyncio
import sys
import tempfile
from pathlib import Path

from fastcoder_lsp.client.client import LanguageClient, Params, ServerGoneError
from fastcoder_lsp.completion.status import Status

SERVER = [sys.executable, "-P", "-m", "fastcoder_lsp.cli.main", "serve"]
NEVER_S = 60.0
"""For text, once the model is there."""
NEVER_READY_S = 300.0
KEY_S = 0.2
TYPED = (
    "import json\nfrom pathlib import Path\n\n\ndef read_settings(path: Path) -> dict:\n    with path.",
    "open() as file:\n        return json.",
    "load(file)\n\n\ndef write_settings(path: Path, settings: dict) -> None:\n    with path.open(",
    "'w') as file:\n        json.dump(",
)
"""What is typed, with a pause after each part; a person who then sees something reads it, and types on."""


class Typist:
    """One document, typed from its first letter."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._path = folder, folder / "settings.py"
        self._uri, self._text, self._version = self._path.as_uri(), "", 1
        self._late, self._ready = asyncio.Event(), asyncio.Event()
        self._client = LanguageClient(self._status, print, self._gone, on_told=self._told, name="first minute")

    async def type_all(self) -> int:
        """Type; how many pauses brought nothing."""
        await self._client.start(SERVER, self._folder, {})
        self._client.open(self._uri, "python", self._version, self._text)
        silent = 0
        try:
            for part in TYPED:
                for letter in part:
                    await self._key(letter)
                silent += not await self._pause()
        finally:
            await self._client.stop()
        return silent

    async def _key(self, letter: str) -> None:
        before, self._text = self._text, self._text + letter
        self._version += 1
        self._client.change(self._uri, self._version, before, self._text)
        asking = asyncio.create_task(self._ask())
        await asyncio.wait([asking], timeout=KEY_S)
        asking.cancel()

    async def _ask(self) -> str:
        suggestion = await self._client.suggest(self._uri, self._text, len(self._text), invoked=False)
        return suggestion.text if suggestion is not None else ""

    async def _pause(self) -> bool:
        """Look at the screen, as an editor would draw it: at the answer, and at what is told to be there later."""
        self._late.clear()
        line = self._text.rpartition("\n")[2]
        asking = asyncio.create_task(self._ask())  # as an editor does, which does not know of loading
        try:
            async with asyncio.timeout(NEVER_READY_S):
                await self._ready.wait()
            async with asyncio.timeout(NEVER_S):
                text = await asking
                while not text:
                    await self._late.wait()
                    self._late.clear()
                    text = await self._ask()
        except TimeoutError:
            why = await self._client.why(self._uri)
            print(f"  {line}▏   nothing was shown\n{why}")
            return False
        print(f"  {line}«{text}»")
        return True

    def _told(self, method: str, params: Params) -> None:
        if method == "fastcoder/late" and params["textDocument"]["version"] == self._version:
            self._late.set()

    def _status(self, status: Status) -> None:
        if status.state in {"ready", "thinking"}:
            self._ready.set()
        elif status.state in {"loading", "error"}:
            print(f"  {status.state} {status.percent or 0} %: {status.message} {status.hint}")

    def _gone(self, gone: ServerGoneError) -> None:
        print(f"  {gone}")


def main() -> int:
    """0 if every pause brought text."""
    with tempfile.TemporaryDirectory() as folder:
        silent = asyncio.run(Typist(Path(folder).resolve()).type_all())
    print(f"{len(TYPED) - silent} of {len(TYPED)} pauses brought text")
    return 1 if silent else 0


if __name__ == "__main__":
    sys.exit(main())
