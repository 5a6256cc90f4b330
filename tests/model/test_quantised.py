"""AWQ's and GPTQ's packed integers are read as the numbers that they stand for; packed here word by word."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from safetensors.numpy import save_file

from fastcoder_lsp.engine.architecture import fast_shape, read_config
from fastcoder_lsp.engine.int8.dot import PLAIN
from fastcoder_lsp.engine.int8.packing import pack
from fastcoder_lsp.engine.weights import open_weights
from fastcoder_lsp.errors import ModelInvalidError
from fastcoder_lsp.model.tensors import open_tensors, scheme_of

WIDTH, INNER, GROUP, VOCABULARY = 64, 96, 32, 40
AWQ_ORDER = (0, 2, 4, 6, 1, 3, 5, 7)
"""Which of eight numbers lies in a word's lowest four bits, in the next ones, and so on."""
CONFIG = {
    "model_type": "llama",
    "hidden_size": WIDTH,
    "intermediate_size": INNER,
    "num_hidden_layers": 1,
    "num_attention_heads": 4,
    "vocab_size": VOCABULARY,
    "max_position_embeddings": 64,
}
AWQ = {"quant_method": "awq", "bits": 4, "group_size": GROUP, "version": "gemm", "zero_point": True}
GPTQ = {"quant_method": "gptq", "bits": 4, "group_size": GROUP, "desc_act": True}


@dataclass(frozen=True)
class Quanta:
    """A matrix as integers: `q_KN` with a zero and a scale a group; `group_K` says which."""

    q_KN: npt.NDArray[np.int64]
    zeros_GN: npt.NDArray[np.int64]
    scales_GN: npt.NDArray[np.float16]
    group_K: npt.NDArray[np.int64]

    def weight(self) -> npt.NDArray[np.float32]:
        """What it stands for, as a linear layer has it."""
        steps = (self.q_KN - self.zeros_GN[self.group_K]).astype(np.float32)
        return np.ascontiguousarray((steps * self.scales_GN.astype(np.float32)[self.group_K]).T)


def quanta(rows: int, columns: int, bits: int, random: np.random.Generator, *, shuffled: bool) -> Quanta:
    groups = np.arange(columns) // GROUP
    if shuffled:
        random.shuffle(groups)
    count = columns // GROUP
    return Quanta(
        random.integers(0, 1 << bits, (columns, rows)),
        random.integers(0, 1 << bits, (count, rows)),
        (0.01 + random.random((count, rows)) / 50).astype(np.float16),
        groups,
    )


def word(numbers: list[int], bits: int) -> int:
    """Numbers from the lowest bits on, as a signed word."""
    return int(np.uint32(sum(number << (bits * place) for place, number in enumerate(numbers))).astype(np.int32))


