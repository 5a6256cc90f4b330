"""The server as it is installed, with its real model, stopped for twenty seconds while it decodes: it is not mute then.

A stopped process (Ctrl-Z, a suspended laptop, a paused machine) sees a step that took as long as the stop.
"""

import asyncio
import contextlib
import os
import signal
import sys

import pytest

from tests.lsp.raw_client import Json, RawClient, running

pytestmark = [pytest.mark.ci, pytest.mark.model, pytest.mark.timeout(600)]

URI = "untitled:stopped"
SERVE = (sys.executable, "-P", "-m", "fastcoder_lsp.cli.main", "serve")
STOPPED_S = 20.0
LOAD_S = 240.0
WORDS = ("lines", "words", "letters", "numbers", "names", "tests", "paths", "sizes")
FUNCTION = '''\
def count_{0}(path):
    """How many {0} the file at `path` has."""
    with open(path) as file:
        {0} = file.read().split()
    return \n
'''


class Typist:
    """A person who writes one function in place of the other, and waits at each for what it returns.

    `shown`: of each, whether there was text: at once, or told when it was made, however busy this machine is.
    """

    def __init__(self, client: RawClient) -> None:
        self._client, self._text, self._version = client, "", 0
        self.shown: list[bool] = []

    def _ask(self, word: str) -> int:
        self._text = FUNCTION.format(word)
        self._version += 1
        if self._version == 1:
            self._client.open(URI, self._text)
        else:
            self._client.change(URI, self._version, [{"text": self._text}])
        return self._ask_again()

    def _ask_again(self) -> int:
        return self._client.ask_inline(URI, self._text.count("\n") - 2, len("    return "))

    async def waits(self, word: str, wait_s: float = 60.0) -> None:
        """Write the next function, and wait for text."""
        asked = self._ask(word)
        await self._client.until(lambda: asked in self._client.answers, wait_s)
        with contextlib.suppress(TimeoutError):
            if not self._items(asked):
                await self._client.until(lambda: self._version in self._late(), wait_s)
                asked = self._ask_again()
                await self._client.until(lambda: asked in self._client.answers, wait_s)
        self.shown.append(bool(self._items(asked)))

    def _items(self, asked: int) -> list[Json]:
        items: list[Json] = self._client.answers[asked][0]["result"]["items"]
        return items

    def _late(self) -> list[int]:
        told = [message["params"] for message in self._client.told if message["method"] == "fastcoder/late"]
        return [late["textDocument"]["version"] for late in told]

    async def stopped_while_asking(self, word: str) -> None:
        """Ask, and stop the server as soon as it works on the question."""
        pid, thinking = self._client.process.pid, self._client.statuses().count("thinking")
        asked = self._ask(word)
        await self._client.until(lambda: self._client.statuses().count("thinking") > thinking)
        os.kill(pid, signal.SIGSTOP)
        try:
            assert asked not in self._client.answers
            await asyncio.sleep(STOPPED_S)
        finally:
            os.kill(pid, signal.SIGCONT)
        await self._client.until(lambda: asked in self._client.answers)


@pytest.mark.skipif(os.name == "nt", reason="no process is stopped by a signal there")
async def test_after_a_stop_in_a_decode_there_is_text_as_before() -> None:
    """At three places before the stop; and at each place from the third on after it."""
    async with running(command=SERVE) as client:
        options: Json = {"client": {"showsLate": True}, "index": {"enabled": False}}
        await client.initialize(initializationOptions=options)
        typist = Typist(client)
        for word in WORDS[:3]:
            await typist.waits(word, LOAD_S)
        await typist.stopped_while_asking(WORDS[3])
        for word in WORDS[4:]:
            await typist.waits(word)
        before, after = typist.shown[:3], typist.shown[3:]
        assert before == [True] * 3
        assert after[2:] == [True] * len(after[2:])
        assert await client.leave() == 0
