"""The one maker of decode requests: what every benchmark asks the decoding loop for.

Owns how a tokenizer and a prompt become a `DecodeRequest`; what ends the text is each benchmark's own.
"""

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
import numpy.typing as npt

from fastcoder_lsp.core import GREEDY, Sampler
from fastcoder_lsp.decode.loop import DecodeRequest
from fastcoder_lsp.prompt.healing import allowed
from fastcoder_lsp.tokenizer import Tokenizer

NODES = 16
"""Rows of one verification where a benchmark says nothing else."""


def decode_request(
    tokenizer: Tokenizer | None,
    prompt: Sequence[int],
    max_tokens: int,
    *,
    cut: Callable[[str], int | None] | None = None,
    healing: bytes = b"",
    sampler: Sampler = GREEDY,
    document: str = "",
    nodes: int = NODES,
    may_end: bool = True,
) -> DecodeRequest:
    """What is decoded after `prompt`.

    Args:
        tokenizer: the model's; None for made-up weights, whose tokens stand for no text.
        prompt: ids, at least one.
        max_tokens: the output has no more.
        cut: see `DecodeRequest`; None: no text ends the output.
        healing: bytes that the first tokens must spell.
        sampler: greedy by default.
        document: the URI that drafters keep their caches under.
        nodes: rows of one verification, the pending ones included.
        may_end: whether an end-of-text token ends the output.
    """
    return DecodeRequest(
        prompt=tuple(prompt),
        max_tokens=max_tokens,
        end_ids=tokenizer.end_ids if tokenizer is not None and may_end else frozenset(),
        piece=_no_text if tokenizer is None else tokenizer.piece,
        allow=_no_ids if tokenizer is None else partial(allowed, tokenizer),
        cut=_never if cut is None else cut,
        healing=healing,
        sampler=sampler,
        document=document,
        nodes=nodes,
    )


def line_end(text: str) -> int | None:
    """A `cut` that keeps the rest of one line."""
    end = text.find("\n")
    return end if end >= 0 else None


def _never(_text: str) -> int | None:
    return None


def _no_text(_token: int) -> bytes:
    return b"x"


def _no_ids(_remaining: bytes) -> npt.NDArray[np.int64]:
    return np.zeros(0, np.int64)
