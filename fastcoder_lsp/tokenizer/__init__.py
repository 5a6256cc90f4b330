"""A model's tokenizer: text to ids, ids to bytes, and which ids are control tokens.

Owns no prompt format; `prompt` knows the use of control tokens.
"""

from fastcoder_lsp.tokenizer.tokenizer import Tokenizer, printable

__all__ = ["Tokenizer", "printable"]
