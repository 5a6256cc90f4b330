"""Where the benchmark data lies: one setting, the environment variable FASTCODER_DATA, names the folder.

Owns that name and nothing else; `scripts/fetch_data.py` says how a stranger gets the public sources.
"""

import os
from pathlib import Path

from fastcoder_lsp.errors import UsageError


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
