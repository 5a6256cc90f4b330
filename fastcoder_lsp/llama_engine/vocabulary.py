"""A tokenizer by llama.cpp, for the GGUFs whose tokenizer ours does not know, and the marks of infilling."""

import ctypes
import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import llama_cpp.llama_cpp as api
import numpy as np

from fastcoder_lsp.errors import ModelInvalidError
from fastcoder_lsp.llama_engine.library import LlamaModel, library_log
from fastcoder_lsp.model.files import gguf_of
from fastcoder_lsp.tokenizer import HINT, Prepared

_CONTROL, _UNUSED, _UNKNOWN = api.LLAMA_TOKEN_ATTR_CONTROL, api.LLAMA_TOKEN_ATTR_UNUSED, api.LLAMA_TOKEN_ATTR_UNKNOWN
_LONGEST = 512
"""Bytes of a piece; longer ones are asked for again."""


@dataclass(frozen=True, slots=True)
class LlamaEncoding:
    """The ids of one text."""

    ids: list[int]


class LlamaEncoder:
    """Text to ids; a control token's name in a text is text (`parse_special`)."""

    pre_tokenizer = None

    def __init__(self, model: LlamaModel) -> None:
        self._model = model

    def encode(self, sequence: str, *, add_special_tokens: bool) -> LlamaEncoding:
        """The ids of a text, none of which is a control token."""
        del add_special_tokens
        text = sequence.encode()
        room = len(text) + 16
        while True:
            ids = (api.llama_token * room)()
            count = api.llama_tokenize(self._model.vocabulary_pointer, text, len(text), ids, room, False, False)
            if count >= 0:
                return LlamaEncoding(ids[:count])
            room = -count

    def encode_batch(self, input: list[str], *, add_special_tokens: bool) -> Sequence[LlamaEncoding]:  # noqa: A002
        """The ids of several texts."""
        return [self.encode(text, add_special_tokens=add_special_tokens) for text in input]


def infill_marks(gguf: Path) -> dict[str, str]:
    """The marks before a prompt's `prefix`, `suffix` and `middle`, as far as the file or the library tells them.

    The library also knows the names of the marks of families whose files tell no numbers. Raises ModelInvalidError.
    """
    model = LlamaModel(gguf, library_log(), words_only=True)
    words = model.vocabulary_pointer
    found = {"prefix": api.llama_vocab_fim_pre, "suffix": api.llama_vocab_fim_suf, "middle": api.llama_vocab_fim_mid}
    numbers = {part: int(ask(words)) for part, ask in found.items()}
    marks = {
        part: str(api.llama_vocab_get_text(words, number).decode(errors="replace"))
        for part, number in numbers.items()
        if number >= 0
    }
    model.close()
    return marks


def read(folder: Path) -> tuple[Prepared, LlamaEncoder]:
    """The vocabulary of the GGUF that the note in `folder` names; raises ModelInvalidError."""
    gguf = gguf_of(folder)
    if gguf is None:
        raise ModelInvalidError("its GGUF is missing", HINT)
    model = LlamaModel(gguf, library_log(), words_only=True)
    control, pieces = {}, []
    for token in range(model.vocabulary):
        if api.llama_vocab_get_attr(model.vocabulary_pointer, token) & (_CONTROL | _UNUSED | _UNKNOWN):
            name = api.llama_vocab_get_text(model.vocabulary_pointer, token).decode(errors="replace")
            control[name] = token
            pieces.append(b"")
        else:
            pieces.append(_piece(model, token))
    ordered = sorted((piece, token) for token, piece in enumerate(pieces) if piece)
    first = int(api.llama_vocab_bos(model.vocabulary_pointer))
    starts = bool(api.llama_vocab_get_add_bos(model.vocabulary_pointer)) and first >= 0
    prepared = Prepared(
        identity=folder.name[:16],
        control=control,
        start_ids=(first,) if starts else (),
        pieces=b"".join(pieces),
        ends_V=np.fromiter(itertools.accumulate(map(len, pieces)), np.int64, len(pieces)),
        order_S=np.fromiter((token for _, token in ordered), np.int64, len(ordered)),
        encoder="",
    )
    return prepared, LlamaEncoder(model)


def _piece(model: LlamaModel, token: int) -> bytes:
    room = _LONGEST
    while True:
        buffer = ctypes.create_string_buffer(room)
        count = int(api.llama_token_to_piece(model.vocabulary_pointer, token, buffer, room, 0, False))
        if count >= 0:
            return buffer.raw[:count]
        room = -count
