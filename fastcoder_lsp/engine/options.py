"""A caller's choices about an engine."""

from dataclasses import dataclass

from fastcoder_lsp.config.table import ENGINES
from fastcoder_lsp.config.table import EngineKind as Kind
from fastcoder_lsp.errors import UsageError


@dataclass(frozen=True, slots=True)
class EngineOptions:
    """A caller's choices about an engine.

    `kind`: device and arithmetic, "auto" takes the fastest available. `context`: tokens that the KV cache holds. `bits`
    of a weight, for "auto"; None for its own choice. `threads`: None for a number that suits the cores. `kv_mb`: of all
    KV caches together (`load_engines`). Only the graph engine has `gpu_memory_percent`, its share of the GPU's memory,
    and `strict`: one verify width and float64 attention, so that drafts change no token. `llama_strict` does the same
    for llama.cpp.
    """

    kind: Kind = "auto"
    context: int = 4096
    threads: int | None = None
    kv_mb: int = 256
    gpu_memory_percent: int = 90
    strict: bool = False
    llama_strict: bool = True
    bits: int | None = None

    def check(self) -> None:
        """Raises UsageError if a value is out of its range."""
        if self.kind not in ENGINES:
            raise UsageError(f"there is no engine {self.kind!r}", f"Choose one of: {', '.join(ENGINES)}.")
        if self.context < 16:
            raise UsageError(
                f"a context of {self.context} tokens is too small", "Use 16 or more; 2048 or more is better."
            )
        if self.threads is not None and self.threads < 1:
            raise UsageError(f"the number of threads is {self.threads}", "Use 1 or more, or leave it out.")
        if not 1 <= self.gpu_memory_percent <= 100:
            raise UsageError(f"gpu.memory_percent is {self.gpu_memory_percent}", "Use 1 to 100.")
