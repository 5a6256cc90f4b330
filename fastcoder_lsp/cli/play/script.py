"""The scripted session: types a few lines, asks, accepts, and prints each step, by the screen's session and server."""

import asyncio
import difflib
import sys
import time
from collections.abc import Callable, Sequence

from fastcoder_lsp.cli.play.pane import milliseconds, work_of
from fastcoder_lsp.cli.play.playground import EditStep, TourStep
from fastcoder_lsp.cli.play.session import OpenFile, PlaySession
from fastcoder_lsp.cli.terminal import erase_line
from fastcoder_lsp.completion.status import Status
from fastcoder_lsp.core.controls import counted
from fastcoder_lsp.errors import FastcoderError

LINES_ABOVE = 3
MOST_EXPLAINED = 3
READY_S = 300.0
"""A model that is converted for the first time may take a minute; silence for longer than this is a failure."""


class NothingSuggestedError(FastcoderError):
    """The server answered, but never with text."""


async def play_edits(session: PlaySession, steps: Sequence[EditStep]) -> None:
    """Play and print changes that a next edit follows, without a model."""
    for step in steps:
        file = next(file for file in session.files if file.name == step.file)
        session.show(file)
        at = file.text.index(step.old)
        after = file.text[:at] + step.new + file.text[at + len(step.old) :]
        session.edited(after, at + len(step.new))
        session.dismiss_ghost()
        await session.edit_answered()
        print(f"Next edit: {file.name}   {step.what}")
        before = file.text.split("\n")
        if not session.edits:
            print(f"   none\n{_indented(await session.why())}\n")
            continue
        made, cursor = session.made_edit()
        for line in difflib.unified_diff(before, made.split("\n"), lineterm="", n=1):
            if not line.startswith(("---", "+++")):
                print(f"      │ {line}")
        session.edited(made, cursor)
        session.dismiss()
        print("   accepted\n")


async def play_script(session: PlaySession, steps: Sequence[TourStep]) -> None:
    """Play and print `steps`; raises FastcoderError if the server failed, or nothing at all was suggested."""
    await _wait_for_model(session)
    started = time.perf_counter()
    shown = 0
    for number, step in enumerate(steps, 1):
        shown += await _play_step(session, number, step)
    if not shown:
        raise NothingSuggestedError(
            f"no suggestion in {counted(len(steps), 'place')}", "To find out why, run: fastcoder-lsp doctor"
        )
    times = sorted(answer.ms for answer in session.answers)
    print(
        f"Suggestions in {shown} of {counted(len(steps), 'place')}. "
        f"Median time of an answer: {milliseconds(times[len(times) // 2])}. "
        f"Total: {time.perf_counter() - started:.1f} s."
    )


async def _wait_for_model(session: PlaySession) -> None:
    """Ask at the end of the last file until the model is ready, so that no answer of a step waits for it."""
    started = time.perf_counter()
    session.show(session.files[-1])
    session.moved(len(session.current.text))
    while not session.model:
        session.ask(invoked=False)
        await _answered(session, lambda: bool(session.model))
        if not session.loading:
            break
    session.dismiss()
    session.answers.clear()
    model = f"{session.model} on {session.engine}" if session.model else "The server"
    print(f"{model}: ready after {time.perf_counter() - started:.1f} s.\n")


async def _play_step(session: PlaySession, number: int, step: TourStep) -> bool:
    """Type, ask, type into the suggestion, accept; returns whether there was one."""
    file = next(file for file in session.files if file.name == step.file)
    session.show(file)
    cursor = file.text.index(step.after) + len(step.after)
    session.moved(cursor)
    await _replace(session, step.drops, step.typed)
    line = file.text.count("\n", 0, file.cursor) + 1
    print(f"{number}. {file.name}:{line}   typed {step.typed.strip()!r}")
    if session.ghost is None:
        session.ask(invoked=True)  # a request by key has a larger budget on a slow machine
        await _answered(session)
    ghost = _ghost_text(session)
    if not ghost:
        print(f"{_listing(file, '')}   no suggestion, {_cost(session)}\n{_indented(await session.why())}\n")
        return False
    print(f"{_listing(file, ghost)}   {_cost(session)}")
    if len(ghost) > step.letters > 0:
        letters = ghost[: step.letters]
        await _replace(session, 0, letters)
        ghost = _ghost_text(session)
        print(f"   typed on {letters!r}: the rest {'stays' if ghost else 'is gone'}, {_cost(session)}")
    if ghost:
        lines = counted(ghost.count("\n") + 1, "line")
        session.edited(*session.accept())
        session.dismiss()
        print(f"   accepted: {lines}\n")
    return True


def _indented(explanation: str) -> str:
    lines = explanation.split("\n")
    return "\n".join(f"   {line}" for line in lines[:MOST_EXPLAINED])


def _ghost_text(session: PlaySession) -> str:
    return session.ghost.text if session.ghost is not None else ""


async def _replace(session: PlaySession, drops: int, text: str) -> None:
    file = session.current
    session.edited(file.text[: file.cursor] + text + file.text[file.cursor + drops :], file.cursor + len(text))
    await _answered(session)


async def _answered(session: PlaySession, enough: Callable[[], bool] = lambda: False) -> None:
    """Wait for the answer, or until it is `enough`; loading is shown on a terminal."""
    answered = asyncio.create_task(session.answered())
    seen: Status | None = None
    quiet_since = time.perf_counter()
    while not answered.done() and not enough():
        await asyncio.wait([answered], timeout=0.1)
        if session.status != seen:
            seen, quiet_since = session.status, time.perf_counter()
            _show_loading(seen)
        if time.perf_counter() - quiet_since > READY_S:
            raise FastcoderError(f"the server did not answer for {READY_S:.0f} s", "Run: fastcoder-lsp doctor")
    if session.status.state == "error":
        raise FastcoderError(session.status.message or "the server reports an error", session.status.hint)


def _show_loading(status: Status) -> None:
    if sys.stderr.isatty():
        loading = f"{status.message} {status.percent or 0} %" if status.state == "loading" else ""
        erase_line()
        print(loading, end="", file=sys.stderr, flush=True)


def _cost(session: PlaySession) -> str:
    answer = session.last
    assert answer is not None
    work = (work_of(answer) or ["already known"]) if session.model else []
    return " · ".join([milliseconds(answer.ms), *work])


def _listing(file: OpenFile, ghost: str) -> str:
    """The lines above the cursor and the ghost text, which is between marks."""
    marked = f"{file.text[: file.cursor]}«{ghost}»" if ghost else f"{file.text[: file.cursor]}▏"
    lines = f"{marked}{file.text[file.cursor :].partition(chr(10))[0]}".split("\n")
    cursor_line = file.text.count("\n", 0, file.cursor)
    first = max(cursor_line - LINES_ABOVE, 0)
    last = len(lines)
    return "".join(
        f"   {number + 1 if number <= cursor_line else '':>4} │ {line}\n"
        for number, line in zip(range(first, last), lines[first:last], strict=True)
    )
