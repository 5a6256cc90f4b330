"""Whether a GGUF file can be converted: its tensors lie within it, are of known kinds, and fit what it says of itself.

Owns these checks; they read the head alone (`gguf_header`) and take milliseconds, before a library sees the file.
"""

import re
from pathlib import Path

from fastcoder_lsp.errors import ModelInvalidError
from fastcoder_lsp.model.gguf_header import DAMAGED_HINT, Header, read_header

EMBEDDING = "token_embd.weight"
MOST_SIZE = 1 << 26
"""Of anything that a model's description counts; the longest contexts are ten million tokens."""
KIND_HINT = "Take the same model in another form, such as Q4_K_M, Q8_0 or BF16."
_BLOCK = re.compile(r"blk\.(\d{1,5})\.")
_SIZES = ("_length", "_count", "vocab_size")


def check_header(gguf: Path) -> int:
    """Numbers in all tensors of a GGUF, whose head is read and whose tensors lie within the file.

    Raises:
        ModelInvalidError: it is no GGUF, damaged, or of a kind that cannot be read.
    """
    header = read_header(gguf)
    if not isinstance(header.fields.get("general.architecture"), str):
        raise ModelInvalidError(f"{gguf} cannot be read: it names no architecture", DAMAGED_HINT)
    _check_tensors(header, gguf)
    _check_sizes(header, gguf)
    return sum(tensor.numbers for tensor in header.tensors)


def _check_tensors(header: Header, gguf: Path) -> None:
    """Every tensor is of a kind that can be read, and its bytes are in the file."""
    from gguf import GGML_QUANT_SIZES  # noqa: PLC0415

    sizes = {int(kind): size for kind, size in GGML_QUANT_SIZES.items()}
    unreadable = {kind for kind in {tensor.kind for tensor in header.tensors} if not _can_read(kind)}
    available = gguf.stat().st_size - header.data_from
    for tensor in header.tensors:
        if tensor.kind in unreadable:
            raise ModelInvalidError(f"{gguf} holds weights of the unknown kind {kind_name(tensor.kind)}", KIND_HINT)
        block, size = sizes[tensor.kind]
        if tensor.sizes[:1] and tensor.sizes[0] % block:
            raise ModelInvalidError(f"{gguf} cannot be read: {tensor.name} is no whole number of blocks", DAMAGED_HINT)
        if tensor.offset + tensor.numbers // block * size > available:
            raise ModelInvalidError(f"{gguf} ends before its tensors do", DAMAGED_HINT)
    if not header.tensors:
        raise ModelInvalidError(f"{gguf} holds no tensors", DAMAGED_HINT)


def kind_name(kind: int) -> str:
    """A kind of weights as people write it; its number where it has no name."""
    from gguf import GGMLQuantizationType  # noqa: PLC0415

    return next((known.name for known in GGMLQuantizationType if known == kind), str(kind))


def _can_read(kind: int) -> bool:
    """Whether the library can turn weights of this kind into plain numbers: tried on a block of zeros."""
    import numpy as np  # noqa: PLC0415
    from gguf import GGML_QUANT_SIZES, GGMLQuantizationType, dequantize  # noqa: PLC0415

    try:
        known = GGMLQuantizationType(kind)
        dequantize(np.zeros((1, GGML_QUANT_SIZES[known][1]), np.uint8), known)
    except (ValueError, KeyError, NotImplementedError):
        return False
    return True


def _check_sizes(header: Header, gguf: Path) -> None:
    """What the file says of the model fits its tensors: a library would make a model as large as is said."""
    by_name = {tensor.name: tensor for tensor in header.tensors}
    if EMBEDDING not in by_name:
        raise ModelInvalidError(f"{gguf} lacks the tensor {EMBEDDING}", DAMAGED_HINT)
    embedding = by_name[EMBEDDING]
    if len(embedding.sizes) != 2:
        raise ModelInvalidError(f"{gguf} cannot be read: {EMBEDDING} is {embedding.sizes}", DAMAGED_HINT)
    width, rows = embedding.sizes
    blocks = {match[1] for name in by_name if (match := _BLOCK.match(name))}
    inner = by_name["blk.0.ffn_up.weight"].sizes[-1] if "blk.0.ffn_up.weight" in by_name else MOST_SIZE
    architecture = str(header.fields["general.architecture"])
    least_most = {
        "embedding_length": (width, width),
        "block_count": (len(blocks), len(blocks)),
        "feed_forward_length": (1, inner),  # some keep gate and up in one tensor
        "vocab_size": (1, 2 * rows),
    }
    for name, said in header.fields.items():
        kind = name.removeprefix(f"{architecture}.")
        if kind == name or isinstance(said, (str, float, bool)) or not name.endswith(_SIZES):
            continue
        least, most = least_most.get(kind, (0, MOST_SIZE))
        if not least <= said <= most:
            raise ModelInvalidError(f"{gguf} cannot be read: {name} is {said}, which cannot be", DAMAGED_HINT)
    tokens = header.lengths.get("tokenizer.ggml.tokens", 0)
    if not 0 < tokens <= rows:
        raise ModelInvalidError(f"{gguf} cannot be read: it names {tokens} tokens and has {rows} rows", DAMAGED_HINT)
