"""The merged export: a tuned model in the ordinary transformers format, with the record of its making.

Owns the folder's files and that it appears whole or not at all. Any program that reads safetensors can take it.
"""

import shutil
from dataclasses import replace
from pathlib import Path

import torch

from fastcoder_lsp.errors import UsageError
from fastcoder_lsp.model.digest import combined, sha256_file
from fastcoder_lsp.model.files import weight_files
from fastcoder_lsp.model.store import publish
from fastcoder_lsp.model.tuned import RECORD, TrainingRecord
from fastcoder_lsp.train import checkpoint as checkpoints
from fastcoder_lsp.train.options import TrainSettings
from fastcoder_lsp.train.trainable import Trainable, load_trainable

TOKENIZER = ("tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "vocab.json", "merges.txt")
OTHER = ("tokenizer.model", "added_tokens.json", "chat_template.jinja", "generation_config.json", "LICENSE")


def export(base: Path, settings: TrainSettings, run: Path, target: Path, record: TrainingRecord) -> TrainingRecord:
    """Write the newest checkpoint of `run`, merged into the weights of `base`, to `target`; returns the full record.

    Args:
        base: the folder of the model that was tuned.
        settings: of the training.
        run: the folder of the checkpoints.
        target: replaced where it is an export of ours.
        record: all but the hash of the weights.

    Raises:
        FastcoderError: there is no checkpoint, it is of another model, or `target` is something else's folder.
    """
    require_place(target)
    found = checkpoints.newest(run)
    if found is None:
        raise UsageError(f"{run} has no checkpoint yet", "Wait until training has made some steps.")
    adaptive = record.adaptive if record.method == "sdsat" else ()
    known = {token for earlier in record.earlier for token in earlier["adaptive"]}
    trainable = load_trainable(base, settings, adaptive, fresh=not known.issuperset(adaptive), to_merge=True)
    checkpoints.unpack_values(found, trainable.parameters())
    return write_model(trainable, base, target, record)


def require_place(target: Path) -> None:
    """See that an export may be written to `target`.

    Raises:
        UsageError: something else is there.
    """
    if target.exists() and not (target / RECORD).is_file():
        raise UsageError(f"{target} contains other files", "Name an empty or a new folder.")


def write_model(trainable: Trainable, base: Path, target: Path, record: TrainingRecord) -> TrainingRecord:
    """Write `trainable`, merged, to `target`, with the tokenizer of `base`; returns the full record."""
    made = target.with_name(f"unfinished-{target.name}")
    shutil.rmtree(made, ignore_errors=True)
    made.mkdir(parents=True)
    model = trainable.merged().to(_precision_of(base))
    model.save_pretrained(made, max_shard_size="1TB")
    for name in (*TOKENIZER, *OTHER):
        if (base / name).is_file():
            shutil.copyfile(base / name, made / name)
    record = replace(record, weights=combined([sha256_file(path) for path in weight_files(made)]))
    record.write(made)
    publish(made, target)
    return record


def _precision_of(base: Path) -> torch.dtype:
    """What the base's weights are stored in: the export is as large as it."""
    from safetensors import safe_open  # noqa: PLC0415

    with safe_open(weight_files(base)[0], framework="pt") as opened:
        kind = opened.get_slice(next(iter(opened.keys()))).get_dtype()
    return {"BF16": torch.bfloat16, "F16": torch.float16}.get(kind, torch.float32)
