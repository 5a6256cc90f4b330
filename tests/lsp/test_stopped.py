"""The server with its real model, stopped for twenty seconds while it decodes: it is not mute then.

A stopped process (Ctrl-Z, a suspended laptop, a paused machine) sees a step that took as long as the stop.
"""

import asyncio
import contextlib
import os
import signal
import sys
from pathlib import Path

import psutil
import pytest

from tests.lsp.raw_client import Json, RawClient, running

pytestmark = [pytest.mark.ci, pytest.mark.model, pytest.mark.timeout(600)]

URI = "untitled:stopped"
SERVE = (sys.executable, "-m", "tests.lsp.stopping_server")
STOPPED_S, BUDGET_MS = 20.0, 15_000
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

    `at_once`: of each, whether the answer itself had all that was ever known there: text, and none told later.
    """

    def __init__(self, client: RawClient) -> None:
        self._client, self._text, self._version = client, "", 0
        self.at_once: list[bool] = []

    def _ask(self, word: str) -> int:
        self._text = FUNCTION.format(word)
        self._version += 1
        if self._version == 1:
            self._client.open(URI, self._text)
        else:
            self._client.change(URI, self._version, [{"text": self._text}])
        return self._client.ask_inline(URI, self._text.count("\n") - 2, len("    return "))

    async def waits(self, word: str, wait_s: float = 60.0) -> None:
        asked = self._ask(word)
        await self._client.until(lambda: asked in self._client.answers, wait_s)
        with contextlib.suppress(TimeoutError):
            if not self._items(asked):
                await self._client.until(lambda: self._version in self._late(), wait_s)
        await self._client.until(lambda: self._client.statuses()[-1] == "ready", wait_s)
        self.at_once.append(bool(self._items(asked)) and self._version not in self._late())

    def _items(self, asked: int) -> list[Json]:
        items: list[Json] = self._client.answers[asked][0]["result"]["items"]
        return items

    def _late(self) -> list[int]:
        told = [message["params"] for message in self._client.told if message["method"] == "fastcoder/late"]
        return [late["textDocument"]["version"] for late in told]

    async def stopped_while_asking(self, word: str, in_a_step: Path) -> None:
        """Ask; the server stops in the first step that it makes for the answer, and is let go on later."""
        in_a_step.touch()  # noqa: ASYNC240 an empty file
        asked = self._ask(word)
        process = psutil.Process(self._client.process.pid)
        async with asyncio.timeout(LOAD_S):
            while process.status() != psutil.STATUS_STOPPED:  # noqa: ASYNC110 a stopped process tells nobody
                await asyncio.sleep(0.01)
        try:
            assert asked not in self._client.answers
            await asyncio.sleep(STOPPED_S)
        finally:
            process.send_signal(signal.SIGCONT)
        await self._client.until(lambda: asked in self._client.answers)


@pytest.mark.skipif(os.name == "nt", reason="no process is stopped by a signal there")
async def test_after_a_stop_in_a_decode_there_is_text_as_before(tmp_path: Path) -> None:
    """Answers are whole before the stop; and so they are at each place from the third on after it.

    The budget holds any answer on a busy machine, and no step that takes as long as the stop. Who believed that the
    next ones will, would begin none that need not be, and the rest would come late.
    """
    async with running(str(tmp_path / "stop"), command=SERVE) as client:
        budget = dict.fromkeys(("automatic_ms", "invoked_ms"), BUDGET_MS)
        options: Json = {
            "client": {"showsLate": True},
            "index": {"enabled": False},
            "budget": budget,
            "host": {"enabled": False},  # the process that is stopped is the one that decodes
        }
        await client.initialize(initializationOptions=options)
        typist = Typist(client)
        for word in WORDS[:3]:
            await typist.waits(word, LOAD_S)
        await typist.stopped_while_asking(WORDS[3], tmp_path / "stop")
        for word in WORDS[4:]:
            await typist.waits(word)
        before, after = typist.at_once[1:3], typist.at_once[3:]  # at the first the model was not there yet
        assert before == [True] * 2
        assert after[2:] == [True] * len(after[2:])
        assert await client.leave() == 0
