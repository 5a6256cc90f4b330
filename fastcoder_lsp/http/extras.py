"""Of the chunks of other files that a client gives along, those that a prompt could have room for."""

from collections.abc import Sequence

from fastcoder_lsp.core import Extra

LONGEST = 50_000
"""Characters of a chunk: what is longer has no place in any prompt, and would be read by the model's thread in vain."""
MOST, CHARACTERS = 256, 200_000
"""Chunks of a document, and their characters together: many times what a prompt has room for."""
LONGEST_NAME = 4096
"""Characters: no file's is longer, and the process with the model hangs up after 65,536 bytes of one."""


def within_bounds(extras: Sequence[Extra]) -> tuple[Extra, ...]:
    """The last ones that are not too long, in their order."""
    kept, room = list[Extra](), CHARACTERS
    for extra in reversed(extras):
        length = len(extra.name) + len(extra.text)
        if length > LONGEST or len(extra.name) > LONGEST_NAME:
            continue
        room -= length
        if room < 0 or len(kept) == MOST:
            break
        kept.append(extra)
    return tuple(reversed(kept))
