"""Compiles kernels in a second process while this one fetches, converts and reads a model.

A thread would not help, because numba holds the GIL while it compiles. The process fills the folder of machine code and
reports nothing: if it fails, is killed or cannot start, a kernel is compiled at its first use. It runs at our priority,
because we wait for its result; at a lower one, two busy cores would make that wait far longer than compiling here.

It begins with the forward pass, which the first answer needs most, and ends with the index, which this process compiles
meanwhile. A kernel's lock keeps both from compiling it twice.
"""

import gc
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Self

import psutil

from fastcoder_lsp.config import kernels_folder
from fastcoder_lsp.config.environment import neutral_folder, python_command
from fastcoder_lsp.core import Progress
from fastcoder_lsp.engine.architecture import Shape, fast_shape, read_config
from fastcoder_lsp.errors import ModelInvalidError

DEFAULT_HEADS = (7, 64)
"""Of Qwen2.5-Coder-0.5B: query heads to a key/value head, and their size."""
BITS = {"auto": 8, "cpu-int8": 8, "cpu-int4": 4}
"""Of a weight, by the kinds of engine that a pass is compiled for."""
WHAT = "compiling for this processor (first start only)"
LONGEST_S = 180.0
"""The longest wait for the process."""
PASS, DRAFTS, ASIDE = "pass", "drafts", "aside"
"""The parts: the forward pass, and the drafter with the index; `ASIDE`: at low priority."""
NICENESS = 10
"""Of processes that nobody waits for."""
_KERNELS = {PASS: 3, DRAFTS: 12}
_INDEX_FUNCTIONS = 40
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

    def begin(
        self,
        heads: tuple[int, int] | None = None,
        bits: int = 8,
        kind: str = "qwen2",
        *,
        drafts: bool = True,
        aside: bool = False,
    ) -> None:
        """Start the process, if the system allows that.

        Args:
            heads: the shape to compile a forward pass for, as in `DEFAULT_HEADS`; None: only what all models share.
            bits: of a weight.
            kind: of the model (`Shape.kind`).
            drafts: whether to compile the drafter and the index, too.
            aside: whether to do it at low priority, because nobody waits for the result.
        """
        self.begun = True
        parts = [part for part, wanted in ((PASS, heads is not None), (DRAFTS, drafts)) if wanted]
        self._expected = sum(_KERNELS[part] for part in parts)
        if parts:
            self._process = _start([*parts, *([ASIDE] if aside else [])], *(*heads, bits, kind) if heads else ())
        self._before = _kept()

    def help(self, progress: Progress) -> None:
        """Compile the index here while the process compiles the pass."""
        from fastcoder_lsp.index.searcher import warm_up as warm_up_index  # noqa: PLC0415 brings a compiler along
        from fastcoder_lsp.kernels import compiling  # noqa: PLC0415

        if self._process is not None and self._process.poll() is None:
            with compiling(lambda _share, what: progress(self._share(), what), WHAT, _INDEX_FUNCTIONS):
                warm_up_index()

    def wait(self, progress: Progress) -> bool:
        """Wait until the process ends, and end it after `LONGEST_S`; returns whether it succeeded."""
        if self._process is None:
            return False
        until = time.monotonic() + LONGEST_S
        while self._process.poll() is None and time.monotonic() < until:
            progress(self._share(), WHAT)
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

    def _share(self) -> float:
        return min(0.99, max(0, _kept() - self._before) / self._expected)


def compile_later() -> None:
    """Compile the drafter and the index in a process that may outlive this one, for the next start."""
    _start([DRAFTS], start_new_session=True)


def _start(parts: Sequence[str], *shape: object, start_new_session: bool = False) -> "subprocess.Popen[bytes] | None":
    """The process; None if the system does not allow it."""
    with suppress(OSError):
        return subprocess.Popen(
            python_command(__name__, ",".join(parts), *map(str, shape)),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd=neutral_folder(),
            start_new_session=start_new_session,
        )
    return None


def _kept() -> int:
    """The number of compiled functions on the disk."""
    from fastcoder_lsp.kernels.folder import trusted_folder  # noqa: PLC0415 brings a compiler along

    folder = trusted_folder(kernels_folder()).folder
    return 0 if folder is None else sum(1 for _ in folder.glob("*/*.kernel"))


def shape_of(folder: Path) -> Shape | None:
    """The shape, to compile for, of the model in `folder`; None if it does not run on our CPU kernels."""
    with suppress(ModelInvalidError):  # loading the model reports it
        return fast_shape(read_config(folder))
    return None


def needed() -> bool:
    """Whether this machine lacks this version's machine code of the drafter."""
    if next(kernels_folder().glob("*/*.kernel"), None) is None:
        return True  # before a compiler is imported
    from fastcoder_lsp.draft.auto.tree import grow  # noqa: PLC0415 brings a compiler along

    return not grow.kept()


def load_drafts() -> None:
    """Load the machine code of the drafter and of the index into this process; what is not on the disk is compiled."""
    from fastcoder_lsp.draft.registry import make, warm_up  # noqa: PLC0415 brings a compiler along
    from fastcoder_lsp.index.searcher import warm_up as warm_up_index  # noqa: PLC0415

    warm_up(make("auto"))
    warm_up_index()


def step_aside() -> None:
    """Give this process a low priority."""
    if sys.platform == "win32":
        psutil.Process().nice(psutil.BELOW_NORMAL_PRIORITY_CLASS)
    else:
        os.nice(NICENESS)


def main(arguments: Sequence[str]) -> int:
    """Compile the parts; runs in the second process."""
    named, *shape = arguments
    parts = named.split(",")
    if ASIDE in parts:
        step_aside()
    if PASS in parts:
        from fastcoder_lsp.engine.int8.backend import compile_ahead  # noqa: PLC0415 brings a compiler along

        *numbers, kind = shape
        group, dim, bits = map(int, numbers)
        compile_ahead(group, dim, bits, kernels_folder(), kind)
    if DRAFTS in parts:
        load_drafts()
    return 0


if __name__ == "__main__":
    gc.disable()  # the process ends soon, and collections take a tenth of its time
    sys.exit(main(sys.argv[1:]))
