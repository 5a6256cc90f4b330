"""Prompts in which the client has put the model's marks itself: taken apart again.

Many clients write `<|fim_prefix|>…<|fim_suffix|>…<|fim_middle|>` into a plain prompt. What is around the cursor is then
asked for as any client asks, so that the same place has the same text, and the prompt keeps this program's order.
"""

from dataclasses import dataclass

from fastcoder_lsp.core import Extra
from fastcoder_lsp.http.extras import MOST
from fastcoder_lsp.prompt.templates import TEMPLATES, Template


@dataclass(frozen=True, slots=True)
class Parts:
    """Of a prompt: the text before and after the cursor, and what of other files stood before both."""

    before: str
    after: str = ""
    extras: tuple[Extra, ...] = ()


def taken_apart(prompt: str) -> Parts:
    """The parts of `prompt`; one without any family's marks is the text before the cursor.

    Families share the marks around the cursor and differ in those of files: the one that knows them is asked.
    """
    found = (_by(template, prompt) for template in TEMPLATES if template.middle)
    return max((parts for parts in found if parts), key=lambda parts: len(parts.extras), default=Parts(prompt))


def _by(template: Template, prompt: str) -> Parts | None:
    head, prefix, rest = prompt.partition(template.prefix)
    before, suffix, rest = rest.partition(template.suffix)
    after, middle, typed = rest.partition(template.middle)
    if not (prefix and suffix and middle):
        return None
    return Parts(before + typed, after, _files(template.file, head))


def _files(mark: str, head: str) -> tuple[Extra, ...]:
    """What stands before the prefix mark: a name in the first line of each file; what has no text tells nothing.

    Of more files than a question may have, the last ones: a body of marks alone would make half a million.
    """
    if not mark:
        return ()
    pieces = (piece.partition("\n") for piece in head.split(mark)[1:][-MOST:])
    return tuple(Extra(name.strip(), text) for name, _, text in pieces if text.strip())
