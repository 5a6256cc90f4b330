"""A tokenizer of words and signs, so that the datastore's tests need no model."""

import re
import zlib
from collections.abc import Sequence

from fastcoder_lsp.tokenizer import Tokenizer


class ToyEncoder(Tokenizer):
    """Each word, sign and run of blanks is a token; its id is made of its text."""

    def __init__(self) -> None:
        self.identity = "toy"

    def encode(self, text: str) -> list[int]:
        words = re.findall(r"\n+|[^\S\n]+|\w+|[^\w\s]", text)
        return [zlib.crc32(word.encode("utf-8", "surrogatepass")) % 2**20 for word in words]

    def encode_many(self, texts: Sequence[str]) -> list[list[int]]:
        return [self.encode(text) for text in texts]
