"""A drafter's own weights: what its folder must hold is checked before it drafts, and what is wrong is said."""

import json
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import save_file

from fastcoder_lsp.errors import ModelInvalidError
from fastcoder_lsp.model.drafter_files import RECORD, WEIGHTS, DrafterRecord, open_drafter
from fastcoder_lsp.papers.eagle import EagleLayer
from fastcoder_lsp.papers.medusa import Heads
from tests.papers.own_weights import MADE, E, Tensors, V, eagle, medusa

Opened = Callable[[DrafterRecord, Tensors], object]
OPENED: dict[str, Opened] = {
    "medusa": lambda record, tensors: Heads(tensors, record.width),
    "eagle": EagleLayer,
}


@pytest.mark.parametrize("method", MADE)
def test_every_tensor_must_be_there_and_of_its_size(method: str) -> None:
    """Where one is not, nothing is drafted by it: it would fail in the middle of the first decode."""
    opened, (whole, tensors) = OPENED[method], MADE[method]()
    opened(whole, tensors)
    for name in tensors:
        if name != "ids":
            with pytest.raises(ModelInvalidError, match="lack"):
                opened(whole, {other: tensor for other, tensor in tensors.items() if other != name})
        with pytest.raises(ModelInvalidError, match="has the shape"):
            opened(whole, tensors | {name: tensors[name][..., None]})
    with pytest.raises(ModelInvalidError, match="has the shape"):
        opened(replace(whole, width=E + 1), tensors)
    with pytest.raises(ModelInvalidError, match="negative token ids"):
        opened(whole, tensors | {"ids": np.full(V, -1)})


@pytest.mark.parametrize("name", ["heads", "head_dim", "theta", "eps"])
def test_a_record_says_all_sizes(name: str) -> None:
    whole, tensors = eagle()
    with pytest.raises(ModelInvalidError, match=f"has no {name}"):
        EagleLayer(replace(whole, numbers={key: whole.numbers[key] for key in whole.numbers if key != name}), tensors)
    with pytest.raises(ModelInvalidError, match=r"invalid heads: 0\.5"):
        OPENED["eagle"](replace(eagle()[0], numbers={**eagle()[0].numbers, "heads": 0.5}), eagle()[1])


@pytest.mark.parametrize(("name", "said", "told"), [
    ("heads", 3, "has the shape"), ("heads", 1e300, "invalid heads"), ("kv_heads", 4097, "invalid kv_heads"),
])  # fmt: skip
def test_no_size_takes_memory_or_an_error_in_the_middle(name: str, said: float, told: str) -> None:
    whole, tensors = eagle()
    with pytest.raises(ModelInvalidError, match=told):
        EagleLayer(replace(whole, numbers={**whole.numbers, name: said}), tensors)


def test_heads_of_an_odd_size_are_refused() -> None:
    """The tensors fit: each head is parted into heads of one number."""
    whole, tensors = eagle()
    size = whole.numbers["head_dim"]
    parted = {name: whole.numbers[name] * size for name in ("heads", "kv_heads")} | {"head_dim": 1}
    with pytest.raises(ModelInvalidError, match="invalid sizes"):
        EagleLayer(replace(whole, numbers={**whole.numbers, **parted}), tensors)


@pytest.mark.parametrize("method", MADE)
def test_a_head_says_something(method: str) -> None:
    whole, tensors = MADE[method]()
    with pytest.raises(ModelInvalidError, match="vocabulary is empty"):
        OPENED[method](whole, tensors | {"head": tensors["head"][:0], "ids": tensors["ids"][:0]})


@pytest.mark.parametrize(
    "change",
    [
        {"numbers": 3},
        {"numbers": {"heads": "two"}},
        {"numbers": {"heads": float("nan")}},
        {"width": None},
        {"figures": []},
        {"target": 5},
        {"method": ["medusa"]},
        {"lists": {"ranks": [["often"]]}},
        {"lists": {"ranks": [[float("nan")]]}},
    ],
)
def test_a_damaged_record_is_told(tmp_path: Path, change: dict[str, Any]) -> None:
    (tmp_path / RECORD).write_text(json.dumps(asdict(medusa()[0]) | change))
    with pytest.raises(ModelInvalidError, match="damaged"):
        open_drafter(tmp_path, "medusa", "the target's hash")


def test_weights_are_read_as_they_were_written(tmp_path: Path) -> None:
    whole, tensors = medusa()
    whole.write(tmp_path)
    save_file(tensors, tmp_path / WEIGHTS)
    files = open_drafter(tmp_path, "medusa")
    assert files.record == whole
    assert {name: tensor.shape for name, tensor in files.tensors().items()} == {
        name: tensor.shape for name, tensor in tensors.items()
    }
    save_file({"head": np.array(1, np.float32)}, tmp_path / WEIGHTS)
    with pytest.raises(ModelInvalidError, match="is a number, not an array"):
        files.tensors()
