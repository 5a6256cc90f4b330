"""What a suggestion repeats of the text that follows the cursor."""

from fastcoder_lsp.postprocess.overwrite import fits
from fastcoder_lsp.postprocess.place import Place

_SURE = 4
"""A repetition of so many characters at the start of the rest of the line is no chance."""


def overlap(text: str, place: Place) -> str:
    """`text` without its end that stands right of the cursor, or in the lines below, already."""
    return _lines_below(_rest_of_line(text, place), place)


def _rest_of_line(text: str, place: Place) -> str:
    right = place.right.rstrip()
    if not right.strip():
        return text
    tail = text.rstrip()
    if place.closing:
        closing = place.closing.strip()
        doubled = tail.endswith(closing) and not fits(place.near_before + tail, closing, place.language)
        return tail[: -len(closing)] if doubled else text
    if "\n" in text:
        text = tail = text.partition("\n")[0].rstrip()
    for length in range(min(len(right), len(tail)), 0, -1):
        shared = right[:length]
        if not tail.endswith(shared):
            continue
        whole = length == len(right) and (length >= _SURE or not shared.strip().isalnum() or tail == shared)
        if whole or (length >= _SURE and _at_word_ends(tail, right, length)):
            return tail[:-length]
    return text


def _at_word_ends(tail: str, right: str, length: int) -> bool:
    """Whether the shared part is whole words in both texts."""
    first = tail[-length:][:1]
    begins = length == len(tail) or not (_wordy(tail[-length - 1]) and _wordy(first))
    ends = length == len(right) or not (_wordy(right[length - 1]) and _wordy(right[length]))
    return begins and ends


def _wordy(char: str) -> bool:
    return char.isalnum() or char == "_"


def _lines_below(text: str, place: Place) -> str:
    """`text` up to where its lines go on as the lines below the cursor do.

    Of closers alone that is the balance's business: `}` may be wanted though another one follows.
    """
    if place.right.strip() and not place.closing:
        return text
    below = [line.rstrip() for line in place.below if line.strip()]
    lines = text.split("\n")
    said = [index for index, line in enumerate(lines) if line.strip()]
    whole = [(place.left + line if not index else line).rstrip() for index, line in enumerate(lines)]
    for at, index in enumerate(said):
        if not index and place.left.strip():
            continue
        run = 0
        while run < min(len(said) - at, len(below)) and whole[said[at + run]] == below[run]:
            run += 1
        to_the_end = at + run == len(said)
        if run > 1 or (run and to_the_end and lines[index].strip(")]};, \t")):
            return "\n".join(lines[:index])
    return text
