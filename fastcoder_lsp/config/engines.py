"""The names of the engines, for the setting `engine`, the engines themselves and the benchmarks."""

from typing import Final, Literal, get_args

EngineKind = Literal[
    "auto",
    "cpu-int8",
    "cpu-int4",
    "cpu-fp32",
    "cpu-bf16",
    "cpu-graphs",
    "cuda-bf16",
    "cuda-graphs",
    "cuda-int8",
    "cuda-int4",
    "mps-bf16",
]
"""`cpu-int8` and `cpu-int4` are our CPU kernels with weights of that precision. `cuda-graphs` (bf16), `cuda-int8` and
`cuda-int4` are the graph engine; `cuda-bf16` launches its operations one by one. `cpu-graphs` runs the graph engine's
programs in fp32 on the CPU, uncaptured, for comparison."""
ENGINES: Final[tuple[EngineKind, ...]] = get_args(EngineKind)
