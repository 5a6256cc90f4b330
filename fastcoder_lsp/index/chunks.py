"""A text's tokens, chunk by chunk, so that a keystroke costs one chunk and not the file.

Chunk boundaries depend only on the text, so a store that followed edits holds the same tokens as one built from
scratch. A chunk begins at a line whose first character is no white space: the pre-tokenizers of the known models
(Qwen's and GPT-2's expressions) split there anyway, so the tokens are those of the whole text. Only in a long stretch
without such a line does a chunk begin at an indented one.
"""

from collections import OrderedDict
from collections.abc import Iterator, Sequence

import numpy as np

from fastcoder_lsp.index.part import LARGEST_ID, Tokens32
from fastcoder_lsp.tokenizer import Tokenizer

SMALL = 1_000  # fewest characters of a chunk, if the text goes on
LARGE = 3_000  # from so many characters on, a chunk ends before any line that is not blank
REMEMBERED = 8_000_000  # characters of remembered chunks: a longer text is tokenized again at each of its changes
AT_ONCE = 1_000_000  # characters that the tokenizer gets at once: while it works it takes some hundred bytes for each


def split(text: str) -> list[str]:
    r"""Cut a text into chunks (see the module's docstring); lines end at `\n` alone."""
    chunks, start, line = [], 0, 0
    while True:
        # The next line that may begin a chunk starts at `line`; long stretches are skipped in one step.
        line = text.find("\n", max(line, start + SMALL - 1)) + 1
        if line == 0 or line >= len(text):
            break
        first = text[line]
        if not first.isspace() or (line - start >= LARGE and not _is_blank(text, line)):
            chunks.append(text[start:line])
            start = line
    chunks.append(text[start:])
    return chunks


def _is_blank(text: str, line: int) -> bool:
    end = text.find("\n", line)
    return not text[line : end if end >= 0 else len(text)].strip()


class ChunkedEncoder:
    """Encodes texts by chunks, and keeps `remembered` characters of recently edited ones. Not thread-safe."""

    def __init__(self, encoder: Tokenizer, remembered: int = REMEMBERED) -> None:
        self.identity = encoder.identity
        self._encoder = encoder
        self._remembered = remembered
        self._held = 0
        self._chunks: OrderedDict[str, Tokens32] = OrderedDict()

    def encode(self, text: str) -> Tokens32:
        """The tokens of a text that is being edited; its chunks are remembered."""
        chunks = split(text)
        missing = list(dict.fromkeys(chunk for chunk in chunks if chunk not in self._chunks))
        for chunk, tokens in zip(missing, self._tokens(missing), strict=True):
            self._chunks[chunk] = tokens
            self._held += len(chunk)
        for chunk in chunks:
            self._chunks.move_to_end(chunk)
        tokens = np.concatenate([self._chunks[chunk] for chunk in chunks])
        while self._held > self._remembered:
            forgotten, _ = self._chunks.popitem(last=False)
            self._held -= len(forgotten)
        return tokens

    def encode_many(self, texts: Sequence[str]) -> list[Tokens32]:
        """The tokens of many texts, by as many threads as the tokenizer takes; remembers nothing."""
        chunks = [split(text) for text in texts]
        encoded = self._tokens([chunk for parts in chunks for chunk in parts])
        return [np.concatenate([next(encoded) for _ in parts]) for parts in chunks]

    def _tokens(self, chunks: Sequence[str]) -> Iterator[Tokens32]:
        """The tokens of each chunk, by several threads if there are several."""
        start = 0
        while start < len(chunks):
            end, held = start + 1, len(chunks[start])
            while end < len(chunks) and held + len(chunks[end]) <= AT_ONCE:
                held += len(chunks[end])
                end += 1
            some = chunks[start:end]
            # A single chunk does not queue for the library's threads, which may be busy with a whole repository.
            ids_of = self._encoder.encode_many(some) if len(some) > 1 else map(self._encoder.encode, some)
            yield from map(_array, ids_of)
            start = end


def _array(ids: Sequence[int]) -> Tokens32:
    tokens = np.array(ids, np.int32)
    assert tokens.max(initial=0) <= LARGEST_ID
    return tokens
