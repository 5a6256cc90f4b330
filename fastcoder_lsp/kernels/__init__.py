"""The decorators that compile functions with numba, and the cache of their machine code on disk."""

from fastcoder_lsp.kernels.cache import KernelCache
from fastcoder_lsp.kernels.decorators import (
    NONE,
    compiling,
    inlined,
    inner,
    inner_with_arrays,
    kernel,
    kernel_with_arrays,
    tagged,
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
    "tagged",
    "trusted_folder",
    "unkept",
]
