"""The data that benchmarks read: tasks, lines to infill, recorded histories.

The environment variable FASTCODER_DATA names its folder; `scripts/fetch_data.py` fetches the public sources.
"""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TypeVar

from fastcoder_lsp.errors import UsageError

Item = TypeVar("Item")


def data_folder() -> Path | None:
    """The folder of benchmark cases: FASTCODER_DATA, else `../shared/data` beside a checkout; None where absent."""
    named = os.environ.get("FASTCODER_DATA")
    folder = Path(named).expanduser() if named else Path(__file__).parents[3] / "shared" / "data"
    return folder if folder.is_dir() else None


def require(name: str) -> Path:
    """The folder `name` of the benchmark data.

    Raises:
        UsageError: it is not on this machine.
    """
    folder = data_folder()
    if folder is None or not (folder / name).exists():
        raise UsageError(
            f"the benchmark data '{name}' is not on this machine",
            "Run scripts/fetch_data.py, or name the folder that holds it: FASTCODER_DATA=FOLDER",
        )
    return folder / name


def spread(items: Sequence[Item], limit: int | None) -> tuple[Item, ...]:
    """`limit` items evenly spread over all, in their order; all of them without a limit."""
    if limit is None or limit >= len(items):
        return tuple(items)
    return tuple(items[number * len(items) // limit] for number in range(limit))
