"""The conversion of a GGUF to an ordinary transformers folder: the worker's side, run by `gguf_folder` as a process.

Owns the only import of transformers in this package. Prints one JSON object a line: {"share", "what"} or {"error",
"message", "hint"}; any other failure ends it with a traceback, which `gguf_folder` reads.
"""

import json
import os
import sys
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fastcoder_lsp.errors import FastcoderError, InstallationError, ModelInvalidError, ResourceError
from fastcoder_lsp.model.gguf_header import DAMAGED_HINT, check_header
from fastcoder_lsp.model.machine import available_bytes, require_packages
from fastcoder_lsp.model.store import require_space, size_text

OVERHEAD_BYTES = 1200 << 20
"""Memory of the libraries and the tokenizer beside the weights."""


def main() -> int:
    """Convert argv[1] into the folder argv[2]."""
    gguf, folder = Path(sys.argv[1]), Path(sys.argv[2])
    threading.Thread(target=_end_with_parent, daemon=True).start()
    try:
        convert(gguf, folder)
    except FastcoderError as error:
        _tell(error=type(error).__name__, message=error.message, hint=error.hint)
    return 0


def convert(gguf: Path, folder: Path) -> None:
    """Write config.json, tokenizer.json and model.safetensors, in fp32, into `folder`.

    fp32, because the values of a 4-bit block (scale times quantum plus minimum) fit no shorter format. llama.cpp
    computes with the same values.

    Raises:
        ModelInvalidError: the header is not of a GGUF, tensors are cut off, or the architecture is unknown.
        ResourceError: memory or disk does not suffice.
    """
    _say(0.0, "reading the header")
    require_packages(f"converting {gguf.name}", "torch", "transformers", "accelerate")
    values = sum(tensor.numbers for tensor in check_header(gguf).tensors)
    require_space(folder, 4 * values + (64 << 20), f"converting {gguf.name}")
    require_memory(4 * values + OVERHEAD_BYTES, gguf)

    _say(0.03, "loading transformers")
    transformers = _transformers()

    _say(0.10, "reading the tokenizer")
    tokenizer = transformers.AutoTokenizer.from_pretrained(str(gguf.parent), gguf_file=gguf.name)
    tokenizer.save_pretrained(folder)
    _say(0.30, "unpacking the weights")
    options: dict[str, Any] = {}
    if hasattr(transformers, "GgufConfig"):  # older releases always unpack
        options["quantization_config"] = transformers.GgufConfig(dequantize=True)
    import torch  # noqa: PLC0415

    model, found = transformers.AutoModelForCausalLM.from_pretrained(
        str(gguf.parent),
        gguf_file=gguf.name,
        dtype=torch.float32,
        trust_remote_code=False,
        output_loading_info=True,
        **options,
    )
    require_whole(found, gguf)
    _say(0.75, "writing the weights")
    # One file whatever the size: `find` and the engine need no index for it.
    model.save_pretrained(folder, max_shard_size="1TB")


def require_whole(found: Mapping[str, Any], gguf: Path) -> None:
    """Check that every tensor of the model came from the file: the library invents missing ones.

    Raises:
        ModelInvalidError: some are missing, or of another shape.
    """
    missing = sorted(map(str, [*(found.get("missing_keys") or ()), *(found.get("mismatched_keys") or ())]))
    if missing:
        more = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
        raise ModelInvalidError(f"{gguf} lacks tensors: {missing[0]}{more}", DAMAGED_HINT)


def _transformers() -> Any:
    """The library, seconds to import; raises InstallationError."""
    try:
        import transformers  # noqa: PLC0415

        _ = transformers.AutoModelForCausalLM, transformers.AutoTokenizer  # found only when they are asked for
    except (ImportError, RuntimeError) as error:
        if "allocate memory" in str(error) or "failed to map segment" in str(error):
            raise MemoryError(str(error)) from error
        raise InstallationError(f"transformers cannot be loaded: {error}") from error
    return transformers


def require_memory(needed: int, gguf: Path) -> None:
    """Check that `needed` bytes are available; raises ResourceError."""
    available = available_bytes()
    if available < needed:
        raise ResourceError(
            f"converting {gguf.name} needs {size_text(needed)} of memory; {size_text(available)} are free",
            "Close other programs, or use a smaller model.",
        )


def _end_with_parent() -> None:
    """End this process with its parent: stdin is a pipe that closes then."""
    os.read(0, 1)  # not through sys.stdin, whose lock the interpreter wants at its end
    os._exit(1)


def _say(share: float, what: str) -> None:
    _tell(share=share, what=what)


def _tell(**event: object) -> None:
    print(json.dumps(event), flush=True)  # noqa: T201 this is how it speaks


if __name__ == "__main__":
    sys.exit(main())
