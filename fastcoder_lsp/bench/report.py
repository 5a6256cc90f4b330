"""The frame of every benchmark's report: the machine, the versions, the settings; and progress on stderr."""

import json
import platform
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import psutil
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from fastcoder_lsp.config.environment import processor, usable_cores
from fastcoder_lsp.core.controls import raw_stream

PACKAGES = ("fastcoder-lsp", "torch", "transformers", "numpy", "numba", "tokenizers", "pydivsufsort", "pygls")


def machine() -> dict[str, Any]:
    """The machine that measures: processor, cores, memory, operating system."""
    return {
        "processor": processor(),
        "cores": usable_cores(),
        "memory_bytes": psutil.virtual_memory().total,
        "system": platform.platform(),
        "python": platform.python_version(),
    }


def write_json(path: Path, benchmark: str, settings: Mapping[str, Any], results: Mapping[str, Any]) -> None:
    """Write a full report: `results` at the top level, beside where and how they were measured."""
    path.write_text(json.dumps(head(benchmark, settings) | dict(results), indent=1) + "\n", encoding="utf-8")


def head(benchmark: str, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Where, when and with what settings something is measured."""
    return {
        "benchmark": benchmark,
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": machine(),
        "versions": versions(PACKAGES),
        "settings": dict(settings),
    }


def print_table(title: str, columns: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """A short table on stdout; the first column is text, the others are numbers."""
    table = Table(title=title, title_justify="left")
    for place, column in enumerate(columns):
        table.add_column(column, justify="right" if place else "left")
    for row in rows:
        table.add_row(*(f"{cell:.2f}" if isinstance(cell, float) else str(cell) for cell in row))
    # Styles are escape codes, which the stream of a command shows instead of obeying (`core.controls`).
    Console(width=None if Console().is_terminal else 110, color_system=None).print(table)


@contextmanager
def shown(what: str, total: int) -> Iterator[Callable[[int], None]]:
    """Progress on stderr: the function that it gives is told how much of `total` is done."""
    console = Console(file=raw_stream(sys.stderr))
    if not console.is_terminal:
        yield _lines(console, what, total)
        return
    columns = (TextColumn("{task.description:32}"), BarColumn(), TextColumn("{task.percentage:3.0f} %"))
    # Drawn at every new percent: a thread that draws would take time from what is measured.
    with Progress(*columns, TimeElapsedColumn(), console=console, auto_refresh=False) as bar:
        task = bar.add_task(what, total=total)
        drawn = 0

        def tell(done: int) -> None:
            nonlocal drawn
            percent = 100 * done // max(1, total)
            bar.update(task, completed=done, refresh=percent > drawn)
            drawn = percent

        yield tell


def tell_share(tell: Callable[[int], None]) -> Callable[[float, str], None]:
    """A `core.Progress` that tells percent."""
    return lambda share, _what: tell(int(100 * share))


def _lines(console: Console, what: str, total: int) -> Callable[[int], None]:
    told = -1

    def tell(done: int) -> None:
        nonlocal told
        tenth = 10 * done // max(1, total)
        if tenth > told:
            told = tenth
            console.print(f"  {10 * tenth:3} %  {what}", highlight=False)

    return tell


def versions(packages: Iterable[str]) -> dict[str, str]:
    """Package → version, or "absent"."""
    found = {}
    for package in packages:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            found[package] = "absent"
    return found
