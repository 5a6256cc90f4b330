"""Published checkpoints of drafters in this program's form: EAGLE, EAGLE-3, Medusa.

Names and shapes are those that their public code reads (SafeAILab/EAGLE, FasterDecoding/Medusa); an
unknown part is refused by name. A checkpoint without embedding or head uses the target's here too.
"""

import json
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy.typing as npt
import torch
from safetensors import SafetensorError
from safetensors.torch import load_file

from fastcoder_lsp import model as models
from fastcoder_lsp.core import NORMED
from fastcoder_lsp.engine.architecture import Shape
from fastcoder_lsp.engine.weights import open_weights
from fastcoder_lsp.errors import ModelInvalidError, UsageError
from fastcoder_lsp.model import ModelFiles
from fastcoder_lsp.model.drafter_files import DrafterRecord
from fastcoder_lsp.papers.eagle import EagleLayer
from fastcoder_lsp.papers.medusa import Heads
from fastcoder_lsp.papers.train import eagle
from fastcoder_lsp.papers.train.drafters import require_place, write_drafter
from fastcoder_lsp.papers.train.samples import shape_of

Tensors = dict[str, torch.Tensor]
FILES = ("model.safetensors", "medusa_lm_head.safetensors", "medusa_lm_head.pt", "pytorch_model.bin")
_HINT = "Name a checkpoint of EAGLE, EAGLE-3 or Medusa, in the form that their public code writes."
_LAYER = {
    "self_attn.q_proj": "q",
    "self_attn.k_proj": "k",
    "self_attn.v_proj": "v",
    "self_attn.o_proj": "o",
    "mlp.gate_proj": "gate",
    "mlp.up_proj": "up",
    "mlp.down_proj": "down",
    "post_attention_layernorm": "norm_post",
}
_EAGLE3 = {"midlayer.input_layernorm": "norm_input", "midlayer.hidden_norm": "norm_hidden", "norm": "norm_last"}

_KINDS: Mapping[str, Callable[[DrafterRecord, dict[str, npt.NDArray[Any]]], object]] = {
    "medusa": lambda record, tensors: Heads(tensors, record.width),
    "eagle": EagleLayer,
}
"""The drafters that will read the result; each refuses unusable weights."""


def bring_in(folder: Path, model: str, target: Path, cache: Path) -> DrafterRecord:
    """Write the published drafter in `folder` to `target`, as a drafter for `model`; its record.

    Raises UsageError if there is none, or it has an unknown part; ModelInvalidError if it does not fit or is damaged.
    """
    files = models.find(model, cache)
    config, tensors = _read(folder)
    require_place(target)
    models.require_checkpoint(files.folder, lambda _share, _what: None)
    try:
        method, numbers, layers, ours = _converted(config, tensors, shape_of(files.folder), files)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise UsageError(f"{folder / 'config.json'} lacks a field: {error}", _HINT) from error
    except RuntimeError as error:  # torch's, where tensors do not fit together
        raise ModelInvalidError(f"the checkpoint's tensors have inconsistent shapes: {error}", _HINT) from error
    record = DrafterRecord(
        method=method,
        target=files.digest,
        target_name=files.name,
        width=shape_of(files.folder).width,
        layers=layers,
        numbers=numbers,
        data=(f"published: {folder.name}",),
    )
    ours = {name: value.float() if name != "ids" else value for name, value in ours.items()}
    _KINDS[method](record, {name: value.numpy() for name, value in ours.items()})
    write_drafter(target, record, ours)
    return record


def _read(folder: Path) -> tuple[dict[str, Any], Tensors]:
    path = next((folder / name for name in FILES if (folder / name).is_file()), None)
    if path is None:
        raise UsageError(f"{folder} contains none of {', '.join(FILES)}", _HINT)
    try:
        config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
        if path.suffix == ".safetensors":
            return dict(config), load_file(path)
        return dict(config), dict(torch.load(path, map_location="cpu", weights_only=True))
    except FileNotFoundError:
        raise UsageError(f"{folder} has no config.json", _HINT) from None
    except (OSError, ValueError, TypeError, RuntimeError, SafetensorError, EOFError) as error:
        raise ModelInvalidError(f"{path} cannot be read: {error}", "Download it again.") from error
    except Exception as error:  # pickle's own errors have no common root
        raise ModelInvalidError(
            f"{path} contains more than weights: {error}", "Use a checkpoint with weights only."
        ) from error


def _converted(
    config: Mapping[str, Any], tensors: Tensors, shape: Shape, files: ModelFiles
) -> tuple[str, dict[str, float], tuple[int, ...], Tensors]:
    if any("medusa_head." in name or re.fullmatch(r"\d+\.\d+\.(linear\.)?weight", name) for name in tensors):
        return "medusa", *_medusa(config, tensors, shape)
    _check_rotation(config)
    if any(name.startswith("midlayer.") for name in tensors):
        return "eagle", *_eagle3(config, tensors, shape)
    if "fc.weight" in tensors and any(name.startswith("layers.0.") for name in tensors):
        return "eagle", *_eagle(config, tensors, shape, files)
    raise UsageError(f"unknown kind of checkpoint, with the tensors {', '.join(sorted(tensors)[:4])}…", _HINT)


