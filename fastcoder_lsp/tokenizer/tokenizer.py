"""A model's tokenizer in use, by the `tokenizers` library; a start reads the stored result of an earlier one.

The stored file is numpy's archive of arrays, without pickles, each with a check sum. Its name is a hash of the whole
description and of the code that prepared it; a damaged file, or one of another form, is replaced. Reading it replaces a
second of work.
"""

import bisect
import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cache, lru_cache
from io import BytesIO
from itertools import pairwise
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import tokenizers

from fastcoder_lsp.core.files import appearing, private_folder, read_cached
from fastcoder_lsp.errors import FastcoderError, ModelInvalidError
from fastcoder_lsp.tokenizer import description as worked_out_by
from fastcoder_lsp.tokenizer.description import HINT, Prepared, identity_of, prepare

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
    own = (Path(worked_out_by.__file__).read_bytes(), Path(__file__).read_bytes())
    return hashlib.sha256(b"".join(own)).hexdigest()[:8]


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
        self, description: str, kept: Path | None = None, config: Mapping[str, Any] = MappingProxyType({})
    ) -> None:
        self.config = config
        try:
            self._take(prepared(description, kept))
            self.decode(self.encode(_TRIAL))
        except (FastcoderError, MemoryError):
            raise
        except Exception as failure:  # the library raises plain ones, and a description may lack or garble anything
            raise ModelInvalidError(f"it cannot be used ({_said(failure)})", HINT) from failure

    def _take(self, made: Prepared) -> None:
        self.identity = made.identity
        self.control = made.control
        self.end_ids = frozenset(made.control.values())
        self._pieces = [made.pieces[start:end] for start, end in pairwise([0, *made.ends_V.tolist()])]
        self.vocabulary = max(len(self._pieces), max(self.end_ids, default=-1) + 1)
        self.start_ids = made.start_ids
        self._text = _encoder(made.encoder)
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
            return cls(description, kept, _config(folder))
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

    def _starting_with(self, prefix: bytes) -> npt.NDArray[np.int64]:
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


def _config(folder: Path) -> Mapping[str, Any]:
    """The contents of config.json; empty where it cannot be read, which the reader of the model reports."""
    try:
        config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}
    return config if isinstance(config, dict) else {}
