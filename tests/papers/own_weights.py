"""Drafters with weights of their own, by chance, for the small models of `tests.engine.tiny_models`."""

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from safetensors.numpy import save_file

from fastcoder_lsp.core import NORMED
from fastcoder_lsp.model.drafter_files import WEIGHTS, DrafterRecord

Tensors = dict[str, npt.NDArray[Any]]
E, F, V, Q, KV = 64, 24, 211, 64, 32
"""Width, inner layer, vocabulary, queries and keys of a layer."""
LAYER = {"q": (Q, E), "k": (KV, E), "v": (KV, E), "o": (E, Q), "gate": (F, E), "up": (F, E), "down": (E, F)}
NUMBERS = {"heads": 4, "kv_heads": 2, "head_dim": 16, "theta": 1e4, "eps": 1e-6}
WIDE = {"medusa": "branch=24", "eagle": "top_k=16,depth=3"}
"""So many guesses that some are right by chance."""


def medusa() -> tuple[DrafterRecord, Tensors]:
    sizes = {"blocks.weight": (2, 1, E, E), "blocks.bias": (2, 1, E), "head": (V, E)}
    return _record("medusa", (NORMED,)), _drawn(sizes)


def eagle() -> tuple[DrafterRecord, Tensors]:
    wide = {name: (LAYER[name][0], 2 * E) for name in "qkv"}
    norms = dict.fromkeys(("norm_post", "norm_input", "norm_hidden", "norm_last"), (E,))
    sizes = {**LAYER, **wide, **norms, "fc": (E, 3 * E), "head": (V, E)}
    return _record("eagle", (1, 2, 1), version=3), _drawn(sizes)


MADE = {"medusa": medusa, "eagle": eagle}


def write(folder: Path, method: str) -> str:
    save(folder, *MADE[method]())
    return f"{method}:{WIDE[method]},weights={folder}"


def save(folder: Path, record: DrafterRecord, tensors: Tensors) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    record.write(folder)
    save_file(tensors, folder / WEIGHTS)


def _record(method: str, read: tuple[int, ...], /, **numbers: float) -> DrafterRecord:
    return DrafterRecord(method, "", "", E, read, numbers={**NUMBERS, **numbers})


def _drawn(sizes: dict[str, tuple[int, ...]]) -> Tensors:
    """Weights by chance, and among them the ids that can be said: all."""
    chance = np.random.default_rng(6)
    found = {name: (chance.normal(size=size) * 0.2).astype(np.float32) for name, size in sizes.items()}
    return found | {"ids": np.arange(V)}
