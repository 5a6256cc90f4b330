"""A model's tokenizer: text to ids, ids to bytes, and which ids are control tokens."""

from fastcoder_lsp.tokenizer.tokenizer import Tokenizer, printable

__all__ = ["Tokenizer", "printable"]
