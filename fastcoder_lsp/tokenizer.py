"""A model's tokenizer: text to ids, ids to bytes, and which ids are control tokens, which the user's text never yields.

The `tokenizers` library does the work. A `tokenizer.json` is prepared once; a start reads the stored result.

The stored file is numpy's archive of arrays, without pickles, each with a check sum. Its name is a hash of the whole
description and of the code that prepared it; a damaged file, or one of another form, is replaced. Reading it replaces a
second of work.
"""

import bisect
import hashlib
import itertools
import json
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache, lru_cache
from importlib import import_module
from io import BytesIO
from itertools import pairwise
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, Protocol

import numpy as np
import tokenizers

from fastcoder_lsp.core.arrays import Int64s
from fastcoder_lsp.core.files import appearing, private_folder, read_cached, read_json
from fastcoder_lsp.errors import FastcoderError, ModelInvalidError

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
    ends_V: Int64s  # where each id's bytes end in `pieces`
    order_S: Int64s  # the ids that have bytes, in the order of those, equal ones by id
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


LLAMA_TOKENIZER = "llama.cpp"
"""The kind of a tokenizer that is in a GGUF, and that only llama.cpp knows."""
LLAMA_MODULE = "fastcoder_lsp.llama_engine.vocabulary"
"""The neighbour's module that reads it, by `read(folder)`, and the file's marks, by `infill_marks(gguf)`."""


class TextEncoding(Protocol):
    """The ids of a text."""

    ids: list[int]


class TextEncoder(Protocol):
    """What a library's encoder does here: `tokenizers`', or llama.cpp's."""

    pre_tokenizer: Any

    def encode(self, sequence: str, *, add_special_tokens: bool) -> TextEncoding:
        """The ids of a text."""

    def encode_batch(self, input: list[str], *, add_special_tokens: bool) -> Sequence[TextEncoding]:  # noqa: A002
        """The ids of several texts."""


_TRIAL = "def f(x):\n\treturn x  # ß 語 \U0001f642 \x00\n"
"""A text that every tokenizer is tried on when it is loaded: some descriptions fail only in use."""
_LARGEST = 256 << 20
"""Most characters of a description: five times the largest known one; a longer one is cut and is no JSON."""
# The rest of a word, where a tokenizer has no pre-tokenizer to ask.
_WORD = re.compile(r"[^\S\n]?\w+|[^\S\n]?[^\s\w]+|\n+|[^\S\n]+")
_MOST: Final = 4  # files that are kept, the latest; one takes some 8 MB


def prepared(description: str, kept: Path | None) -> Prepared:
    """The prepared description, read from the folder `kept` or made and stored there. Raises as `prepare`."""
    if kept is None:
        return prepare(description)
    path = kept / f"{_name(description)}.npz"
    found = _read(path, identity_of(description))
    if found is None:
        found = prepare(description)
        with suppress(OSError):  # a cache that cannot be written: the next start prepares it again
            _write(path, found)
    return found


def _name(description: str) -> str:
    return f"{hashlib.sha256(description.encode()).hexdigest()[:32]}-{_code()}"


@cache
def _code() -> str:
    """A hash of the code that prepares it and of this form of the file."""
    return hashlib.sha256(Path(__file__).read_bytes()).hexdigest()[:8]


def _read(path: Path, identity: str) -> Prepared | None:
    def parse(data: bytes) -> Prepared:
        with np.load(BytesIO(data), allow_pickle=False) as file:
            meta = json.loads(file["meta"].tobytes())
            return Prepared(
                identity=identity,
                control={str(name): int(token) for name, token in meta["control"].items()},
                start_ids=tuple(map(int, meta["start_ids"])),
                pieces=file["pieces"].tobytes(),
                ends_V=file["ends_V"],
                order_S=file["order_S"],
                encoder=file["encoder"].tobytes().decode(),
            )

    return read_cached(path, parse)


def _write(path: Path, made: Prepared) -> None:
    """Write the file, and delete older ones. Raises OSError if it cannot be written."""
    meta = json.dumps({"control": dict(made.control), "start_ids": made.start_ids})
    private_folder(path.parent)
    with appearing(path) as file:
        np.savez(
            file,
            meta=_bytes(meta.encode()),
            pieces=_bytes(made.pieces),
            ends_V=made.ends_V,
            order_S=made.order_S,
            encoder=_bytes(made.encoder.encode()),
        )
    older = sorted(
        (entry for entry in path.parent.iterdir() if entry != path), key=lambda entry: -entry.stat().st_mtime
    )
    for entry in older[_MOST - 1 :]:
        entry.unlink(missing_ok=True)


def _bytes(content: bytes) -> np.ndarray[tuple[int], np.dtype[np.uint8]]:
    return np.frombuffer(content, np.uint8)