def _medusa(
    config: Mapping[str, Any], tensors: Tensors, shape: Shape
) -> tuple[dict[str, float], tuple[int, ...], Tensors]:
    parts = {name.removeprefix("medusa_head."): value for name, value in tensors.items() if _is_head(name)}
    heads = 1 + max(int(name.split(".")[0]) for name in parts)
    blocks = int(config.get("medusa_num_layers", 1))
    wanted = {
        f"{head}.{block}.linear.{part}"
        for head in range(heads)
        for block in range(blocks)
        for part in ("weight", "bias")
    }
    wanted |= {f"{head}.{blocks}.weight" for head in range(heads)}
    _same(wanted, set(parts))
    weight = torch.stack(
        [torch.stack([parts[f"{head}.{block}.linear.weight"] for block in range(blocks)]) for head in range(heads)]
    )
    bias = torch.stack(
        [torch.stack([parts[f"{head}.{block}.linear.bias"] for block in range(blocks)]) for head in range(heads)]
    )
    head_KDE = torch.stack([parts[f"{head}.{blocks}.weight"] for head in range(heads)])
    _sized("the heads", tuple(head_KDE.shape[1:]), (head_KDE.shape[1], shape.width))
    if head_KDE.shape[1] > shape.vocabulary:
        raise ModelInvalidError(
            f"the heads have {head_KDE.shape[1]} tokens, but the model has {shape.vocabulary}", _HINT
        )
    numbers = {"heads": float(heads), "blocks": float(blocks)}
    return numbers, (NORMED,), {"blocks.weight": weight, "blocks.bias": bias, "head": head_KDE}


def _is_head(name: str) -> bool:
    """Whether a tensor is a head's; newer checkpoints contain the whole target too."""
    return name.startswith("medusa_head.") or bool(re.match(r"\d+\.\d+\.", name))


def _eagle3(
    config: Mapping[str, Any], tensors: Tensors, shape: Shape
) -> tuple[dict[str, float], tuple[int, ...], Tensors]:
    names = {f"midlayer.{name}": ours for name, ours in _LAYER.items()} | _EAGLE3 | {"fc": "fc", "lm_head": "head"}
    ours = _renamed(tensors, names, aside=("d2t", "t2d", "embed_tokens.weight"))
    if "d2t" in tensors:
        ours["ids"] = tensors["d2t"].long() + torch.arange(len(tensors["d2t"]))
        if int(ours["ids"].max()) >= shape.vocabulary or int(ours["ids"].min()) < 0:
            raise ModelInvalidError("the drafter has token ids that the model lacks", _HINT)
    _sized("fc", tuple(ours["fc"].shape), (int(config["hidden_size"]), 3 * shape.width))
    if int(config["hidden_size"]) != shape.width:
        if "embed_tokens.weight" not in tensors:
            raise UsageError("the drafter's width differs from the model's, and it has no embedding of its own", _HINT)
        ours["embedding"] = tensors["embed_tokens.weight"]
    return {"version": 3.0, **_numbers(config)}, eagle.layers_of(shape.layers), ours


def _eagle(
    config: Mapping[str, Any], tensors: Tensors, shape: Shape, files: ModelFiles
) -> tuple[dict[str, float], tuple[int, ...], Tensors]:
    names = {f"layers.0.{name}": ours for name, ours in _LAYER.items()} | {"fc": "fc"}
    ours = _renamed(tensors, names, aside=("embed_tokens.weight", "lm_head.weight"))
    _sized("fc", tuple(ours["fc"].shape), (shape.width, 2 * shape.width))
    return {"version": 1.0, **_numbers(config)}, (NORMED,), ours | {"head": _head(files, shape)}


def _renamed(tensors: Tensors, names: Mapping[str, str], aside: tuple[str, ...] = ()) -> Tensors:
    """The tensors by our names; biases follow their weights. Raises UsageError if one is missing or unknown."""
    known = {f"{name}.weight": ours for name, ours in names.items()}
    known |= {f"{name}.bias": f"{ours}_bias" for name, ours in names.items()}
    here = {name: value for name, value in tensors.items() if name not in aside and not name.endswith("inv_freq")}
    optional = {name for name in known if name.endswith((".bias", "q_norm.weight", "k_norm.weight"))}
    _same({name for name in known if name not in optional or name in here}, set(here))
    return {known[name]: value for name, value in here.items()}


def _same(wanted: set[str], here: set[str]) -> None:
    if missing := sorted(wanted - here):
        raise UsageError(f"the checkpoint lacks {', '.join(missing[:5])}", _HINT)
    if unknown := sorted(here - wanted):
        raise UsageError(f"the checkpoint has unknown tensors: {', '.join(unknown[:5])}", _HINT)


def _sized(what: str, found: tuple[int, ...], right: tuple[int, ...]) -> None:
    if found != right:
        raise ModelInvalidError(
            f"{what} is {found}, but this model needs {right}", "Name the model that it was made for."
        )


def _numbers(config: Mapping[str, Any]) -> dict[str, float]:
    heads = int(config["num_attention_heads"])
    rotation = config.get("rope_parameters") or {}
    return {
        "heads": float(heads),
        "kv_heads": float(config.get("num_key_value_heads") or heads),
        "head_dim": float(config.get("head_dim") or int(config["hidden_size"]) // heads),
        "theta": float(config.get("rope_theta") or rotation.get("rope_theta") or 10_000.0),
        "eps": float(config.get("rms_norm_eps", 1e-6)),
    }


def _check_rotation(config: Mapping[str, Any]) -> None:
    scaling = config.get("rope_scaling") or config.get("rope_parameters") or {}
    kind = scaling.get("rope_type") or scaling.get("type") or "default"
    if kind != "default":
        raise UsageError(f"the drafter's position encoding '{kind}' is not supported", _HINT)


def _head(files: ModelFiles, shape: Shape) -> torch.Tensor:
    with open_weights(files.folder) as weights:
        return weights.head(shape)
