"""A drafter's own weights: what its folder must hold is checked before it drafts, and what is wrong is said."""

import json
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from safetensors.numpy import save_file

from fastcoder_lsp.draft.dflash_model import BlockModel
from fastcoder_lsp.draft.eagle_layer import EagleLayer
from fastcoder_lsp.draft.medusa import Heads
from fastcoder_lsp.errors import ModelInvalidError
from fastcoder_lsp.model.drafter_files import RECORD, WEIGHTS, DrafterRecord, open_drafter

Tensors = dict[str, npt.NDArray[np.float32]]
E, F, V = 8, 12, 20
LAYER = {"q": (E, E), "k": (4, E), "v": (4, E), "o": (E, E), "gate": (F, E), "up": (F, E), "down": (E, F)}
NUMBERS = {"heads": 2, "kv_heads": 1, "head_dim": 4, "theta": 1e4, "eps": 1e-6}


def record(method: str, read: tuple[int, ...], /, **numbers: float) -> DrafterRecord:
    return DrafterRecord(method, "", "", E, read, numbers={**NUMBERS, **numbers})


def zeros(**sizes: tuple[int, ...]) -> Tensors:
    return {name: np.zeros(size, np.float32) for name, size in sizes.items()}


def medusa() -> tuple[DrafterRecord, Tensors]:
    sizes = {"blocks.weight": (2, 1, E, E), "blocks.bias": (2, 1, E), "head": (V, E), "ids": (V,)}
    return record("medusa", (-1,)), zeros(**sizes)


def eagle() -> tuple[DrafterRecord, Tensors]:
    wide = {name: (LAYER[name][0], 2 * E) for name in "qkv"}
    norms = dict.fromkeys(("norm_post", "norm_input", "norm_hidden", "norm_last"), (E,))
    return record("eagle", (1, 2, 3), version=3), zeros(**{**LAYER, **wide, **norms, "fc": (E, 3 * E), "head": (V, E)})


def dflash() -> tuple[DrafterRecord, Tensors]:
    layer = {f"0.{name}": size for name, size in {**LAYER, "norm_in": (E,), "norm_post": (E,)}.items()}
    whole = {"fc": (E, 2 * E), "norm_features": (E,), "norm_last": (E,), "mask": (E,), "head": (V, E)}
    return record("dflash", (1, 2), layers=1, block=4), zeros(**layer, **whole)


MADE: dict[str, tuple[Callable[[], tuple[DrafterRecord, Tensors]], Callable[[DrafterRecord, Tensors], object]]] = {
    "medusa": (medusa, lambda record, tensors: Heads(tensors, record.width)),
    "eagle": (eagle, EagleLayer),
    "dflash": (dflash, BlockModel),
}


@pytest.mark.parametrize("method", MADE)
def test_every_tensor_must_be_there_and_of_its_size(method: str) -> None:
    """Where one is not, nothing is drafted by it: it would fail in the middle of the first decode."""
    made, opened = MADE[method]
    whole, tensors = made()
    opened(whole, tensors)
    for name in tensors:
        if name != "ids":
            with pytest.raises(ModelInvalidError, match="lack"):
                opened(whole, {other: tensor for other, tensor in tensors.items() if other != name})
        with pytest.raises(ModelInvalidError, match="would be"):
            opened(whole, tensors | {name: tensors[name][..., None]})
    with pytest.raises(ModelInvalidError, match="would be"):
        opened(replace(whole, width=E + 1), tensors)
    with pytest.raises(ModelInvalidError, match="no tokens"):
        opened(whole, tensors | {"ids": np.full(V, -1)})


@pytest.mark.parametrize("name", ["heads", "head_dim", "theta", "eps"])
def test_a_record_says_all_sizes(name: str) -> None:
    """One that is missing, and a size that is none, are told as damage."""
    for made, opened in (MADE["eagle"], MADE["dflash"]):
        whole, tensors = made()
        with pytest.raises(ModelInvalidError, match=f"say its {name}"):
            opened(replace(whole, numbers={key: whole.numbers[key] for key in whole.numbers if key != name}), tensors)
    with pytest.raises(ModelInvalidError, match=r"says 0\.5"):
        EagleLayer(record("eagle", (1, 2, 3), version=3, heads=0.5), eagle()[1])


@pytest.mark.parametrize(
    "change",
    [
        {"numbers": 3},
        {"numbers": {"heads": "two"}},
        {"numbers": {"heads": float("nan")}},
        {"width": None},
        {"figures": []},
    ],
)
def test_a_damaged_record_is_told(tmp_path: Path, change: dict[str, Any]) -> None:
    """Before anything is read of the weights."""
    (tmp_path / RECORD).write_text(json.dumps(asdict(medusa()[0]) | change))
    with pytest.raises(ModelInvalidError, match="damaged"):
        open_drafter(tmp_path, "medusa")


def test_weights_are_read_as_they_were_written(tmp_path: Path) -> None:
    """Through the disk: names, sizes, and a tensor that is one number, which none may be."""
    whole, tensors = medusa()
    whole.write(tmp_path)
    save_file(tensors, tmp_path / WEIGHTS)
    files = open_drafter(tmp_path, "medusa")
    assert files.record == whole
    assert {name: tensor.shape for name, tensor in files.tensors().items()} == {
        name: tensor.shape for name, tensor in tensors.items()
    }
    save_file({"head": np.array(1, np.float32)}, tmp_path / WEIGHTS)
    with pytest.raises(ModelInvalidError, match="single number"):
        files.tensors()
