"""A model's tokenizer: text to ids, ids to bytes, and which ids are control tokens.

Reads `tokenizer.json` by the `tokenizers` library. Text of a user never yields a control token: the encoder used for
text does not know their names. Owns no prompt format; what the control tokens are for is the prompt's knowledge.
"""

import bisect
import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import tokenizers

from fastcoder_lsp.errors import FastcoderError, ModelInvalidError

_CONTROL_NAME = re.compile(r"▁?<[^<>\s]+>|\[(PAD\d*|UNK|CLS|SEP|MASK|[A-Z_]*INST|@BOS@|TOOL_[A-Z]+)\]")
# Gemma has tags of its own as added tokens that are plain text all the same.
_TAG = re.compile(
    r"</?(table|caption|thead|tbody|tfoot|tr|th|td|h[1-6]|blockquote|strong|em|b|i|u|s|sub|sup|code|a|img|ul|ol|li|p|br)>"
)
_BYTE_NAME = re.compile(r"<0x([0-9A-Fa-f]{2})>")
_SPACE = "▁"
_HINT = "Fetch the model again: fastcoder-lsp model pull; one of your own: copy it again."
_TRIAL = "def f(x):\n\treturn x  # ß 語 \U0001f642 \x00\n"
"""What every tokenizer is tried on as it is loaded: some descriptions fail only when they are used."""
_LARGEST = 256 << 20
"""Characters of a description that are read: five times the largest that is known; what is cut off is no JSON."""
_MOST_GAPS = 1 << 16
"""Ids without a token that a vocabulary may have, beside as many as it has tokens: memory goes by the highest."""
# The rest of a word, where a tokenizer has no pre-tokenizer to ask.
_WORD = re.compile(r"[^\S\n]?\w+|[^\S\n]?[^\s\w]+|\n+|[^\S\n]+")


class Tokenizer:
    """Text ↔ token ids of one model.

    Attributes:
        control: name → id of the tokens that are no text.
        end_ids: ids after which nothing can be shown: all control tokens.
        start_ids: what the model wants before everything else (its BOS token), often nothing.
        vocabulary: one more than the highest known id.
        identity: names this tokenizer in stored formats.
    """

    def __init__(self, description: str) -> None:
        try:
            self._take(description)
            self.decode(self.encode(_TRIAL))
        except (FastcoderError, MemoryError):
            raise
        except Exception as failure:  # the library raises plain ones, and a description may lack or garble anything
            raise ModelInvalidError(f"it cannot be used ({_said(failure)})", _HINT) from failure

    def _take(self, description: str) -> None:
        config = _parse(description)
        self.identity = hashlib.sha256(description.encode()).hexdigest()[:16]
        self.control: Mapping[str, int] = _control_tokens(config)
        self.end_ids = frozenset(self.control.values())
        self._pieces = _pieces(config, self.end_ids)
        self.vocabulary = max(len(self._pieces), max(self.end_ids, default=-1) + 1)
        self.start_ids = _start_ids(config, self.control)
        self._text = _encoder(json.dumps(_text_only(config, self.control), ensure_ascii=False))
        self._ordered = sorted((piece, token) for token, piece in enumerate(self._pieces) if piece)
        self._ids_S = np.array([token for _, token in self._ordered], np.int64)
        self._bytes_known = frozenset(piece[0] for piece, _ in self._ordered if len(piece) == 1)
        self.starting_with = lru_cache(maxsize=512)(self._starting_with)

    @classmethod
    def load(cls, folder: Path) -> "Tokenizer":
        """The tokenizer of a model's folder.

        Raises:
            ModelInvalidError: no tokenizer.json in it, or one that cannot be used.
        """
        path = folder / "tokenizer.json"
        try:
            with path.open(encoding="utf-8") as file:
                description = file.read(_LARGEST)
            return cls(description)
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
        """Where the last unit of `text` begins that the tokenizer never merges with what stands before it.

        Such a unit is a word with the blank or sign that leads it, a run of signs, or a run of blanks: what a person
        is still typing. `text` is at most a few lines.
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
        low = bisect.bisect_left(self._ordered, (text, -1))
        high = bisect.bisect_left(self._ordered, (text + b"\0", -1), low)
        return [token for _, token in self._ordered[low:high]]

    def _starting_with(self, prefix: bytes) -> npt.NDArray[np.int64]:
        """The ids whose bytes start with `prefix`, ascending. Remembered (`starting_with`)."""
        low = bisect.bisect_left(self._ordered, (prefix, -1))
        high = bisect.bisect_left(self._ordered, (_after(prefix), -1), low) if prefix else len(self._ordered)
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


def _parse(description: str) -> dict[str, Any]:
    try:
        config = json.loads(description)
    except (ValueError, RecursionError) as failure:
        raise ModelInvalidError(f"not a tokenizer's JSON ({failure})", _HINT) from failure
    model = config.get("model") if isinstance(config, dict) else None
    if not isinstance(model, dict):
        raise ModelInvalidError("it does not describe a tokenizer", _HINT)
    kind = model.get("type")
    if kind != "BPE":
        raise ModelInvalidError(f"a tokenizer of kind {kind} is not supported", "Choose a model with a BPE tokenizer.")
    return dict(config)


def _encoder(description: str) -> tokenizers.Tokenizer:
    """The library's encoder. It panics on some garbled descriptions, which is no `Exception`."""
    try:
        return tokenizers.Tokenizer.from_str(description)
    except BaseException as failure:
        if isinstance(failure, (KeyboardInterrupt, SystemExit, MemoryError)):
            raise
        raise ModelInvalidError(f"it cannot be used ({_said(failure)})", _HINT) from failure


def _said(failure: BaseException) -> str:
    """What an exception says, in a line."""
    return f"{type(failure).__name__}: {failure}".partition("\n")[0][:200]


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
        raise ModelInvalidError("it holds token ids that cannot be", _HINT)
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

    Printable bytes stand for themselves, the others for characters from 256 on; where such a byte itself is in a name,
    the name is no byte-level one, and it becomes what Latin-1 cannot encode.
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
