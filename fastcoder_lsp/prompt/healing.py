"""Token healing: how far a prompt backs up over half-typed text, and which ids may spell it again.

A prompt that ends inside a word ends in tokens that the model never saw in that place. So it ends before the word, and
the first generated tokens must spell what was typed of it. Owns no state; the tokenizer remembers its tables.
"""

import numpy as np
import numpy.typing as npt

from fastcoder_lsp.tokenizer import Tokenizer, printable

LONGEST = 48
"""Bytes: a longer half-typed word is healed in its last part only; each healed token costs a forward pass."""
_LINES = 400
"""Characters looked at: a word has no need of more."""


def heal_start(tokenizer: Tokenizer, text: str) -> int:
    """Where a prompt that continues `text` ends: before the word, run of signs or run of blanks at its end.

    The end of `text` itself where nothing needs healing, as after a newline that the tokenizer keeps apart from the
    indentation that follows it.
    """
    tail = text[-_LINES:]
    skipped = len(text) - len(tail)
    if not tail:
        return skipped
    if tail.endswith("\n"):
        start = tokenizer.last_word(tail + "  ")
        start = min(len(tail), start)
    else:
        start = tokenizer.last_word(tail)
    word = tail[start:]
    while len(printable(word).encode()) > LONGEST:
        word = word[len(word) // 2 :]
    if not tokenizer.can_spell(printable(word).encode()):
        return len(text)
    return len(text) - len(word)


def allowed(tokenizer: Tokenizer, remaining: bytes) -> npt.NDArray[np.int64]:
    """The ids that agree with `remaining`, ascending: their bytes start with it, or are a beginning of it.

    Empty only where the vocabulary cannot spell `remaining`, which `heal_start` rules out. ~20 µs after a first call.
    """
    longer = tokenizer.starting_with(remaining)
    shorter = [token for end in range(1, len(remaining)) for token in tokenizer.exactly(remaining[:end])]
    if not shorter:
        return longer
    return np.union1d(longer, np.array(shorter, np.int64))
