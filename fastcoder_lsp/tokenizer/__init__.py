"""A model's tokenizer: text to ids, ids to bytes, and which ids are control tokens.

Owns no prompt format; what the control tokens are for is the prompt's knowledge.
"""

from fastcoder_lsp.tokenizer.tokenizer import Tokenizer, printable

__all__ = ["Tokenizer", "printable"]
