"""A `tokenizer.json` from the metadata of a GGUF: the same ids as the publisher's own tokenizer.

Owns the table of byte-level BPE's pre-tokenizers by GGUF's names (`tokenizer.ggml.pre`), each as in the publisher's own
`tokenizer.json`. Tokenizers of another kind, or with an unknown pre-tokenizer, are left to transformers.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

from fastcoder_lsp.model.gguf_header import Header, Scalar

TOKENS, KINDS, MERGES = "tokenizer.ggml.tokens", "tokenizer.ggml.token_type", "tokenizer.ggml.merges"
LISTS = (TOKENS, KINDS, MERGES)

_LETTERS = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+"
_REST = r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
_PLAIN = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False}


class TokenType(IntEnum):
    """GGUF's types of tokens."""

    NORMAL = 1
    CONTROL = 3
    USER_DEFINED = 4


@dataclass(frozen=True, slots=True)
class PreTokenizer:
    """A pre-tokenizer: its `steps` in the form of `tokenizer.json`.

    `normaliser`: runs before, None for none. `whole_first`: a piece that is a token itself is not merged. `starts`:
    every text begins with the BOS token, unless the file says otherwise.
    """

    steps: tuple[dict[str, Any], ...]
    normaliser: dict[str, Any] | None = None
    whole_first: bool = False
    starts: bool = False


def _split(pattern: str) -> dict[str, Any]:
    return {"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": False}


def _bytes(*, words: bool) -> dict[str, Any]:
    """Bytes as characters; with `words`, also GPT-2's own pattern."""
    return {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": words}


_DIGITS = {"type": "Digits", "individual_digits": True}
_GPT2 = PreTokenizer((_bytes(words=True),))
_DIGIT_BY_DIGIT = PreTokenizer((_DIGITS, _bytes(words=True)))
_QWEN2 = PreTokenizer((_split(rf"{_LETTERS}|\p{{N}}{_REST}"), _bytes(words=False)), normaliser={"type": "NFC"})
_LLAMA3 = PreTokenizer(
    (_split(rf"{_LETTERS}|\p{{N}}{{1,3}}{_REST}"), _bytes(words=False)), whole_first=True, starts=True
)
_SEED_CODER = PreTokenizer(
    (
        _split(rf"{_LETTERS}|\p{{N}}{{1}}| ?[^\s\p{{L}}\p{{N}}\r\n]+|\s*[\r\n]+|\s+(?!\S)|\s+"),
        _bytes(words=False),
    )
)
_DEEPSEEK_CODER = PreTokenizer(
    (
        _split(r"[\r\n]"),
        _split(r"\s?\p{L}+"),
        _split(r"\s?\p{P}+"),
        _split("[一-龥ࠀ-一가-퟿]+"),
        _DIGITS,
        _bytes(words=False),
    )
)
_CUTS = {
    "gpt-2": _GPT2,
    "mellum": _GPT2,
    "seed-coder": _SEED_CODER,
    "dbrx": PreTokenizer(_LLAMA3.steps),
    "qwen2": _QWEN2,
    "deepseek-r1-qwen": _QWEN2,
    "llama-bpe": _LLAMA3,
    "llama3": _LLAMA3,
    "llama-v3": _LLAMA3,
    "deepseek-coder": _DEEPSEEK_CODER,
    "starcoder": _DIGIT_BY_DIGIT,
    "refact": _DIGIT_BY_DIGIT,
    "smollm": _DIGIT_BY_DIGIT,
    "command-r": _DIGIT_BY_DIGIT,
}


def tokenizer_json(header: Header) -> str | None:
    """The description of the file's tokenizer; None for one that only transformers knows.

    Args:
        header: with the contents of `LISTS`.
    """
    cut = _cut(header)
    tokens = header.lists.get(TOKENS, ())
    vocabulary = {str(name): number for number, name in enumerate(tokens)}
    kinds = header.lists.get(KINDS, [TokenType.NORMAL] * len(tokens))
    merges = [str(merge).split(" ", 1) for merge in header.lists.get(MERGES, ())]
    if cut is None or not tokens or len(vocabulary) != len(tokens) or len(kinds) != len(tokens) or not merges:
        return None
    if any(len(merge) != 2 for merge in merges):
        return None
    description = {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": _added(tokens, kinds),
        "normalizer": cut.normaliser,
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": list(cut.steps)},
        "post_processor": _beginning(header, tokens, cut),
        "decoder": {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True},
        "model": {
            "type": "BPE",
            "dropout": None,
            "unk_token": None,
            "continuing_subword_prefix": "",
            "end_of_word_suffix": "",
            "fuse_unk": False,
            "byte_fallback": False,
            "ignore_merges": cut.whole_first,
            "vocab": vocabulary,
            "merges": merges,
        },
    }
    return json.dumps(description, ensure_ascii=False, separators=(",", ":"))


def _cut(header: Header) -> PreTokenizer | None:
    if header.fields.get("tokenizer.ggml.model") != "gpt2":
        return None
    name = header.fields.get("tokenizer.ggml.pre", "default")
    if name == "default":  # early files do not say: Qwen2 has one way alone, others have GPT-2's most often
        return _QWEN2 if header.fields.get("general.architecture") == "qwen2" else _GPT2
    return _CUTS.get(str(name))


def _added(tokens: Sequence[Scalar], kinds: Sequence[Scalar]) -> list[dict[str, Any]]:
    """The tokens that are found in a text before pre-tokenization."""
    return [
        {"id": number, "content": str(tokens[number]), **_PLAIN, "special": kind == TokenType.CONTROL}
        for number, kind in enumerate(kinds)
        if kind in (TokenType.CONTROL, TokenType.USER_DEFINED)
    ]


def _beginning(header: Header, tokens: Sequence[Scalar], cut: PreTokenizer) -> dict[str, Any] | None:
    """The post-processor that puts the BOS token before a text, if the file wants that."""
    number = header.fields.get("tokenizer.ggml.bos_token_id")
    wanted = header.fields.get("tokenizer.ggml.add_bos_token", cut.starts)
    if not wanted or not isinstance(number, int) or not 0 <= number < len(tokens):
        return None
    name = str(tokens[number])
    first, text = {"SpecialToken": {"id": name, "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}
    return {
        "type": "TemplateProcessing",
        "single": [first, text],
        "pair": [first, text, {"Sequence": {"id": "B", "type_id": 0}}],
        "special_tokens": {name: {"id": name, "ids": [number], "tokens": [name]}},
    }
