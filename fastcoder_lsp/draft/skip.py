"""Skip tokens: where in its line does the text end?

The FastCoder paper, section on skip tokens: the first token of a line that is not white space is hard to retrieve, for
little before it tells it. "The context ends in a skip token" can be read in two ways; both are here.
"""

from collections.abc import Callable, Sequence
from typing import Literal

Reading = Literal["ends", "next"]
"""`ends`: the text's last token *is* its line's first non-white-space token. `next`: the token that comes *will be* it,
for the line is blank so far."""


def at_skip_token(tokens: Sequence[int], piece: Callable[[int], bytes], reading: Reading) -> bool:
    """Whether the text that `tokens` spell ends at a skip token, in the given reading."""
    if reading == "next":
        return _is_blank(tokens, piece)
    last = piece(tokens[-1])
    line = last[last.rfind(b"\n") + 1 :]
    return bool(line.strip()) and (len(line) < len(last) or _is_blank(tokens[:-1], piece))


def _is_blank(tokens: Sequence[int], piece: Callable[[int], bytes]) -> bool:
    """Whether the last line of the text is blank; one that is blank over 64 tokens is no code and counts as not."""
    for token in reversed(tokens[-64:]):
        text = piece(token)
        line = text[text.rfind(b"\n") + 1 :]
        if line.strip():
            return False
        if len(line) < len(text):
            return True
    return len(tokens) < 64
