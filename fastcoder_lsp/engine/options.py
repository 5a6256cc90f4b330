"""What a caller may choose about an engine. Plain values; decides nothing."""

from dataclasses import dataclass
from typing import Literal, get_args

from fastcoder_lsp.errors import UsageError

Kind = Literal[
    "auto",
    "cpu-int8",
    "cpu-fp32",
    "cpu-bf16",
    "cpu-graphs",
    "cuda-bf16",
    "cuda-graphs",
    "cuda-int8",
    "cuda-int4",
    "mps-bf16",
]
"""`cuda-graphs`, `cuda-int8`, `cuda-int4`: the graph engine with weights so precise; `cpu-graphs`: the same programs
in fp32 on the CPU, uncaptured, to be compared with."""


@dataclass(frozen=True, slots=True)
class EngineOptions:
    """`kind`: device and arithmetic, "auto" takes the fastest that is there; `context`: tokens that the KV cache holds.

    `threads`: CPU threads, None for as many as there are cores. Of the graph engine alone: `gpu_memory_percent` of the
    GPU's memory that it may take; `strict`: one verify width and float64 attention, so that drafts change no token.
    """

    kind: Kind = "auto"
    context: int = 4096
    threads: int | None = None
    gpu_memory_percent: int = 90
    strict: bool = False

    def check(self) -> None:
        """Raises UsageError where a value is out of its range."""
        if self.kind not in get_args(Kind):
            raise UsageError(f"there is no engine {self.kind!r}", f"take one of {', '.join(get_args(Kind))}")
        if self.context < 16:
            raise UsageError(
                f"a context of {self.context} tokens is too small", "take at least 16, better 2048 or more"
            )
        if self.threads is not None and self.threads < 1:
            raise UsageError(f"{self.threads} threads cannot compute anything", "take 1 or more, or leave it out")
        if not 1 <= self.gpu_memory_percent <= 100:
            raise UsageError(f"{self.gpu_memory_percent} % of a GPU's memory cannot be had", "take 1 to 100")
