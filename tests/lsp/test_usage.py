"""Months of use as counts: what a session counts, where it is kept, and the page."""

import asyncio
import contextlib
import json
import sqlite3
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import date, timedelta
from pathlib import Path

import pytest

from fastcoder_lsp import usage
from fastcoder_lsp.cli.main import main
from fastcoder_lsp.cli.report import page, summed
from fastcoder_lsp.edits.learned import LearnedKinds
from fastcoder_lsp.lsp.usage import KEPT_S, Accepts, UsageCounter, typed_characters
from fastcoder_lsp.usage import FILE, KEPT_DAYS, MOST_LANGUAGES, CountKey, UsageStore, today
from fastcoder_lsp.workspace.document import ContentChange, Position
from tests.lsp.raw_client import initialized

URI = "file:///project/a.py"
TODAY = date(2026, 3, 4)


def key(what: str = "shown", language: str = "python", source: str = "model", day: date = TODAY) -> CountKey:
    return CountKey(day.isoformat(), language, source, what)


def counts(store: UsageStore) -> dict[str, int]:
    """what → number, in all languages and sources."""
    found: dict[str, int] = {}
    for one, number in store.read().items():
        found[one.what] = found.get(one.what, 0) + number
    return found


async def test_a_session_counts_what_is_shown_and_accepted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FASTCODER_USAGE", str(tmp_path))
    async with initialized() as client:
        client.open(URI, "x = ")
        (suggestion,) = await client.inline(URI, 0, 4, triggerKind=1)
        text = suggestion["insertText"]
        at = {"line": 0, "character": 4}
        client.change(URI, 2, [{"range": {"start": at, "end": at}, "text": text}])
        await client.call("workspace/executeCommand", suggestion["command"])
        await client.leave()
    found = counts(UsageStore(tmp_path))
    assert (found["shown"], found["accepted"], found["characters"]) == (1, 1, len(text))
    assert sum(number for what, number in found.items() if what.startswith("wait")) == 1
    content = (tmp_path / FILE).read_bytes()
    assert text.encode() not in content
    assert b"project" not in content
    assert (tmp_path / FILE).stat().st_mode & 0o77 == 0


async def test_typed_keys_and_their_cpu_time_are_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FASTCODER_USAGE", str(tmp_path))
    async with initialized() as client:
        client.open(URI, "x = ")
        assert await client.inline(URI, 0, 4)
        for number, key in enumerate("sug"):  # along what is shown
            at = {"line": 0, "character": 4 + number}
            client.change(URI, 2 + number, [{"range": {"start": at, "end": at}, "text": key}])
            assert await client.inline(URI, 0, 5 + number)
        await client.leave()
    found = counts(UsageStore(tmp_path))
    assert (found["shown"], found["typed"]) == (1, 3)
    assert "changed" not in found
    assert found["cpu"] > 0


async def test_nothing_is_counted_where_the_settings_say_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FASTCODER_USAGE", str(tmp_path))
    async with initialized(initializationOptions={"usage": {"enabled": False}}) as client:
        client.open(URI, "x = ")
        assert await client.inline(URI, 0, 4, triggerKind=1)
        await client.leave()
    assert not UsageStore(tmp_path).read()


class Loop:
    """Runs timers when the test says so."""

    def __init__(self) -> None:
        self.timers: list[tuple[float, Callable[[], None]]] = []

    def call_later(self, after_s: float, call: Callable[[], None]) -> "Loop":
        self.timers.append((after_s, call))
        return self

    def call_soon_threadsafe(self, call: Callable[[], None], *arguments: object) -> None:
        call(*arguments)

    def cancel(self) -> None:
        """The timers are run by the test."""


@pytest.mark.parametrize(
    ("later", "expected"),
    [
        ("# new\nvalues = sum(rows)\n", {"judged": 1, "kept": 1}),
        ("values = max(rows)\n", {"judged": 1}),
        (None, {}),  # it was closed
    ],
)
def test_a_text_is_kept_if_it_still_stands_there_after_a_minute(
    later: str | None, expected: dict[str, int], tmp_path: Path
) -> None:
    loop, texts = Loop(), {URI: "values = sum(rows)\n"}
    counter = UsageCounter(loop, UsageStore(tmp_path), lambda: True, texts.get)  # type: ignore[arg-type]
    counter.accepted(URI, "python", "model", 9, "sum(rows)")
    texts.pop(URI)
    if later is not None:
        texts[URI] = later
    [call for after_s, call in loop.timers if after_s == KEPT_S][-1]()
    counter.close()
    found = counts(UsageStore(tmp_path))
    assert found == {"accepted": 1} | expected


