"""Kernels that may fail where they are first run, and others that take over for good when they do.

Triton compiles at a kernel's first launch, with a C compiler and Python's headers that may be absent, for a GPU that
may have too little of something. None of its exceptions is an error of torch, and any of them would end the engine.
"""

import logging
from collections.abc import Callable
from typing import TypeVar

import torch

from fastcoder_lsp.engine.static.attention import TreeView
from fastcoder_lsp.engine.static.cache import StaticCache
from fastcoder_lsp.engine.static.kernels import Kernels, conclude
from fastcoder_lsp.engine.static.step_io import Inputs, Outputs
from fastcoder_lsp.engine.static.weights import Norm

logger = logging.getLogger(__name__)
NOTE = "our kernels failed on this GPU; torch's slower ones run instead (see the log)"
Found = TypeVar("Found")


class GuardedKernels:
    """`Kernels` by `first`, and each operation that fails by `second` from then on.

    A kernel that is not launched has written nothing, so that the other one can do its work.

    Args:
        tell: told once, what the user should know; without it what fails is raised.
        without: operations of `ways.OPERATIONS` that are `second`'s from the beginning.
    """

    def __init__(
        self,
        first: Kernels,
        second: Kernels,
        tell: Callable[[str], None] | None = None,
        without: frozenset[str] = frozenset(),
    ) -> None:
        self._first, self._second, self._tell = first, second, tell
        self._without = set(without)
        self._told = False

    def add_norm(self, x_TE: torch.Tensor, change_TE: torch.Tensor, norm: Norm) -> torch.Tensor:
        """Add `change_TE` to `x_TE`, in place, and return the norm of the sum."""
        return self._run("norm", lambda kernels: kernels.add_norm(x_TE, change_TE, norm))

    def norm(self, x_TE: torch.Tensor, norm: Norm) -> torch.Tensor:
        """The norm of the rows."""
        return self._run("norm", lambda kernels: kernels.norm(x_TE, norm))

    def attend(self, layer: int, qkv: torch.Tensor, cache: StaticCache, view: TreeView) -> torch.Tensor:
        """Rotate queries and keys, store keys and values, and mix the values that each row sees: [T, H·D]."""
        return self._run("attend", lambda kernels: kernels.attend(layer, qkv, cache, view))

    def activate(self, inner: torch.Tensor) -> torch.Tensor:
        """The inner layer's activation, [T, I]: gated or not, as the model is."""
        return self._run("activate", lambda kernels: kernels.activate(inner))

    def say(self, logits_TV: torch.Tensor, said_T: torch.Tensor) -> None:
        """Write the best id of every row, the first of equals."""
        self._run("best", lambda kernels: kernels.say(logits_TV, said_T))

    def best(self, logits_TV: torch.Tensor, ids_TK: torch.Tensor, values_TK: torch.Tensor) -> None:
        """Write the K best ids and logits of every row, best first, equal ones by id."""
        self._run("best", lambda kernels: kernels.best(logits_TV, ids_TK, values_TK))

    def follow(self, outputs: Outputs, inputs: Inputs, cache: StaticCache) -> None:
        """Walk down the tree and move what is accepted, or leave it to the host."""
        self._run("follow", lambda kernels: kernels.follow(outputs, inputs, cache))

    def conclude(
        self, logits_TV: torch.Tensor, outputs: Outputs, inputs: Inputs, cache: StaticCache, *, best: bool
    ) -> None:
        """What every row says and `follow`, at once where both are the first one's; else each by itself."""
        if self._without.isdisjoint(("best", "follow")):
            self._run("follow", lambda kernels: kernels.conclude(logits_TV, outputs, inputs, cache, best=best))
        else:
            conclude(self, logits_TV, outputs, inputs, cache, best=best)

    def _run(self, operation: str, work: Callable[[Kernels], Found]) -> Found:
        if operation not in self._without:
            try:
                return work(self._first)
            except torch.OutOfMemoryError:
                raise
            except Exception as why:  # see the module's docstring
                if self._tell is None or "captur" in str(why):  # the latter: another's failure, told by who came next
                    raise
                logger.warning(
                    "%s: our kernels failed and are used no more: %s: %s", operation, type(why).__name__, why
                )
                self._without.add(operation)
                if not self._told:
                    self._tell(NOTE)
                    self._told = True
        return work(self._second)
