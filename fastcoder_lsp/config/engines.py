"""The kinds of engine by name: the one list that the setting `engine`, the engines and the benchmarks share."""

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
"""`cpu-int8`, `cpu-int4`: our CPU kernels with weights so precise; `cuda-graphs`, `cuda-int8`, `cuda-int4`: the graph
engine, likewise; `cuda-bf16`: the same in bf16, launched operation by operation; `cpu-graphs`: the same programs in
fp32 on the CPU, uncaptured, to be compared with."""
ENGINES: Final[tuple[EngineKind, ...]] = get_args(EngineKind)
