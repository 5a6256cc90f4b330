"""The library llama.cpp, by the C API that `llama-cpp-python` binds: its log, a model, and one of its contexts.

Its messages go to our log: it would print them. An error that it only logs becomes the error's text.
"""

import ctypes
import logging
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

import llama_cpp.llama_cpp as api
from llama_cpp._ggml import libggml

from fastcoder_lsp.core.controls import counted
from fastcoder_lsp.engine.architecture import BROKEN_HINT
from fastcoder_lsp.engine.loader import too_little_memory
from fastcoder_lsp.errors import ModelInvalidError

logger = logging.getLogger(__name__)
_LEVELS = {3: logging.INFO, 4: logging.WARNING}
"""ggml's levels of warnings and errors; the others are for debugging."""
_NO_MEMORY = ("failed to allocate", "out of memory", "alloc_tensor_range", "bad_alloc", "unable to allocate")
_GPU_KINDS = (1, 2)
"""ggml's kinds of devices with and without memory of their own."""


class LibraryLog:
    """The receiver of the library's messages; keeps the last errors, which explain a failed call."""

    def __init__(self) -> None:
        self.errors: list[str] = []
        self.watcher: Callable[[], object] | None = None  # records crashes, for the model that computed last
        self._callback = api.llama_log_callback(self._take)
        os.environ["GGML_NO_BACKTRACE"] = "1"  # it calls a debugger, which prints to stdout
        api.llama_log_set(self._callback, ctypes.c_void_p(0))
        api.llama_backend_init()

    def _take(self, level: int, text: bytes, _data: Any) -> None:
        line = text.decode(errors="replace").strip()
        if level in _LEVELS and line:
            self.errors = [*self.errors[-9:], line]
            logger.log(_LEVELS[level], "llama.cpp: %s", line)


class LlamaModel:
    """A GGUF's weights, or its vocabulary alone. Contexts over it are made by `backend`.

    `repacks`: whether the CPU may have weights in an order that suits its products of four rows. `watch` has crashes
    recorded as this model's.

    Raises:
        ModelInvalidError: the library cannot load the file.
        ResourceError: memory does not suffice.
    """

    def __init__(
        self,
        path: Path,
        log: LibraryLog,
        *,
        gpu: bool = False,
        repacks: bool = True,
        words_only: bool = False,
        watch: Callable[[], object] | None = None,
        loading: Callable[[float, str], object] = lambda _share, _what: None,
    ) -> None:
        self.log, self._path, self._watch = log, path, watch
        self.pointer: Any = None
        self._settings = settings = api.llama_model_default_params()
        settings.n_gpu_layers = -1 if gpu else 0  # all layers or none
        settings.vocab_only, settings.use_extra_bufts = words_only, repacks
        self._told = api.llama_progress_callback(lambda share, _data: loading(share, "reading weights") is not False)
        settings.progress_callback = self._told
        self.order(repacks=repacks)

    def order(self, *, repacks: bool) -> None:
        """Load the weights, unless they are in this order already; no context may be open."""
        if self.pointer and bool(self._settings.use_extra_bufts) is repacks:
            return
        self.close()
        self.take_turn()
        self._settings.use_extra_bufts = repacks
        with self.explained(f"llama.cpp cannot load {self._path}"):
            self.pointer = api.llama_model_load_from_file(str(self._path).encode(), self._settings)
            if not self.pointer:
                raise RuntimeError
        self.vocabulary_pointer = api.llama_model_get_vocab(self.pointer)
        self.vocabulary = int(api.llama_vocab_n_tokens(self.vocabulary_pointer))
        self.rewinds = not (api.llama_model_is_recurrent(self.pointer) or api.llama_model_is_hybrid(self.pointer))

    def take_turn(self) -> None:
        """Have crashes recorded as this model's; several models of a process compute in turns."""
        if self._watch is not None and self.log.watcher is not self._watch:
            self.log.watcher = self._watch
            self._watch()

    @contextmanager
    def explained(self, what: str) -> Iterator[None]:
        """Turn a RuntimeError inside into one of ours, with the library's own last words."""
        self.log.errors.clear()
        try:
            yield
        except RuntimeError as failure:
            said = "; ".join(self.log.errors)
            if any(each in said.lower() for each in _NO_MEMORY):
                raise too_little_memory() from failure
            raise ModelInvalidError(f"{what}: {said[:300] or 'it gives no reason'}", BROKEN_HINT) from failure

    def close(self) -> None:
        """Free the weights."""
        if self.pointer:
            api.llama_model_free(self.pointer)
            self.pointer = None


@cache
def library_log() -> LibraryLog:
    """The only receiver of this process: the library keeps one."""
    return LibraryLog()


def library_version() -> str:
    """The version of the package, which fixes the library's."""
    return version("llama-cpp-python")


def can_use_gpu() -> bool:
    """Whether the installed build was made for a GPU and finds one."""
    return bool(api.llama_supports_gpu_offload()) and int(api.llama_max_devices()) > 0


def gpu_name() -> str:
    """The GPU and the library's version; empty where the installed build can use none."""
    if not can_use_gpu():
        return ""
    libggml.ggml_backend_dev_by_type.restype = ctypes.c_void_p
    libggml.ggml_backend_dev_description.restype = ctypes.c_char_p
    found = (libggml.ggml_backend_dev_by_type(kind) for kind in _GPU_KINDS)
    names = [libggml.ggml_backend_dev_description(ctypes.c_void_p(device)) for device in found if device]
    return " ".join([library_version(), *(name.decode(errors="replace") for name in names)])


def device_name(*, gpu: bool, threads: int, strict: bool) -> str:
    """The device for the user's eyes; the costs of steps are recorded by it."""
    facts = ["llama.cpp", *([] if gpu else [counted(threads, "thread")]), *([] if strict else ["not strict"])]
    return f"{'gpu' if gpu else 'cpu'} ({', '.join(facts)})"