@pytest.mark.parametrize(
    ("later", "expected"),
    [
        ("import a\nsize = b + c\nsum()\n", {"word right": 1, "line right": 1, "lines": 2, "lines right": 1}),
        ("import a\nsize = b\n", {"word right": 1, "lines": 2}),
        ("import a\nsize = d\n", {"lines": 2}),
        ("import a\nsize = \nlast\n", None),  # nothing was written there
        ("import a\n", None),
    ],
)
def test_what_was_shown_is_compared_with_what_stands_there_after_a_minute(
    later: str, expected: dict[str, int] | None, tmp_path: Path
) -> None:
    loop, texts = Loop(), {URI: "import a\nsize = \nlast\n"}
    counter = UsageCounter(loop, UsageStore(tmp_path), lambda: True, texts.get)  # type: ignore[arg-type]
    counter.compare_later(URI, "python", "model", len("import a\nsize = "), "b + c\nd()")
    texts[URI] = later
    [call for after_s, call in loop.timers if after_s == KEPT_S][-1]()
    counter.close()
    assert counts(UsageStore(tmp_path)) == ({} if expected is None else {"compared": 1} | expected)


@pytest.mark.parametrize(
    ("document", "start", "text", "changed"),
    [
        ("x = su", 6, "m(rows)", False),  # the rest of it
        ("x = su", 6, "m(rows) + 1", False),
        ("x = su", 6, "m", True),
        ("x = su", 6, "per()", True),
        ("x = sa", 6, "ve()", False),  # the user typed something else
        ("x = ", 4, "max(rows)", True),
    ],
)
def test_a_text_changes_under_the_eyes(document: str, start: int, text: str, changed: bool) -> None:
    accepts = Accepts()
    accepts.shown(URI, "x = ", 4, "sum(rows)")
    assert not accepts.has_changed(URI)
    accepts.shown(URI, document, start, text)
    assert accepts.has_changed(URI) is changed


def test_keys_are_told_from_pasted_text() -> None:
    at = Position(0, 0)
    texts = ("a", "()", "\n    ", "", "ab", "\nx", "    ")
    assert typed_characters([ContentChange(text, at, at) for text in texts]) == 3
    assert typed_characters([ContentChange("a")]) == 0


def test_costs_are_of_the_days_on_which_keys_were_counted() -> None:
    before, keys = TODAY - timedelta(days=1), "keys"
    usage = summed(
        {
            key(day=before): 1000,
            key("characters", day=before): 9000,
            key(): 20,
            key("characters"): 50,
            key("changed"): 2,
            key("compared"): 10,
            key("word right"): 8,
            key("line right"): 5,
            key("lines"): 40,
            key("lines right"): 10,
            key("typed", source=keys): 200,
            key("cpu", language="other", source=keys): 5000,
        }
    )
    told = usage.to_json()
    assert told["shown_right"] == {"first_word_right": 0.8, "first_line_right": 0.5, "lines_right": 0.25}
    assert told["typing"] == {
        "shown_per_typed": 0.1,
        "changed_per_typed": 0.01,
        "cpu_ms_per_typed": 25.0,
        "cpu_ms_per_saved": 100.0,
    }
    assert list(usage.languages) == ["python"]
    drawn = page(usage)
    for said in ("80 %", "10.0 a hundred typed characters", "25.0 ms a typed character", "100.0 ms a character not"):
        assert said in drawn


def test_a_full_disk_loses_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store, failing = UsageStore(tmp_path), True
    add = store.add

    def failing_add(*arguments: object) -> None:
        if failing:
            raise OSError(28, "No space left on device")
        add(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(store, "add", failing_add)
    loop = Loop()
    counter = UsageCounter(loop, store, lambda: True, {}.get)  # type: ignore[arg-type]
    counter.shown("python", "model", 30.0)
    loop.timers.pop()[1]()
    counter._writer.submit(lambda: None).result()
    failing = False
    counter.shown("python", "model", 30.0)
    counter.close()
    assert counts(store) == {"shown": 2, "wait 50": 2}


def test_the_store_is_bounded_and_takes_no_odd_names(tmp_path: Path) -> None:
    store = UsageStore(tmp_path)
    languages = [f"language{number}" for number in range(MOST_LANGUAGES + 20)]
    store.add({key(language=language): 1 for language in [*languages, "/home/me/secret", "x" * 99]})
    kept = {one.language for one in store.read()}
    assert len(kept) <= MOST_LANGUAGES + 2
    assert not any("/" in name or len(name) > 40 for name in kept)
    later = [TODAY + timedelta(days=number + 1) for number in range(KEPT_DAYS)]
    store.add({key(day=day): 1 for day in later})
    assert {one.day for one in store.read()} == {day.isoformat() for day in later}


@pytest.mark.parametrize("wrong", [date(2031, 1, 1), date(9999, 12, 31), date(1970, 1, 1)])
def test_a_wrong_clock_costs_no_counts_and_no_weeks(wrong: date, tmp_path: Path) -> None:
    store, days = UsageStore(tmp_path), [TODAY - timedelta(days=day) for day in range(300)]
    store.add({key(day=day): 1 for day in days})
    store.add({key(day=wrong): 1})
    usage = summed(store.read())
    assert usage.all.shown == len(days) + 1
    assert sum(one.shown for monday, one in usage.weeks.items() if monday.year in (2025, 2026)) == len(days)


def test_the_first_counts_of_many_servers_add_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(usage, "_WAIT_S", 60.0)
    stores, together = [UsageStore(tmp_path) for _ in range(8)], threading.Barrier(8)

    def add(store: UsageStore) -> None:
        together.wait()
        store.add({key(): 1})

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(add, stores))
    assert counts(stores[0]) == {"shown": 8}


