"""The training record of a tuned model: JSON beside its weights.

`train` writes it; decoding reads the ids of SDSAT's adaptive tokens from it.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

from fastcoder_lsp.errors import ModelInvalidError

RECORD = "fastcoder-training.json"
VERSION = 1
_HINT = "Export it again with `fastcoder-lsp train export`, or use the model that it was tuned from."


@dataclass(frozen=True, slots=True)
class TrainingRecord:
    """One tuning.

    `base`, `base_digest`: the model that was tuned, and the hash of its weights; `weights`: that of the tuned ones.
    `method`: "cllm", "sdsat", "distill", "medusa" or "edits". `data`: the sources as named; `data_digest`: hash of
    their texts. `arguments`: every setting of the run. `figures`: losses and counts, before and after. `adaptive`:
    SDSAT's token ids, none for CLLM on a plain base; `longest`: L, the longest run of them in training. `block`: CLLM's
    n. `edit_format`: the name of the format of an edit model's prompts, empty for other models. `earlier`: records of
    tunings of the base itself, oldest first.
    """

    method: str
    base: str
    base_digest: str
    weights: str
    data: tuple[str, ...]
    data_digest: str
    arguments: Mapping[str, Any]
    figures: Mapping[str, float] = field(default_factory=dict)
    adaptive: tuple[int, ...] = ()
    longest: int = 0
    block: int = 0
    edit_format: str = ""
    earlier: tuple[Mapping[str, Any], ...] = ()
    version: int = VERSION

    def write(self, folder: Path) -> None:
        """Put the record beside the weights."""
        (folder / RECORD).write_text(json.dumps(asdict(self), indent=1) + "\n", encoding="utf-8")


def read_record(folder: Path, digest: str | None = None) -> TrainingRecord | None:
    """The record of the model in `folder`; None for a model that was not tuned by this program.

    `digest`: the hash of the weights, to be checked; None to trust the record.

    Raises:
        ModelInvalidError: the record is damaged, of another version, or of other weights.
    """
    path = folder / RECORD
    if not path.is_file():
        return None
    try:
        row = {"edit_format": ""} | json.loads(path.read_text(encoding="utf-8"))  # older records have none
        version = row["version"]
        known = {entry.name for entry in fields(TrainingRecord)}
        tuples = {name: tuple(row[name]) for name in ("data", "adaptive", "earlier")}
        record = TrainingRecord(**{name: row[name] for name in known} | tuples)
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise ModelInvalidError(f"{path} is damaged: {error}", _HINT) from error
    if version != VERSION:
        raise ModelInvalidError(f"{path} has format version {version}; this program reads version {VERSION}", _HINT)
    if any(type(token) is not int or token < 0 for token in record.adaptive):
        raise ModelInvalidError(f"{path} is damaged: adaptive token ids {record.adaptive}", _HINT)
    if digest is not None and record.weights != digest:
        raise ModelInvalidError(f"{path} describes other weights than those in its folder", _HINT)
    return record
