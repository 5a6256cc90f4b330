"""Token healing: where a prompt ends before half-typed text, and which ids may spell that text again.

A prompt that ends inside a word ends in tokens that the model never saw there. So it ends before the word, and the
first generated tokens must spell its typed part.
"""

import numpy as np
import numpy.typing as npt

from fastcoder_lsp.tokenizer import Tokenizer, printable

MAX_HEALED_BYTES = 48
"""The last bytes of a half-typed word, which are healed; each healed token costs a forward pass."""
_MAX_SEARCHED = 400
"""Characters that are searched for the start of a word."""


def heal_start(tokenizer: Tokenizer, text: str) -> int:
    """The end of a prompt that continues `text`: before the word, run of signs or run of blanks at its end.

    The end of `text` if nothing needs healing, such as after a newline that the tokenizer separates from the
    indentation.
    """
    tail = text[-_MAX_SEARCHED:]
    skipped = len(text) - len(tail)
    if not tail:
        return skipped
    if tail.endswith("\n"):
        start = tokenizer.last_word(tail + "  ")
        start = min(len(tail), start)
    else:
        start = tokenizer.last_word(tail)
    word = tail[start:]
    while len(printable(word).encode()) > MAX_HEALED_BYTES:
        word = word[len(word) // 2 :]
    if not tokenizer.can_spell(printable(word).encode()):
        return len(text)
    return len(text) - len(word)


def allowed(tokenizer: Tokenizer, remaining: bytes) -> npt.NDArray[np.int64]:
    """The ids that agree with `remaining`, ascending: their bytes start with it, or it starts with their bytes.

    Empty only if the vocabulary cannot spell `remaining`, which `heal_start` rules out. ~20 µs after a first call.
    """
    longer = tokenizer.starting_with(remaining)
    shorter = [token for end in range(1, len(remaining)) for token in tokenizer.exactly(remaining[:end])]
    if not shorter:
        return longer
    return np.union1d(longer, np.array(shorter, np.int64))
