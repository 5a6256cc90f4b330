"""The model as it is trained: loaded whole or with LoRA, with rows for adaptive tokens, its changing tensors by name.

Owns what is trained and what is frozen, and the way back to ordinary weights (`merged`). Knows no data and no losses.
"""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForCausalLM
from transformers.utils import logging as hf_logging

from fastcoder_lsp.engine.architecture import BROKEN_HINT
from fastcoder_lsp.errors import InstallationError, ModelInvalidError
from fastcoder_lsp.model.needs import install_line
from fastcoder_lsp.train.options import TrainSettings

ROWS = "adaptive_rows"
ROUND = 16
"""Rows of an embedding come in multiples of it, which the int8 engine wants."""


@dataclass(slots=True)
class Trainable:
    """`model`: of transformers, or wrapped by peft; `rows`: the adaptive tokens' embeddings under LoRA, [count, E]."""

    model: Any
    settings: TrainSettings
    adaptive: tuple[int, ...]
    rows: torch.nn.Parameter | None

    def parameters(self) -> dict[str, torch.nn.Parameter]:
        """What changes, by name, in a fixed order."""
        found = {name: value for name, value in self.model.named_parameters() if value.requires_grad}
        if self.rows is not None:
            found[ROWS] = self.rows
        return dict(sorted(found.items()))

    @contextmanager
    def precision(self) -> Iterator[None]:
        """Mixed precision, where the settings want it: products in bf16, sums and parameters in fp32."""
        kind = torch.device(self.settings.device).type
        with torch.autocast(kind, torch.bfloat16, enabled=self.settings.precision == "bf16"):
            yield

    @contextmanager
    def untrained(self) -> Iterator[None]:
        """The model without its LoRA: until the first step it adds nothing, and costs as much as the layers."""
        with self.model.disable_adapter() if self.settings.tuning == "lora" else nullcontext():
            yield

    def merged(self) -> Any:
        """The model with everything that was trained put into its weights, an ordinary one of transformers."""
        model = self.model.merge_and_unload() if self.settings.tuning == "lora" else self.model
        if self.rows is not None:
            _write_rows(model, self.adaptive, self.rows)
        return model


def load_trainable(
    folder: Path, settings: TrainSettings, adaptive: tuple[int, ...], *, fresh: bool, to_merge: bool
) -> Trainable:
    """The model in `folder`, ready to be trained.

    Args:
        folder: a model's, in the transformers format.
        settings: how it is tuned; `seed` gives LoRA's start.
        adaptive: ids of adaptive tokens that are to be trained; the embedding grows where it has no such rows.
        fresh: they mean nothing yet; else the model was taught them before.
        to_merge: keep frozen weights in fp32, to be merged; else LoRA's frozen ones are in the training's precision.

    Raises:
        ModelInvalidError: transformers cannot load it.
    """
    torch.manual_seed(settings.seed)
    hf_logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    lora = settings.tuning == "lora"
    frozen = torch.bfloat16 if lora and settings.precision == "bf16" and not to_merge else torch.float32
    try:
        model: Any = AutoModelForCausalLM.from_pretrained(
            folder, dtype=frozen, local_files_only=True, trust_remote_code=False, use_safetensors=True
        )
    except (OSError, ValueError, KeyError, RuntimeError) as error:
        raise ModelInvalidError(f"transformers cannot load {folder}: {error}", BROKEN_HINT) from error
    if fresh:
        _grow(model, adaptive)
    model.to("cpu" if to_merge else settings.device)
    rows = None
    if lora:
        start = model.get_input_embeddings().weight[list(adaptive)].float() if adaptive else None
        model = _with_lora(model, settings)
        if start is not None:
            rows = torch.nn.Parameter(start.detach().clone())
            _hook(model, adaptive, rows)
    model.train()
    return Trainable(model, settings, adaptive, rows)


def embedding_rows(folder: Path) -> int:
    """Rows of the embedding of the model in `folder`."""
    from fastcoder_lsp.engine.architecture import read_config  # noqa: PLC0415

    size = read_config(folder).get("vocab_size")
    if not isinstance(size, int):
        raise ModelInvalidError(f"{folder / 'config.json'} has no vocab_size", BROKEN_HINT)
    return size


def _grow(model: Any, adaptive: tuple[int, ...]) -> None:
    """Make room for adaptive tokens, and start their rows at the mean of all: a token that says nothing yet."""
    if not adaptive:
        return
    have = int(model.get_input_embeddings().weight.shape[0])
    if (needed := max(adaptive) + 1) > have:
        model.resize_token_embeddings(-(-needed // ROUND) * ROUND, mean_resizing=False)
    with torch.no_grad():
        weight = model.get_input_embeddings().weight
        weight[list(adaptive)] = weight[: min(adaptive)].float().mean(0).to(weight.dtype)
        head = model.get_output_embeddings().weight
        if needed > have and head is not weight:
            head[have:] = head[:have].float().mean(0).to(head.dtype)


def require_tuning(settings: TrainSettings) -> None:
    """See that what tunes a model is installed; asked before anything is computed.

    Raises:
        InstallationError: LoRA is wanted, and peft is not installed.
    """
    if settings.tuning == "lora" and find_spec("peft") is None:
        raise InstallationError(
            "tuning by LoRA needs the package peft",
            f"Run: {install_line('peft')}; or tune all weights with --full.",
        )


def _with_lora(model: Any, settings: TrainSettings) -> Any:
    import peft  # noqa: PLC0415 an optional part

    config = peft.LoraConfig(
        r=settings.rank, lora_alpha=settings.alpha, target_modules="all-linear", task_type="CAUSAL_LM"
    )
    with warnings.catch_warnings():
        # peft asks transformers by a name that is to go; nobody who trains can do anything about it.
        warnings.filterwarnings("ignore", message=".*is_gradient_checkpointing", category=FutureWarning)
        return peft.get_peft_model(model, config)


def _hook(model: Any, adaptive: tuple[int, ...], rows: torch.nn.Parameter) -> None:
    """Have the embedding (and a head that shares its weights) use `rows` for the adaptive tokens.

    Only these rows are trained; a gradient for a whole embedding would cost as much as a layer.
    """
    embedding, head = model.get_input_embeddings(), model.get_output_embeddings()
    ids = torch.tensor(adaptive)

    def replace(_module: Any, inputs: tuple[torch.Tensor, ...], output: torch.Tensor) -> torch.Tensor:
        tokens = inputs[0]
        for place, token in enumerate(adaptive):
            output = torch.where((tokens == token)[..., None], rows[place].to(output.dtype), output)
        return output

    def score(_module: Any, inputs: tuple[torch.Tensor, ...], output: torch.Tensor) -> torch.Tensor:
        own = torch.nn.functional.linear(inputs[0], rows.to(inputs[0].dtype)).to(output.dtype)
        return output.index_copy(-1, ids.to(output.device), own)

    embedding.register_forward_hook(replace)
    if head.weight is embedding.weight:
        head.register_forward_hook(score)


def _write_rows(model: Any, adaptive: tuple[int, ...], rows: torch.Tensor) -> None:
    with torch.no_grad():
        weight = model.get_input_embeddings().weight
        weight[list(adaptive)] = rows.to(weight.device, weight.dtype)
