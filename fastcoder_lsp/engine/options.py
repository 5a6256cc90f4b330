"""What a caller may choose about an engine. Plain values; decides nothing."""

from dataclasses import dataclass
from typing import Literal, get_args

from fastcoder_lsp.errors import UsageError

Kind = Literal["auto", "cpu-int8", "cpu-fp32", "cpu-bf16", "cuda-bf16", "mps-bf16"]


@dataclass(frozen=True, slots=True)
class EngineOptions:
    """`kind`: device and arithmetic, "auto" takes the fastest that is there; `context`: tokens that the KV cache holds.

    `threads`: CPU threads, None for as many as there are cores.
    """

    kind: Kind = "auto"
    context: int = 4096
    threads: int | None = None

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