def test_a_server_that_saw_no_database_keeps_what_came(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    UsageStore(tmp_path).add({key(): 1})
    with monkeypatch.context() as late:
        late.setattr(Path, "exists", lambda _: False)
        UsageStore(tmp_path).add({key(): 1})
    assert counts(UsageStore(tmp_path)) == {"shown": 2}


def test_deleting_leaves_a_server_that_writes_its_database(tmp_path: Path) -> None:
    store = UsageStore(tmp_path)
    store.add({key(language="secret"): 1})
    with contextlib.closing(sqlite3.connect(tmp_path / FILE)) as other:
        assert store.delete()
        other.execute("CREATE TABLE counts (day, language, source, what, number)")
        other.execute("INSERT INTO counts VALUES ('2026-03-04', 'go', 'model', 'shown', 1)")
        other.commit()
    assert counts(store) == {"shown": 1}
    assert b"secret" not in (tmp_path / FILE).read_bytes()


def test_a_hundred_thousand_suggestions_stay_small(tmp_path: Path) -> None:
    store, whats = UsageStore(tmp_path), ("shown", "accepted", "characters", "judged", "kept", "wait 50", "wait 400")
    year = {
        key(what, language, source, TODAY - timedelta(days=day)): 300
        for day in range(KEPT_DAYS)
        for language in ("python", "typescript", "rust", "go")
        for source in ("model", "cache", "edit")
        for what in whats
    }
    store.add(year)
    assert sum(number for one, number in store.read().items() if one.what == "shown") > 100_000
    assert (tmp_path / FILE).stat().st_size <= 5_000_000
    drawn = page(summed(store.read()))
    assert "<script" not in drawn
    assert "http" not in drawn
    for word in ("worth it", "getting better", "slow", "typescript", "accepted"):
        assert word in drawn


def test_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("FASTCODER_USAGE", str(tmp_path))
    assert main(["report"]) == 0
    assert "Nothing was counted yet" in capsys.readouterr().out
    store = UsageStore(tmp_path)
    numbers = {"shown": 10, "accepted": 4, "characters": 120, "judged": 4, "kept": 3, "wait 100": 9, "wait more": 1}
    store.add({key(what, day=today()): number for what, number in numbers.items()})
    assert main(["report"]) == 0
    out = capsys.readouterr().out
    assert "10 shown, 4 accepted (40 %), 75 % of them kept" in out
    assert "≤ 100" in Path(out.strip().split("\n")[-1]).read_text(encoding="utf-8")
    assert main(["report", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["languages"]["python"]["accepted"] == 4
    assert main(["report", "--out", str(tmp_path / "none" / "page.html")]) == 6
    assert "--out" in capsys.readouterr().err
    with contextlib.closing(sqlite3.connect(tmp_path / FILE, isolation_level=None)) as other:
        other.execute("INSERT INTO counts VALUES (x'00', 'python', 'model', 'shown', 'many')")
        assert main(["report"]) == 0, "damaged rows are left out"
        monkeypatch.setattr(usage, "_WAIT_S", 0.0)
        other.execute("BEGIN EXCLUSIVE")
        assert main(["report"]) == 6
        assert "again" in capsys.readouterr().err
    (tmp_path / FILE).write_bytes(b"no database at all, and long enough" * 100)
    assert main(["report"]) == 6
    assert "report --delete" in capsys.readouterr().err
    assert main(["report", "--delete"]) == 0
    assert not list((tmp_path).iterdir())


async def test_made_and_rejected_edits_are_counted_by_kind_and_learned_at_the_next_start(tmp_path: Path) -> None:
    loop, store = asyncio.get_running_loop(), UsageStore(tmp_path)
    counter = UsageCounter(loop, store, lambda: True, {}.get)  # type: ignore[arg-type]
    for made in (True, *[False] * 8):
        counter.edit_settled("python", "elsewhere", made=made)
    counter.close()
    assert {key.what: number for key, number in store.read().items()} == {"elsewhere made": 1, "elsewhere rejected": 8}
    learned, later = LearnedKinds(), UsageCounter(loop, store, lambda: True, {}.get)  # type: ignore[arg-type]
    later.learn(learned)
    later.close()
    await asyncio.sleep(0)
    assert learned.is_unwanted("elsewhere", "python")
    assert not learned.is_unwanted("rename", "python")
    assert not learned.is_silent("elsewhere")
