"""`fastcoder-lsp serve` that stops itself in the middle of a step of its model, as a signal from outside would.

Its first argument is a file: when that is there, the next step takes it away and stops the process. Others go to the
server.
"""

import os
import signal
import sys
from pathlib import Path
from typing import Any

from fastcoder_lsp.cli.main import main
from fastcoder_lsp.engine.tree_engine import TreeEngine


def stop_in_a_step(wanted: Path) -> None:
    """From now on a step looks whether it is to stop."""
    step = TreeEngine.step

    def stopping(engine: TreeEngine, *arguments: Any, **options: Any) -> Any:
        if wanted.exists():
            wanted.unlink()
            os.kill(os.getpid(), signal.SIGSTOP)
        return step(engine, *arguments, **options)

    TreeEngine.step = stopping  # type: ignore[assignment, method-assign]


if __name__ == "__main__":
    stop_in_a_step(Path(sys.argv[1]))
    sys.exit(main(["serve", *sys.argv[2:]]))
