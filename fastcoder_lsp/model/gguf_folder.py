"""A GGUF made ready: a folder with configuration and tokenizer from its own metadata; the weights stay in the file.

It takes a second and a few megabytes. Files with anything unknown are llama.cpp's where it is installed, with its
tokenizer where ours does not know theirs. Without it they are converted by transformers in a process of its own
(`convert_worker`), so that its memory is returned and a damaged file can hurt nothing else. For training and for
comparisons, the weights can be unpacked on request as an ordinary checkpoint: `model.safetensors` in fp32 beside the
configuration. No engine needs it.
"""

import json
import logging
import math
import os
import signal
import subprocess
import sys
import tempfile
from contextlib import closing
from importlib import import_module
from pathlib import Path

from fastcoder_lsp import errors
from fastcoder_lsp.config.environment import missing_packages
from fastcoder_lsp.core import Progress
from fastcoder_lsp.core.files import replace_file
from fastcoder_lsp.errors import FastcoderError, InstallationError, ModelInvalidError, ResourceError
from fastcoder_lsp.model.files import INDEX, WEIGHTS, Origin, gguf_of, is_noted, read_origin, weight_files
from fastcoder_lsp.model.gguf_config import (
    LISTS,
    LLAMA_PACKAGES,
    TOKENIZER_OF_LLAMA,
    TOKENS,
    all_names,
    config_for_llama,
    config_of,
    tokenizer_json,
)
from fastcoder_lsp.model.gguf_header import Header, check_header
from fastcoder_lsp.model.gguf_tensors import GgufTensors
from fastcoder_lsp.model.store import (
    ModelStore,
    disk_full,
    publish,
    require_space,
    sha256_file,
    writing,
)
from fastcoder_lsp.model.tensors import Layout, SafetensorsTensors, array_bytes, safetensors_header
from fastcoder_lsp.tokenizer import LLAMA_MODULE

DISK_SIGNALS = (signal.SIGBUS, signal.SIGXFSZ) if hasattr(signal, "SIGBUS") else ()
_SAYS_DISK_FULL = ("No space left", "File too large", "Disk quota exceeded")
_SAYS_NO_MEMORY = (
    "MemoryError",
    "not enough memory",
    "allocate memory",
    "bad_alloc",
    "failed to map segment",  # a library that finds no room
    "OutOfMemory",
)


def convert(gguf: Path, folder: Path, root: Path, progress: Progress) -> None:
    """Write configuration, tokenizer and fp32 weights of `gguf` into the existing `folder`, in another process.

    Raises:
        ModelInvalidError: the file is damaged or of an architecture that transformers cannot read.
        ResourceError: memory or disk does not suffice.
    """
    # -P: nothing is imported from the current folder, which may be somebody's repository.
    command = [sys.executable, "-P", "-m", "fastcoder_lsp.model.convert_worker", str(gguf), str(folder)]
    settings = {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_VERBOSITY": "error", "HF_HUB_DISABLE_PROGRESS_BARS": "1"}
    with (
        tempfile.TemporaryFile(dir=folder.parent) as complaints,
        # The worker ends when its stdin does: it never outlives us.
        subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=complaints, env=os.environ | settings
        ) as worker,
    ):
        assert worker.stdout is not None
        try:
            for line in worker.stdout:
                if line.startswith(b"{"):  # a library may print too
                    _take(json.loads(line), progress)
            worker.wait()
        finally:
            worker.kill()
        if worker.returncode != 0:
            complaints.seek(0)
            raise _death(worker.returncode, gguf, root, complaints.read().decode(errors="replace"))


def _take(event: dict[str, object], progress: Progress) -> None:
    """Take one line of the worker: progress, or an error."""
    if "error" in event:
        kind: type[FastcoderError] = getattr(errors, str(event["error"]))
        raise kind(str(event["message"]), str(event["hint"]))
    progress(float(str(event["share"])), str(event["what"]))


def _death(code: int, gguf: Path, root: Path, complaints: str) -> FastcoderError:
    """The error for a worker that ended with `code`, from its last output."""
    if -code in DISK_SIGNALS or any(said in complaints for said in _SAYS_DISK_FULL):
        return disk_full(root, f"converting {gguf.name}")
    if code == -signal.SIGTERM:
        return ResourceError(f"the conversion of {gguf.name} was stopped", "Run it again.")
    if (hasattr(signal, "SIGKILL") and code == -signal.SIGKILL) or any(said in complaints for said in _SAYS_NO_MEMORY):
        return ResourceError(
            f"the system stopped the conversion of {gguf.name}, probably because memory ran out",
            "Close other programs, or use a smaller model.",
        )
    last = complaints.strip().rpartition("\n")[2][:300] or f"exit code {code}"
    if any(said in last for said in ("ModuleNotFoundError", "ImportError")):
        return InstallationError(f"{gguf.name} cannot be converted: {last}")
    if code < 0:
        return ResourceError(
            f"the conversion of {gguf.name} crashed (signal {-code})",
            "Run it again. If it crashes again, download the model again.",
        )
    return ModelInvalidError(
        f"{gguf} cannot be converted: {last}",
        "The file is damaged or of an unsupported kind. Download it again, or use another one.",
    )


log = logging.getLogger(__name__)


