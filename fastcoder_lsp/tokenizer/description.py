"""The contents of a `tokenizer.json`, prepared: ids to bytes, control tokens, the description of an encoder for text.

The user's text never yields a control token, since the encoder does not know their names.
"""

import hashlib
import itertools
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from fastcoder_lsp.errors import ModelInvalidError

_CONTROL_NAME = re.compile(
    r"▁?<[^<>\s]+>|\[(PAD\d*|UNK|CLS|SEP|MASK|[A-Z_]*INST|PREFIX|SUFFIX|MIDDLE|@BOS@|TOOL_[A-Z]+)\]"
)
# Gemma has tags of its own as added tokens that are nevertheless plain text.
_TAG = re.compile(
    r"</?(table|caption|thead|tbody|tfoot|tr|th|td|h[1-6]|blockquote|strong|em|b|i|u|s|sub|sup|code|a|img|ul|ol|li|p|br)>"
)
_BYTE_NAME = re.compile(r"<0x([0-9A-Fa-f]{2})>")
_SPACE = "▁"
HINT = "Download the model again: fastcoder-lsp model pull. If it is your own, copy it again."
_MOST_GAPS = 1 << 16
"""Ids without a token that a vocabulary may have, beside as many as it has tokens: memory goes by the highest."""


@dataclass(frozen=True, slots=True)
class Prepared:
    """A prepared description."""

    identity: str  # names the tokenizer in stored formats
    control: Mapping[str, int]  # name → id of the tokens that are no text
    start_ids: tuple[int, ...]  # the ids that the model expects before everything else
    pieces: bytes  # the bytes of every id, one after the other; none for control tokens and gaps
    ends_V: npt.NDArray[np.int64]  # where each id's bytes end in `pieces`
    order_S: npt.NDArray[np.int64]  # the ids that have bytes, in the order of those, equal ones by id
    encoder: str  # the description of an encoder for text, as the `tokenizers` library reads it


def prepare(description: str) -> Prepared:
    """Prepare the text of a `tokenizer.json`.

    Raises ModelInvalidError for no tokenizer or an unsupported one, and other errors where it lacks a required part.
    """
    config = _parse(description)
    control = _control_tokens(config)
    pieces = _pieces(config, frozenset(control.values()))
    ordered = sorted((piece, token) for token, piece in enumerate(pieces) if piece)
    return Prepared(
        identity=identity_of(description),
        control=control,
        start_ids=_start_ids(config, control),
        pieces=b"".join(pieces),
        ends_V=np.fromiter(itertools.accumulate(map(len, pieces)), np.int64, len(pieces)),
        order_S=np.fromiter((token for _, token in ordered), np.int64, len(ordered)),
        encoder=json.dumps(_text_only(config, control), ensure_ascii=False),
    )


def identity_of(description: str) -> str:
    """The name of the tokenizer that a description is of."""
    return hashlib.sha256(description.encode()).hexdigest()[:16]


def _parse(description: str) -> dict[str, Any]:
    try:
        config = json.loads(description)
    except (ValueError, RecursionError) as failure:
        raise ModelInvalidError(f"not a tokenizer's JSON ({failure})", HINT) from failure
    model = config.get("model") if isinstance(config, dict) else None
    if not isinstance(model, dict):
        raise ModelInvalidError("it does not describe a tokenizer", HINT)
    kind = model.get("type")
    if kind != "BPE":
        raise ModelInvalidError(f"a tokenizer of kind {kind} is not supported", "Choose a model with a BPE tokenizer.")
    return dict(config)


def _control_tokens(config: Mapping[str, Any]) -> dict[str, int]:
    added = {
        entry["content"]: int(entry["id"])
        for entry in config.get("added_tokens") or []
        if (entry["special"] and not entry["content"].isspace())
        or (_CONTROL_NAME.fullmatch(entry["content"]) and not _TAG.fullmatch(entry["content"]))
    }
    padding = {name: number for name, number in config["model"]["vocab"].items() if name.startswith("[PAD")}
    return added | padding


