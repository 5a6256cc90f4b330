"""Compiled functions: how numba compiles ours, and where their machine code is kept.

Owns the decorators (`kernel`, `inner` and their like), the files of machine code and the trust in them. Knows nothing
of what the functions compute.
"""

from fastcoder_lsp.kernels.cache import KernelCache
from fastcoder_lsp.kernels.decorators import (
    NONE,
    compiling,
    inlined,
    inner,
    inner_with_arrays,
    kernel,
    kernel_with_arrays,
    unkept,
)
from fastcoder_lsp.kernels.folder import trusted_folder

__all__ = [
    "NONE",
    "KernelCache",
    "compiling",
    "inlined",
    "inner",
    "inner_with_arrays",
    "kernel",
    "kernel_with_arrays",
    "trusted_folder",
    "unkept",
]