def make_ready(gguf: Path, sha256: str, source: str, store: ModelStore, progress: Progress) -> None:
    """Write `store.converted(sha256)` for `gguf`, whole or not at all: a second, or by transformers a minute.

    Raises:
        ModelInvalidError: the file is damaged or of a kind that cannot be read.
        InstallationError: the file needs transformers, which is not installed.
        ResourceError: memory or disk does not suffice.
    """
    progress(0.0, "reading the header")
    files = _described(gguf)
    place, name = store.converted(sha256), f"convert-{sha256[:16]}"
    with store.lock(name, lambda: progress(0.0, f"waiting for another process that converts {gguf.name}")):
        if is_noted(place):
            return
        purpose = f"converting {gguf.name}" if files is None else f"reading {gguf.name}"
        with writing(store.root, purpose), store.workspace(name) as work:
            made = work / "model"
            made.mkdir(mode=0o700)
            if files is None:
                convert(gguf, made, store.root, progress)
                progress(0.95, "checking the converted weights")
                origin = Origin(source, sha256, sha256_file(made / WEIGHTS))
            else:
                for file, text in files.items():
                    replace_file(made / file, text.encode())
                origin = Origin(source, sha256, sha256).at(gguf, place, store.root)
            origin.write(made)
            publish(made, place)
    progress(1.0, "ready")


def follow(folder: Path, gguf: Path, store: ModelStore) -> None:
    """Update the note in `folder` if the file has moved to `gguf`; does nothing where that cannot be written."""
    origin = read_origin(folder)
    if not origin.gguf:
        return
    try:
        moved = origin.at(gguf, folder, store.root)
        if moved != origin:
            moved.write(folder)
    except OSError:
        log.info("cannot record in %s that %s has moved", folder, gguf)


def _described(gguf: Path) -> dict[str, str] | None:
    """The files of the folder; None for a GGUF that only transformers can read."""
    header = check_header(gguf, LISTS)
    config, tokenizer = config_of(header), tokenizer_json(header)
    if (config is None or tokenizer is None) and not missing_packages(*LLAMA_PACKAGES):
        config, tokenizer = config_for_llama(header), tokenizer or TOKENIZER_OF_LLAMA
        try:
            if config is not None:
                config["infill_marks"] = import_module(LLAMA_MODULE).infill_marks(gguf)
        except ModelInvalidError:
            config = None  # the library cannot read it: perhaps transformers can
    if config is None or tokenizer is None:
        return None
    return {
        "config.json": json.dumps(config, indent=1) + "\n",
        "tokenizer.json": tokenizer,
        "tokenizer_config.json": json.dumps(_tokenizer_config(header), indent=1, ensure_ascii=False) + "\n",
    }


def _tokenizer_config(header: Header) -> dict[str, object]:
    """The tokenizer's settings for transformers; this program reads none of them."""
    tokens = header.lists[TOKENS]
    found: dict[str, object] = {"tokenizer_class": "PreTrainedTokenizerFast", "clean_up_tokenization_spaces": False}
    for kind, name in (("bos", "bos_token"), ("eos", "eos_token"), ("padding", "pad_token")):
        number = header.fields.get(f"tokenizer.ggml.{kind}_token_id")
        if isinstance(number, int) and 0 <= number < len(tokens):
            found[name] = tokens[number]
    if isinstance(template := header.fields.get("tokenizer.chat_template"), str):
        found["chat_template"] = template
    return found


def holds_weights(folder: Path) -> bool:
    """Whether the folder, or the file that its note names, has weights; ModelInvalidError for a damaged note."""
    return (folder / WEIGHTS).is_file() or gguf_of(folder) is not None


_AT_ONCE = 1 << 22


def require_checkpoint(folder: Path, progress: Progress) -> None:
    """Unpack the weights of the model in `folder`, unless they are there.

    Raises ModelInvalidError if the file that holds them is damaged or gone, ResourceError if the disk is full.
    """
    if not _lacks_it(folder):
        return
    names = _names(folder)
    store = ModelStore(folder.parents[2])
    name = f"checkpoint-{folder.name[:16]}"
    with store.lock(name, lambda: progress(0.0, "waiting for another process that unpacks the weights")):
        if not (folder / WEIGHTS).is_file():
            with writing(folder, "unpacking the weights"), store.workspace(name) as work:
                _write(work / WEIGHTS, GgufTensors.of(folder), names, progress)
                (work / WEIGHTS).replace(folder / WEIGHTS)


def count_parameters(folder: Path) -> int:
    """The number of parameters in `folder`, from the files' headers; ModelInvalidError without the weights' file."""
    if _lacks_it(folder):
        with closing(GgufTensors.of(folder)) as packed:
            return sum(math.prod(packed.shape(name)) for name in _names(folder))
    with closing(SafetensorsTensors(weight_files(folder))) as plain:
        return sum(math.prod(plain.shape(name)) for name in plain.names())


def unpacked_bytes(folder: Path) -> int:
    """About how much `require_checkpoint` will write; 0 if it is there. ModelInvalidError without the weights' file."""
    return 4 * count_parameters(folder) if _lacks_it(folder) else 0


def _lacks_it(folder: Path) -> bool:
    return not (folder / WEIGHTS).is_file() and not (folder / INDEX).is_file() and gguf_of(folder) is not None


def _names(folder: Path) -> list[str]:
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    return list(all_names(config))


def _write(path: Path, tensors: GgufTensors, names: list[str], progress: Progress) -> None:
    layout: Layout = {name: ("F32", tensors.shape(name)) for name in names}
    total = sum(array_bytes(*entry) for entry in layout.values())
    require_space(path.parent, total + (64 << 20), "unpacking the weights")
    try:
        with path.open("wb") as file:
            file.write(safetensors_header(layout, format="pt"))
            written = 0
            for name in names:
                rows, *columns = tensors.shape(name)
                each = max(1, _AT_ONCE // columns[0]) if columns else rows
                for start in range(0, rows, each):
                    written += file.write(tensors.rows(name, start, min(rows, start + each)).tobytes())
                progress(written / total, "unpacking the weights (first time only)")
            file.flush()
            os.fsync(file.fileno())
    finally:
        tensors.close()
