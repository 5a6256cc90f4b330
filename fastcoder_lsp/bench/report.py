"""What every benchmark's report holds beside its figures: the machine, the versions, the settings.

Owns the form of reports (JSON files, short tables); measures nothing.
"""

import json
import os
import platform
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import psutil
from rich.console import Console
from rich.table import Table

from fastcoder_lsp.config.processor import processor

PACKAGES = ("fastcoder-lsp", "torch", "transformers", "numpy", "numba", "tokenizers", "pydivsufsort", "pygls")


def machine() -> dict[str, Any]:
    """The machine that measures: processor, cores, memory, operating system."""
    return {
        "processor": processor(),
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
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
    Console(width=None if Console().is_terminal else 110).print(table)


def versions(packages: Iterable[str]) -> dict[str, str]:
    """Package → version, or "absent"."""
    found = {}
    for package in packages:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            found[package] = "absent"
    return found