def across(values: npt.NDArray[np.int64], bits: int, order: tuple[int, ...]) -> npt.NDArray[np.int32]:
    each = 32 // bits
    rows, columns = values.shape
    packed = np.zeros((rows, columns // each), np.int32)
    for row in range(rows):
        for place in range(columns // each):
            packed[row, place] = word([int(values[row, place * each + index]) for index in order], bits)
    return packed


def packed_parts(name: str, found: Quanta, said: Mapping[str, Any]) -> dict[str, npt.NDArray[Any]]:
    bits = said["bits"]
    if said["quant_method"] == "awq":
        return {
            f"{name}.qweight": across(found.q_KN, 4, AWQ_ORDER),
            f"{name}.qzeros": across(found.zeros_GN, 4, AWQ_ORDER),
            f"{name}.scales": found.scales_GN,
        }
    less = 0 if said.get("checkpoint_format") == "gptq_v2" else 1
    plain = tuple(range(32 // bits))
    return {
        f"{name}.qweight": np.ascontiguousarray(across(np.ascontiguousarray(found.q_KN.T), bits, plain).T),
        f"{name}.qzeros": across((found.zeros_GN - less) & ((1 << bits) - 1), bits, plain),
        f"{name}.scales": found.scales_GN,
        f"{name}.g_idx": found.group_K.astype(np.int32),
    }


def write(folder: Path, said: Mapping[str, Any]) -> dict[str, npt.NDArray[np.float32]]:
    """A model so packed in `folder`, and its twin of plain numbers beside it; returns its tensors."""
    random = np.random.default_rng(said["bits"])
    sizes = {f"self_attn.{part}_proj": (WIDTH, WIDTH) for part in "qkvo"}
    sizes |= {"mlp.gate_proj": (INNER, WIDTH), "mlp.up_proj": (INNER, WIDTH), "mlp.down_proj": (WIDTH, INNER)}
    shapes: dict[str, tuple[int, ...]] = {
        "model.embed_tokens.weight": (VOCABULARY, WIDTH),
        "model.norm.weight": (WIDTH,),
    }
    shapes |= {f"model.layers.0.{norm}_layernorm.weight": (WIDTH,) for norm in ("input", "post_attention")}
    weights = {name: random.standard_normal(shape).astype(np.float32) for name, shape in shapes.items()}
    kept: dict[str, npt.NDArray[Any]] = dict(weights)
    for part, (rows, columns) in sizes.items():
        found = quanta(rows, columns, said["bits"], random, shuffled=bool(said.get("desc_act")))
        weights[f"model.layers.0.{part}.weight"] = found.weight()
        kept |= packed_parts(f"model.layers.0.{part}", found, said)
    for place, tensors, config in (
        (folder, kept, CONFIG | {"quantization_config": said}),
        (twin(folder), weights, CONFIG),
    ):
        place.mkdir()
        save_file(tensors, place / "model.safetensors")
        (place / "config.json").write_text(json.dumps(config))
    return weights


def twin(folder: Path) -> Path:
    return folder.with_name(f"{folder.name}-plain")


@pytest.mark.parametrize(
    "said",
    [AWQ, GPTQ, GPTQ | {"bits": 8}, GPTQ | {"checkpoint_format": "gptq_v2", "desc_act": False}],
    ids=["awq", "gptq", "gptq-8", "gptq-v2"],
)
def test_every_number_is_read_and_packed_as_its_plain_twin(tmp_path: Path, said: dict[str, Any]) -> None:
    folder = tmp_path / "model"
    weights = write(folder, said)
    tensors = open_tensors(folder)
    for name, values in weights.items():
        assert tensors.shape(name) == values.shape
        assert np.array_equal(tensors.raw(name), values)
        assert np.array_equal(tensors.rows(name, 3, 21), values[3:21])
    tensors.close()
    found = []
    for place in (folder, twin(folder)):
        shape = fast_shape(read_config(place))
        assert shape is not None
        with open_weights(place) as opened:
            found.append([(name, piece.tobytes()) for name, piece in pack(opened, shape, PLAIN)])
    assert found[0] == found[1]


@pytest.mark.parametrize(
    "said", [AWQ | {"version": "marlin"}, GPTQ | {"bits": 3}, {"quant_method": "bitsandbytes", "bits": 4}, "awq", {}]
)
def test_what_is_not_known_is_left_to_transformers(said: object) -> None:
    assert scheme_of({"quantization_config": said}) is None
    assert fast_shape(CONFIG | {"quantization_config": said}) is None


@pytest.mark.parametrize("part", ["qzeros", "scales", "g_idx"])
def test_parts_that_do_not_fit_are_refused(tmp_path: Path, part: str) -> None:
    folder = tmp_path / "model"
    write(folder, GPTQ)
    tensors = open_tensors(folder)
    name = "model.layers.0.mlp.up_proj"
    kept = {key: tensors.raw(key) for key in (f"{name}.{each}" for each in ("qweight", "qzeros", "scales", "g_idx"))}
    tensors.close()
    kept[f"{name}.{part}"] = np.ascontiguousarray(kept[f"{name}.{part}"][1:])
    save_file(kept, folder / "model.safetensors")
    with pytest.raises(ModelInvalidError):
        open_tensors(folder).rows(f"{name}.weight", 0, 8)