class Tokenizer:
    """Text ↔ token ids of one model.

    Attributes:
        control: name → id of the tokens that are no text.
        end_ids: ids after which nothing can be shown: all control tokens.
        start_ids: the ids that the model expects before everything else (its BOS token), often none.
        vocabulary: one more than the highest known id.
        identity: names this tokenizer in stored formats.
        config: the model's `config.json`, which tells families with the same control tokens apart; empty if unknown.
    """

    def __init__(
        self,
        description: str,
        kept: Path | None = None,
        config: Mapping[str, Any] = MappingProxyType({}),
        folder: Path | None = None,
    ) -> None:
        self.config = config
        try:
            if folder is not None and _is_of_llama(description):
                made, text = import_module(LLAMA_MODULE).read(folder)
            else:
                made = prepared(description, kept)
                text = _encoder(made.encoder)
            self._take(made, text)
            self.decode(self.encode(_TRIAL))
        except (FastcoderError, MemoryError):
            raise
        except Exception as failure:  # the library raises plain ones, and a description may lack or garble anything
            raise ModelInvalidError(f"it cannot be used ({_said(failure)})", HINT) from failure

    def _take(self, made: Prepared, text: TextEncoder) -> None:
        self.identity = made.identity
        self.control = made.control
        self.end_ids = frozenset(made.control.values())
        self._pieces = [made.pieces[start:end] for start, end in pairwise([0, *made.ends_V.tolist()])]
        self.vocabulary = max(len(self._pieces), max(self.end_ids, default=-1) + 1)
        self.start_ids = made.start_ids
        self._text = text
        self._ids_S = made.order_S
        self._ordered = list(map(self._pieces.__getitem__, made.order_S.tolist()))
        alone = np.diff(made.ends_V, prepend=0) == 1
        self._bytes_known = frozenset(np.frombuffer(made.pieces, np.uint8)[made.ends_V[alone] - 1].tolist())
        self.starting_with = lru_cache(maxsize=512)(self._starting_with)

    @classmethod
    def load(cls, folder: Path, kept: Path | None = None) -> "Tokenizer":
        """The tokenizer of a model's folder, prepared once in `kept`; ModelInvalidError without a usable one."""
        path = folder / "tokenizer.json"
        try:
            with path.open(encoding="utf-8") as file:
                description = file.read(_LARGEST)
            return cls(description, kept, read_json(folder / "config.json"), folder)
        except (OSError, UnicodeDecodeError) as failure:
            raise ModelInvalidError(
                f"{path} cannot be read: {failure}", "Name a model's folder that has a tokenizer.json."
            ) from failure
        except ModelInvalidError as failure:
            raise ModelInvalidError(f"{path}: {failure.message}", failure.hint) from failure

    def encode(self, text: str) -> list[int]:
        """The ids of `text`, none of which is a control token."""
        return self._text.encode(printable(text), add_special_tokens=False).ids

    def encode_many(self, texts: Sequence[str]) -> list[list[int]]:
        """`encode` of each text, by as many threads as the library takes."""
        encodings = self._text.encode_batch([printable(text) for text in texts], add_special_tokens=False)
        return [encoding.ids for encoding in encodings]

    def decode(self, ids: Sequence[int]) -> str:
        """The text of `ids`, control tokens dropped; bytes that are no character become U+FFFD."""
        return b"".join(map(self.piece, ids)).decode("utf-8", errors="replace")

    def piece(self, token: int) -> bytes:
        """The bytes of one token; empty for a control token and an id that does not exist."""
        return self._pieces[token] if 0 <= token < len(self._pieces) else b""

    def last_word(self, text: str) -> int:
        """The start of the last unit of `text` that the tokenizer never merges with the text before it.

        Such a unit is a word with the blank or sign that leads it, a run of signs, or a run of blanks, which the user
        may still be typing. `text` is at most a few lines.
        """
        if not text:
            return 0
        if self._text.pre_tokenizer is None:
            return [match.start() for match in _WORD.finditer(text)][-1]
        start: int = self._text.pre_tokenizer.pre_tokenize_str(printable(text))[-1][1][0]
        return start

    def can_spell(self, text: bytes) -> bool:
        """Whether any beginning of `text` that tokens have spelt can be continued to the whole."""
        return self._bytes_known.issuperset(text)

    def exactly(self, text: bytes) -> list[int]:
        """The ids whose bytes are `text`."""
        low = bisect.bisect_left(self._ordered, text)
        found: list[int] = self._ids_S[low : bisect.bisect_right(self._ordered, text, low)].tolist()
        return found

    def _starting_with(self, prefix: bytes) -> Int64s:
        """The ids whose bytes start with `prefix`, ascending. Remembered (`starting_with`)."""
        low = bisect.bisect_left(self._ordered, prefix)
        high = bisect.bisect_left(self._ordered, _after(prefix), low) if prefix else len(self._ordered)
        ids = np.sort(self._ids_S[low:high])
        ids.flags.writeable = False
        return ids


def printable(text: str) -> str:
    """`text` with each lone surrogate, which no UTF-8 can hold, replaced by a question mark."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-8", errors="replace").decode()
    return text


def _after(prefix: bytes) -> bytes:
    """The least bytes greater than everything that starts with `prefix`."""
    stripped = prefix.rstrip(b"\xff")
    return stripped[:-1] + bytes([stripped[-1] + 1]) if stripped else prefix + b"\xff" * 64


def _is_of_llama(description: str) -> bool:
    return len(description) < len(LLAMA_TOKENIZER) + 64 and LLAMA_TOKENIZER in description


def _encoder(description: str) -> tokenizers.Tokenizer:
    """The library's encoder. It panics on some garbled descriptions, which is no `Exception`."""
    try:
        return tokenizers.Tokenizer.from_str(description)
    except BaseException as failure:
        if isinstance(failure, (KeyboardInterrupt, SystemExit, MemoryError)):
            raise
        raise ModelInvalidError(f"it cannot be used ({_said(failure)})", HINT) from failure


def _said(failure: BaseException) -> str:
    return f"{type(failure).__name__}: {failure}".partition("\n")[0][:200]
