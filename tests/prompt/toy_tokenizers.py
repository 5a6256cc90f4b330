"""Small tokenizers of the families' kinds, trained in a moment on Python source: real parts, no download.

`toy_sample.txt` never changes: the tests that count tokens depend on it.
"""

import json
from functools import cache
from pathlib import Path

import tokenizers
from tokenizers import decoders, models, normalizers, pre_tokenizers, processors, trainers

from fastcoder_lsp.prompt import TEMPLATES, Template
from fastcoder_lsp.tokenizer import Tokenizer

QWEN_SPLIT = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
SAMPLE = Path(__file__).with_name("toy_sample.txt").read_text(encoding="utf-8")


@cache
def byte_level(split: bool = True, control: tuple[str, ...] = ()) -> Tokenizer:
    """A byte-level BPE, with Qwen's way of splitting text or GPT-2's, and these control tokens."""
    return Tokenizer(byte_level_json(split, control))


@cache
def byte_level_json(split: bool = True, control: tuple[str, ...] = ()) -> str:
    raw = tokenizers.Tokenizer(models.BPE())
    raw.pre_tokenizer = (
        pre_tokenizers.Sequence(
            [
                pre_tokenizers.Split(tokenizers.Regex(QWEN_SPLIT), "isolated"),
                pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
            ]
        )
        if split
        else pre_tokenizers.ByteLevel(add_prefix_space=False)
    )
    raw.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=1500, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False
    )
    raw.train_from_iterator([SAMPLE], trainer)
    raw.add_special_tokens(list(control))
    return raw.to_str()


@cache
def sentencepiece(control: tuple[str, ...] = ()) -> Tokenizer:
    """A BPE in SentencePiece's manner, as CodeLlama's: blanks are ▁, unknown characters bytes, a blank before all."""
    return Tokenizer(sentencepiece_json(control))


@cache
def sentencepiece_json(control: tuple[str, ...] = ()) -> str:
    raw = tokenizers.Tokenizer(models.BPE(byte_fallback=True, unk_token="<unk>", fuse_unk=True))
    raw.normalizer = normalizers.Sequence([normalizers.Replace(" ", "▁")])
    every_byte = [f"<0x{byte:02X}>" for byte in range(256)]
    trainer = trainers.BpeTrainer(
        vocab_size=900, special_tokens=["<unk>", "<s>", "</s>", *every_byte], show_progress=False
    )
    raw.train_from_iterator([line for text in SAMPLE.split("\n") for line in (text, "\n")], trainer)
    raw.add_special_tokens(list(control))
    raw.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()])
    raw.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 1)])
    config = json.loads(raw.to_str())
    config["added_tokens"] = [entry for entry in config["added_tokens"] if not entry["content"].startswith("<0x")]
    config["normalizer"] = {
        "type": "Sequence",
        "normalizers": [
            {"type": "Prepend", "prepend": "▁"},
            {"type": "Replace", "pattern": {"String": " "}, "content": "▁"},
        ],
    }
    return json.dumps(config)


def marks(template: Template) -> tuple[str, ...]:
    """All control tokens that a template names."""
    named = (*template.marks, template.repository, template.file, *template.tokens)
    return tuple(dict.fromkeys(name for name in named if name))


def of_family(name: str) -> Tokenizer:
    """A tokenizer with the marks of the family `name` of the table, and what tells it from others with the same."""
    template = next(template for template in TEMPLATES if template.name == name)
    return Tokenizer(json_of_family(name), config={"model_type": next(iter(template.unbiased), "")})


def json_of_family(name: str) -> str:
    template = next(template for template in TEMPLATES if template.name == name)
    if template.lead:
        return sentencepiece_json((*marks(template), "▁<EOT>"))
    return byte_level_json(True, (*marks(template), "<|endoftext|>"))
