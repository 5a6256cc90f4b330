"""The model as it is trained: loaded whole or with LoRA, with rows for adaptive tokens, and its merged export.

The export is an ordinary transformers folder, which appears whole or not at all.
"""

import re
import shutil
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open
from transformers import AutoModelForCausalLM
from transformers.utils import logging as hf_logging

from fastcoder_lsp.engine.architecture import BROKEN_HINT, read_config
from fastcoder_lsp.errors import InstallationError, ModelInvalidError, UsageError
from fastcoder_lsp.model.files import RECORD, TrainingRecord, weight_files
from fastcoder_lsp.model.machine import install_line
from fastcoder_lsp.model.store import combined, publish, sha256_file
from fastcoder_lsp.papers.train.options import TrainSettings

ROWS = "adaptive_rows"
ROUND = 16  # rows of an embedding come in multiples of it, which the int8 engine wants

_TOKENIZER = ("tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "vocab.json", "merges.txt")
_OTHER = ("tokenizer.model", "added_tokens.json", "chat_template.jinja", "generation_config.json", "LICENSE")


@dataclass(slots=True)
class Trainable:
    """`model`: of transformers, or wrapped by peft; `rows`: the adaptive tokens' embeddings under LoRA, [count, E]."""

    model: Any
    settings: TrainSettings
    adaptive: tuple[int, ...]
    rows: torch.nn.Parameter | None

    def parameters(self) -> dict[str, torch.nn.Parameter]:
        """The trained parameters by name, in a fixed order."""
        found = {name: value for name, value in self.model.named_parameters() if value.requires_grad}
        if self.rows is not None:
            found[ROWS] = self.rows
        return dict(sorted(found.items()))

    @contextmanager
    def precision(self) -> Iterator[None]:
        """Mixed precision, if the settings say so: products in bf16, sums and parameters in fp32."""
        kind = torch.device(self.settings.device).type
        with torch.autocast(kind, torch.bfloat16, enabled=self.settings.precision == "bf16"):
            yield

    @contextmanager
    def untrained(self) -> Iterator[None]:
        """The model without its LoRA, which adds nothing before the first step but costs as much as the layers."""
        with self.model.disable_adapter() if self.settings.tuning == "lora" else nullcontext():
            yield

    def merged(self) -> Any:
        """The ordinary transformers model with everything trained merged into its weights."""
        model = self.model.merge_and_unload() if self.settings.tuning == "lora" else self.model
        if self.rows is not None:
            _write_rows(model, self.adaptive, self.rows)
        return model


def load_trainable(
    folder: Path, settings: TrainSettings, adaptive: tuple[int, ...], *, fresh: bool, to_merge: bool
) -> Trainable:
    """The model in `folder`, ready to be trained as `settings` say; ModelInvalidError if transformers cannot load it.

    The embedding grows where it has no rows for the ids `adaptive`, which are `fresh` if they are new to the model.
    `to_merge` keeps frozen weights in fp32 for the merge; else LoRA's frozen ones are in the training's precision.
    """
    torch.manual_seed(settings.seed)
    hf_logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    lora = settings.tuning == "lora"
    frozen = torch.bfloat16 if lora and settings.precision == "bf16" and not to_merge else torch.float32
    model = load_model(folder, frozen)
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


def load_model(folder: Path, dtype: torch.dtype) -> Any:
    """The transformers model in `folder`. Raises ModelInvalidError if transformers cannot load it."""
    try:
        return AutoModelForCausalLM.from_pretrained(
            folder, dtype=dtype, local_files_only=True, trust_remote_code=False, use_safetensors=True
        )
    except (OSError, ValueError, KeyError, RuntimeError) as error:
        raise ModelInvalidError(f"transformers cannot load {folder}: {error}", BROKEN_HINT) from error


def embedding_rows(folder: Path) -> int:
    """Rows of the embedding of the model in `folder`."""
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
    """Raise InstallationError if LoRA is asked for and peft is not installed."""
    if settings.tuning == "lora" and find_spec("peft") is None:
        raise InstallationError(
            "tuning by LoRA needs the package peft", f"Run: {install_line('peft')}; or tune all weights with --full."
        )


def _with_lora(model: Any, settings: TrainSettings) -> Any:
    import peft  # noqa: PLC0415 an optional part

    config = peft.LoraConfig(
        r=settings.rank, lora_alpha=settings.alpha, target_modules=_adapted(model, settings), task_type="CAUSAL_LM"
    )
    with warnings.catch_warnings():
        # peft uses a deprecated name of transformers; the user cannot help it.
        warnings.filterwarnings("ignore", message=".*is_gradient_checkpointing", category=FutureWarning)
        wrapped = peft.get_peft_model(model, config)
    for module in wrapped.modules():
        if isinstance(module, peft.tuners.lora.Linear) and type(module.base_layer) is torch.nn.Linear:
            vars(module)["forward"] = partial(_product, module)  # before the class's own
    return wrapped


def _adapted(model: Any, settings: TrainSettings) -> str | list[str]:
    """The modules that LoRA adapts: all linear ones, without the head and the frozen layers."""
    if not settings.frozen:
        return "all-linear"
    layers = {name: int(found[1]) for name, _ in model.named_modules() if (found := _LAYER.search(name))}
    first = settings.frozen * (1 + max(layers.values(), default=0))
    return [
        name
        for name, module in model.named_modules()
        if isinstance(module, torch.nn.Linear) and layers.get(name, -1) >= first
    ]


_LAYER = re.compile(r"\.(\d+)\.")


def _product(module: Any, x: torch.Tensor) -> torch.Tensor:
    """peft's `Linear.forward` in one step: its own several ones spend a third of a CPU's time on sums."""
    if module.disable_adapters or module.merged:
        result: torch.Tensor = module.base_layer(x)
        return result
    (name,) = module.active_adapters
    base, down_RI, up_OR = module.base_layer, module.lora_A[name].weight, module.lora_B[name].weight
    x = x.to(base.weight.dtype)
    sides = down_RI.to(x.dtype), up_OR.to(x.dtype)
    product: torch.Tensor = _AdaptedProduct.apply(x, base.weight, base.bias, *sides, module.scaling[name])  # type: ignore[no-untyped-call]
    return product


class _AdaptedProduct(torch.autograd.Function):
    """x Wᵀ + b + scale · x Aᵀ Bᵀ, with gradients of x, A and B."""

    @staticmethod
    def forward(
        ctx: Any,
        x: torch.Tensor,
        weight_OI: torch.Tensor,
        bias_O: torch.Tensor | None,
        down_RI: torch.Tensor,
        up_OR: torch.Tensor,
        scale: float,
    ) -> torch.Tensor:
        x_TI = x.reshape(-1, x.shape[-1])
        y_TO = torch.nn.functional.linear(x_TI, weight_OI, bias_O)
        low_TR = x_TI @ down_RI.T
        y_TO.addmm_(low_TR, up_OR.T, alpha=scale)
        ctx.save_for_backward(x_TI, weight_OI, down_RI, up_OR, low_TR)
        ctx.scale = scale
        return y_TO.view(*x.shape[:-1], -1)

    @staticmethod
    def backward(ctx: Any, *upstream: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        x_TI, weight_OI, down_RI, up_OR, low_TR = ctx.saved_tensors
        y_TO = upstream[0].reshape(-1, weight_OI.shape[0])
        back_TR = (y_TO @ up_OR).mul_(ctx.scale)
        x: torch.Tensor | None = None
        if ctx.needs_input_grad[0]:
            x = (y_TO @ weight_OI).addmm_(back_TR, down_RI).view(*upstream[0].shape[:-1], -1)
        return x, None, None, back_TR.T @ x_TI, (y_TO.T @ low_TR).mul_(ctx.scale), None


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


def require_place(target: Path) -> None:
    """Check that an export may be written to `target`. Raises UsageError if it holds other files."""
    if target.exists() and not (target / RECORD).is_file():
        raise UsageError(f"{target} contains other files", "Name an empty or a new folder.")


def write_model(trainable: Trainable, base: Path, target: Path, record: TrainingRecord) -> TrainingRecord:
    """Write `trainable`, merged, to `target`, with the tokenizer of `base`; returns the full record."""
    made = target.with_name(f"unfinished-{target.name}")
    shutil.rmtree(made, ignore_errors=True)
    made.mkdir(parents=True)
    model = trainable.merged().to(_precision_of(base))
    model.save_pretrained(made, max_shard_size="1TB")
    for name in (*_TOKENIZER, *_OTHER):
        if (base / name).is_file():
            shutil.copyfile(base / name, made / name)
    record = replace(record, weights=combined([sha256_file(path) for path in weight_files(made)]))
    record.write(made)
    publish(made, target)
    return record


def _precision_of(base: Path) -> torch.dtype:
    with safe_open(weight_files(base)[0], framework="pt") as opened:
        kind = opened.get_slice(next(iter(opened.keys()))).get_dtype()
    return {"BF16": torch.bfloat16, "F16": torch.float16}.get(kind, torch.float32)
