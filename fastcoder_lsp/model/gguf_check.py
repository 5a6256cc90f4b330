"""Whether a GGUF file can be read: its tensors lie within it, are of known kinds, and fit what it says of itself.

Owns these checks; they read the head alone (`gguf_header`) and take milliseconds, before a library sees the file.
"""

import re
from collections.abc import Collection
from pathlib import Path

from fastcoder_lsp.errors import ModelInvalidError
from fastcoder_lsp.model.gguf_blocks import kind_of
from fastcoder_lsp.model.gguf_header import DAMAGED_HINT, Header, read_header

EMBEDDING = "token_embd.weight"
MOST_SIZE = 1 << 26
"""Of anything that a model's description counts; the longest contexts are ten million tokens."""
KIND_HINT = "Use the same model in another form, such as Q4_K_M, Q8_0 or BF16."
_BLOCK = re.compile(r"blk\.(\d{1,5})\.")
_SIZES = ("_length", "_count", "vocab_size")


def check_header(gguf: Path, lists: Collection[str] = ()) -> Header:
    """The head of a GGUF whose tensors lie within the file, with the contents of `lists`.

    Raises:
        ModelInvalidError: it is no GGUF, damaged, or of a kind that cannot be read.
    """
    header = read_header(gguf, lists)
    if not isinstance(header.fields.get("general.architecture"), str):
        raise ModelInvalidError(f"{gguf} cannot be read: its header has no architecture", DAMAGED_HINT)
    _check_tensors(header, gguf)
    _check_sizes(header, gguf)
    return header


def _check_tensors(header: Header, gguf: Path) -> None:
    """Every tensor is of a kind that can be read, and its bytes are in the file."""
    kinds = {number: kind_of(number) for number in {tensor.kind for tensor in header.tensors}}
    available = gguf.stat().st_size - header.data_from
    for tensor in header.tensors:
        kind = kinds[tensor.kind]
        if kind is None:
            raise ModelInvalidError(f"{gguf} has weights of the unsupported type {kind_name(tensor.kind)}", KIND_HINT)
        if tensor.sizes[:1] and tensor.sizes[0] % kind.numbers:
            raise ModelInvalidError(
                f"{gguf} cannot be read: {tensor.name} is not a whole number of blocks", DAMAGED_HINT
            )
        if tensor.offset + tensor.numbers // kind.numbers * kind.size > available:
            raise ModelInvalidError(f"{gguf} is cut short", DAMAGED_HINT)
    if not header.tensors:
        raise ModelInvalidError(f"{gguf} has no tensors", DAMAGED_HINT)


def kind_name(kind: int) -> str:
    """A kind of weights as people write it; its number where it has no name."""
    from gguf import GGMLQuantizationType  # noqa: PLC0415

    return next((known.name for known in GGMLQuantizationType if known == kind), str(kind))


def _check_sizes(header: Header, gguf: Path) -> None:
    """What the file says of the model fits its tensors: a library would make a model as large as is said."""
    by_name = {tensor.name: tensor for tensor in header.tensors}
    if EMBEDDING not in by_name:
        raise ModelInvalidError(f"{gguf} lacks the tensor {EMBEDDING}", DAMAGED_HINT)
    embedding = by_name[EMBEDDING]
    if len(embedding.sizes) != 2:
        raise ModelInvalidError(f"{gguf} cannot be read: {EMBEDDING} has the shape {embedding.sizes}", DAMAGED_HINT)
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
            raise ModelInvalidError(f"{gguf} cannot be read: {name} has the invalid value {said}", DAMAGED_HINT)
    tokens = header.lengths.get("tokenizer.ggml.tokens", 0)
    if not 0 < tokens <= rows:
        raise ModelInvalidError(
            f"{gguf} cannot be read: it lists {tokens} tokens, but its embedding has {rows} rows", DAMAGED_HINT
        )
