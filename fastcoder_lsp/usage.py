"""Months of use as counts: suggestions shown, accepted and kept, by day, language and source.

Holds no text, no path and no time of day. A database in the cache folder, which all editors of a user add to. It
is bounded by the days that it keeps, and by the names that a day may have. No day is compared with today's: a clock
that was wrong once costs the place of one day.
"""

import contextlib
import os
import re
import sqlite3
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime
from itertools import takewhile
from pathlib import Path
from typing import Final, NamedTuple

from fastcoder_lsp.core.files import private_folder

FILE: Final = "usage.sqlite"
KEPT_DAYS: Final = 400  # days with counts; the oldest ones beyond are deleted
MOST_LANGUAGES: Final = 24  # languages of a day; further ones count as `other`
WAIT_MS: Final = (25, 50, 100, 200, 400, 800, 1600, 3200)
"""Upper bounds of the classes of waiting times; longer ones are in a class of their own."""
OTHER: Final = "other"
_WAIT_S: Final = 0.5  # how long to wait for another editor that writes; at the end of a session the editor waits, too
_LANGUAGE: Final = re.compile(r"[a-z0-9][a-z0-9+#._-]{0,31}")
_FIRST_WORD: Final = re.compile(r"\s*(?:\w+|[^\w\s]+)")
_SOURCE: Final = re.compile(r"[a-z]{1,16}")
_TABLE: Final = """
CREATE TABLE IF NOT EXISTS counts (
    day TEXT NOT NULL, language TEXT NOT NULL, source TEXT NOT NULL, what TEXT NOT NULL, number INTEGER NOT NULL,
    PRIMARY KEY (day, language, source, what)
) WITHOUT ROWID
"""
_ADD: Final = """
INSERT INTO counts VALUES (?, ?, ?, ?, ?)
ON CONFLICT (day, language, source, what) DO UPDATE SET number = number + excluded.number
"""


_FORGET: Final = """
DELETE FROM counts WHERE day NOT IN (SELECT DISTINCT day FROM counts ORDER BY day DESC LIMIT ?)
"""


class CountKey(NamedTuple):
    """A count's name."""

    day: str  # as YYYY-MM-DD
    language: str  # an LSP language id, or `other`
    source: str  # of the suggestion: `model`, `cache` or `edit`; or `keys`
    what: str
    """`shown`, `accepted`, `characters`, `judged` (a minute has passed since it was accepted), `kept` (its text still
    stands there), or a class of waiting times, such as `wait 100`. Of what is shown: `changed` (it replaced a text
    along which the user typed), `compared` (with what stands there a minute later), and then `word right`, `line right`
    (the first ones), `lines`, `lines right`. Of the source `keys`: `typed` characters, and `cpu` in milliseconds."""


def wait_class(ms: float) -> str:
    """The class of a waiting time."""
    return f"wait {next((bound for bound in WAIT_MS if ms <= bound), 'more')}"


@dataclass(frozen=True, slots=True)
class Rightness:
    """What is right of a shown text: its first word; how many of its lines, from the top."""

    first_word: bool
    lines: int
    right: int


def rightness(shown: str, written: str) -> Rightness:
    """What is right of a text where `written` was written instead, or is going to be."""
    first = _FIRST_WORD.match(shown)
    end = first.end() if first is not None else 0
    goes_on = shown[end - 1 : end].isalnum() and written[end : end + 1].isalnum()
    lines = shown.rstrip("\n").split("\n")
    pairs = zip(lines, written.split("\n"), strict=False)
    right = sum(1 for _ in takewhile(lambda pair: pair[0].rstrip() == pair[1].rstrip(), pairs))
    return Rightness(bool(end) and written.startswith(shown[:end]) and not goes_on, len(lines), right)


def language_name(language: str) -> str:
    """The language as it is counted: a client may send any text."""
    return language if _LANGUAGE.fullmatch(language) else OTHER


class UsageStore:
    """The database in `folder`; every call opens it anew, so that it may be deleted at any time.

    Methods raise `OSError` or `sqlite3.Error` where the disk or the file fails.
    """

    def __init__(self, folder: Path) -> None:
        self._path = folder / FILE

    def add(self, counts: Mapping[CountKey, int]) -> None:
        """Add to the counts, and delete the oldest days of too many."""
        private_folder(self._path.parent)
        # Never truncated: another editor may have made it, and counted in it, a moment ago.
        os.close(os.open(self._path, os.O_RDWR | os.O_CREAT, 0o600))
        with self._opened() as database, database:
            database.execute(_TABLE)
            known = _languages(database)
            for key, number in counts.items():
                language = language_name(key.language)
                if _SOURCE.fullmatch(key.source) is None:
                    continue
                of_day = known.setdefault(key.day, set())
                if language not in of_day and len(of_day) >= MOST_LANGUAGES:
                    language = OTHER
                of_day.add(language)
                database.execute(_ADD, (key.day, language, key.source, key.what, number))
            database.execute(_FORGET, (KEPT_DAYS,))

    def read(self) -> dict[CountKey, int]:
        """All counts, by day; empty where nothing was counted yet. Damaged rows are left out."""
        if not self._path.exists():
            return {}
        with self._opened() as database:
            database.execute(_TABLE)
            rows = database.execute("SELECT day, language, source, what, number FROM counts ORDER BY day").fetchall()
        return {
            CountKey(*names): number
            for *names, number in rows
            if isinstance(number, int) and all(isinstance(name, str) for name in names)
        }

    def delete(self) -> bool:
        """Delete all counts; returns whether there were any."""
        if not self._path.exists():
            return False
        try:
            # Not the file: an editor that writes now would leave its journal to the next database of this name.
            with self._opened() as database:
                with database:
                    database.execute("DROP TABLE IF EXISTS counts")
                database.execute("VACUUM")
        except sqlite3.OperationalError:
            raise
        except sqlite3.DatabaseError:  # damaged, so no editor writes to it
            for suffix in ("", "-journal"):
                self._path.with_name(FILE + suffix).unlink(missing_ok=True)
        return True

    @contextlib.contextmanager
    def _opened(self) -> Iterator[sqlite3.Connection]:
        with contextlib.closing(sqlite3.connect(self._path, timeout=_WAIT_S)) as database:
            yield database


def _languages(database: sqlite3.Connection) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for day, language in database.execute("SELECT DISTINCT day, language FROM counts"):
        found.setdefault(day, set()).add(language)
    return found


def today() -> date:
    """The day that is counted for."""
    return datetime.now(UTC).astimezone().date()
