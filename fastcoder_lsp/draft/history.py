"""The tokens of one decode in an array that grows, so that no step copies the whole prompt.

Owns the copy; knows nothing of what is looked for in it.
"""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from fastcoder_lsp.core import DraftContext

_ROOM = 512


class History:
    """Prompt and output of the running decode as int32."""

    def __init__(self) -> None:
        self._buffer = np.zeros(_ROOM, np.int32)
        self._size = 0

    def begin(self, context: DraftContext) -> None:
        """Hold exactly the tokens of `context`."""
        self._size = 0
        self.follow(context)

    def follow(self, context: DraftContext) -> None:
        """Append what is new in `context`, which continues what is held."""
        self.append(context.tokens[self._size :])

    def append(self, tokens: Sequence[int]) -> None:
        """Append tokens."""
        held, size = self._size, self._size + len(tokens)
        if size > len(self._buffer):
            grown = np.zeros(size * 2, np.int32)
            grown[:held] = self._buffer[:held]
            self._buffer = grown
        self._buffer[held:size] = tokens
        self._size = size

    def __len__(self) -> int:
        return self._size

    @property
    def tokens(self) -> npt.NDArray[np.int32]:
        """A view of the tokens held; the next `follow` may move them."""
        return self._buffer[: self._size]