def _pieces(config: Mapping[str, Any], control_ids: frozenset[int]) -> list[bytes]:
    """id → bytes, empty for control tokens and gaps."""
    vocab: Mapping[str, int] = config["model"]["vocab"]
    added = {int(entry["id"]): str(entry["content"]) for entry in config.get("added_tokens") or []}
    alphabet = _byte_alphabet() if _is_byte_level(config) else None
    ids = [*vocab.values(), *added]
    if not ids or any(type(token) is not int or not 0 <= token < 2 * len(ids) + _MOST_GAPS for token in ids):
        raise ModelInvalidError("it has invalid token ids", HINT)
    pieces = [b""] * (max(ids) + 1)
    for name, token in vocab.items():
        pieces[token] = _piece(name, alphabet)
    for token, name in added.items():
        pieces[token] = name.replace(_SPACE, " ").encode() if alphabet is None else name.encode()
    for token in control_ids:
        pieces[token] = b""
    return pieces


def _piece(name: str, alphabet: Mapping[int, int] | None) -> bytes:
    if alphabet is not None:
        try:
            return name.translate(alphabet).encode("latin-1")
        except UnicodeEncodeError:
            return name.encode()
    if match := _BYTE_NAME.fullmatch(name):
        return bytes([int(match[1], 16)])
    return name.replace(_SPACE, " ").encode()


def _byte_alphabet() -> dict[int, int]:
    """The character that stands for each byte in byte-level BPE → the byte (inverse of GPT-2's `bytes_to_unicode`).

    Printable bytes stand for themselves, the others for characters from 256 on. A name that contains such a byte itself
    is not byte-level, and is mapped to a character that Latin-1 cannot encode.
    """
    plain = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    others = [byte for byte in range(256) if byte not in plain]
    return {256 + rank: byte for rank, byte in enumerate(others)} | dict.fromkeys(others, 0xFFFF)


def _is_byte_level(config: Mapping[str, Any]) -> bool:
    parts = [config.get("decoder"), config.get("pre_tokenizer")]
    return any('"ByteLevel"' in json.dumps(part) for part in parts)


def _start_ids(config: Mapping[str, Any], control: Mapping[str, int]) -> tuple[int, ...]:
    """The control tokens that the tokenizer's own post-processor puts before a single text."""
    found: list[int] = []
    processor = config.get("post_processor") or {}
    for part in processor.get("processors", [processor]):
        for item in part.get("single") or []:
            if "SpecialToken" not in item:
                break
            found.append(control[item["SpecialToken"]["id"]])
    return tuple(found)


def _text_only(config: Mapping[str, Any], control: Mapping[str, int]) -> dict[str, Any]:
    """The description of an encoder for text: the same ids, control names unknown, no blank put before the text."""
    model = dict(config["model"])
    added = [entry for entry in config.get("added_tokens") or [] if entry["content"] not in control]
    # A NUL in the name keeps the id taken and out of reach: no pre-tokenizer yields it and no merge makes it.
    hidden = {name: ("\0" + name if name != model.get("unk_token") else name) for name in control}
    vocab = {hidden.get(name, name): token for name, token in model["vocab"].items()}
    vocab |= {hidden[name]: token for name, token in control.items()}
    vocab |= {entry["content"]: int(entry["id"]) for entry in added}
    model["vocab"] = vocab
    return {
        **config,
        "model": model,
        "added_tokens": added,
        "truncation": None,
        "padding": None,
        "post_processor": None,
        "normalizer": _without_leading_blank(config.get("normalizer")),
        "pre_tokenizer": _without_leading_blank(config.get("pre_tokenizer")),
    }


def _without_leading_blank(part: Any) -> Any:
    """A normaliser or pre-tokenizer that leaves the start of the text alone."""
    if not isinstance(part, dict):
        return part
    if part.get("type") == "Prepend":
        return None
    changed = dict(part)
    for key in ("normalizers", "pretokenizers"):
        if key in changed:
            changed[key] = [kept for item in changed[key] if (kept := _without_leading_blank(item)) is not None]
    if "add_prefix_space" in changed:
        changed["add_prefix_space"] = False
    if "prepend_scheme" in changed:
        changed["prepend_scheme"] = "never"
    return changed
