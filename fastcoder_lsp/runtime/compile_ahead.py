"""Compiles kernels in a second process while this one fetches, converts and reads a model.

A thread would not help, because numba holds the GIL while it compiles. The process fills the folder of machine code and
reports nothing: if it fails, is killed or cannot start, a kernel is compiled at its first use. It runs at our priority,
because we wait for its result; at a lower one, two busy cores would make that wait far longer than compiling here.
"""

import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Self

from fastcoder_lsp.config import kernels_folder
from fastcoder_lsp.config.environment import neutral_folder, python_command
from fastcoder_lsp.core import Progress
from fastcoder_lsp.engine.architecture import Shape, fast_shape, read_config
from fastcoder_lsp.errors import ModelInvalidError
from fastcoder_lsp.kernels.folder import trusted_folder

DEFAULT_HEADS = (7, 64)
"""Of Qwen2.5-Coder-0.5B: query heads to a key/value head, and their size."""
BITS = {"auto": 8, "cpu-int8": 8, "cpu-int4": 4}
"""Of a weight, by the kinds of engine that a pass is compiled for."""
WHAT = "compiling for this processor (first start only)"
LONGEST_S = 180.0
"""The longest wait for the process."""
_KERNELS, _ENGINE_KERNELS = 10, 3
_LOOK_S = 0.25


class CompileAhead:
    """The compiling process: `begin` starts it, and the end of a `with` block ends it."""

    def __init__(self) -> None:
        self.begun = False
        self._process: subprocess.Popen[bytes] | None = None
        self._before = self._expected = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    def begin(self, heads: tuple[int, int] | None = None, bits: int = 8, kind: str = "qwen2") -> None:
        """Start the process, if the system allows that.

        Args:
            heads: the shape to compile a forward pass for, as in `DEFAULT_HEADS`; None: only what all models share.
            bits: of a weight.
            kind: of the model (`Shape.kind`).
        """
        self.begun = True
        self._before, self._expected = _kept(), _KERNELS + (_ENGINE_KERNELS if heads else 0)
        with suppress(OSError):
            self._process = subprocess.Popen(
                python_command(__name__, *map(str, (*heads, bits, kind) if heads else ())),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                cwd=neutral_folder(),
            )

    def wait(self, progress: Progress) -> bool:
        """Wait until the process ends, and end it after `LONGEST_S`; returns whether it succeeded."""
        if self._process is None:
            return False
        until = time.monotonic() + LONGEST_S
        while self._process.poll() is None and time.monotonic() < until:
            progress(min(0.99, max(0, _kept() - self._before) / self._expected), WHAT)
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(_LOOK_S)
        self.end()
        return self._process.returncode == 0

    def end(self) -> None:
        """End the process if it still runs."""
        if self._process is not None and self._process.poll() is None:
            with suppress(OSError):
                self._process.kill()
            self._process.wait()


def _kept() -> int:
    """The number of compiled functions on the disk."""
    folder = trusted_folder(kernels_folder()).folder
    return 0 if folder is None else sum(1 for _ in folder.glob("*/*.kernel"))


def shape_of(folder: Path) -> Shape | None:
    """The shape, to compile for, of the model in `folder`; None if it does not run on our CPU kernels."""
    with suppress(ModelInvalidError):  # loading the model reports it
        return fast_shape(read_config(folder))
    return None


def needed() -> bool:
    """Whether this machine lacks this version's machine code of the drafter."""
    from fastcoder_lsp.draft.auto.tree import grow  # noqa: PLC0415 brings a compiler along

    return not grow.kept()


def main(arguments: Sequence[str]) -> int:
    """Compile everything; runs in the second process."""
    from fastcoder_lsp.draft.registry import make, warm_up  # noqa: PLC0415 they bring a compiler along
    from fastcoder_lsp.index.searcher import warm_up as warm_up_index  # noqa: PLC0415

    if arguments:
        from fastcoder_lsp.engine.int8.backend import compile_ahead  # noqa: PLC0415

        *numbers, kind = arguments
        group, dim, bits = map(int, numbers)
        compile_ahead(group, dim, bits, kernels_folder(), kind)
    warm_up(make("auto"))
    warm_up_index()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
