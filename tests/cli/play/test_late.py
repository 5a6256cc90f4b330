"""`play`'s session with the real server around a scripted model: what is late, and why."""

import asyncio
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from fastcoder_lsp.cli.play import session as play
from fastcoder_lsp.cli.play.session import OpenFile, PlaySession

SERVER = [sys.executable, "-m", "tests.lsp.scripted_server"]
SAYS = "suggested = 1"
WAIT_S = 200.0


@pytest.fixture
async def session(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[PlaySession]:
    """A second's work for a suggestion, a tenth of a second for the answer, and nobody who asks again by the clock."""
    monkeypatch.setattr(play, "PAUSES_S", (WAIT_S,))
    file = OpenFile("a.py", tmp_path / "a.py", "python", "🦀 = 1\n", cursor=6)
    session = PlaySession([file], lambda: None)
    await session.start([*SERVER, "--says", SAYS, "--step-ms", "80", "--budget-ms", "100"], tmp_path, {})
    yield session
    await session.stop()


async def ghost(session: PlaySession) -> str:
    async with asyncio.timeout(WAIT_S / 2):
        while session.ghost is None:  # noqa: ASYNC110 - as a person looks at the screen
            await asyncio.sleep(0.01)
    return session.ghost.text


def type_letter(session: PlaySession, letter: str) -> None:
    file = session.current
    session.edited(file.text[: file.cursor] + letter + file.text[file.cursor :], file.cursor + 1)


async def test_what_was_late_is_shown_when_it_is_made(session: PlaySession) -> None:
    type_letter(session, "\n")
    assert (await ghost(session)).endswith(SAYS)
    await session.answered()
    assert session.last is not None
    assert session.last.shown
    assert session.last.ms > 100
    assert session.last.late
    assert session.last.tokens >= len(SAYS)


async def test_asked_by_key_it_comes_late_as_well(session: PlaySession) -> None:
    session.ask(invoked=True)
    await session.answered()
    assert session.ghost is None
    assert (await ghost(session)).endswith(SAYS)


@pytest.mark.ci
@pytest.mark.parametrize("leave", [lambda session: session.moved(0), PlaySession.dismiss])
async def test_no_late_text_comes_without_a_waiting_request(
    session: PlaySession, leave: Callable[[PlaySession], None]
) -> None:
    session.ask(invoked=True)
    await session.answered()
    leave(session)
    await asyncio.sleep(2)
    assert session.ghost is None


async def test_why_is_told(session: PlaySession) -> None:
    session.ask(invoked=True)
    await session.answered()
    assert "within 100 ms" in await session.why()
    await session.stop()
    assert await session.why()
