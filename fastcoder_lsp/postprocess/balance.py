"""Brackets and quotes: a suggestion closes what it opens, and nothing that is closed below already."""

from dataclasses import dataclass

from fastcoder_lsp.postprocess.overwrite import replaces
from fastcoder_lsp.postprocess.place import NEAR, Place
from fastcoder_lsp.syntax import CLOSER_OF, MARKUP, indent, scan, signs


def balance(text: str, place: Place) -> str:
    """`text` cut before a closer too many, and closed where it leaves something open that nothing below closes."""
    if place.language in MARKUP or not text.strip():
        return text
    state = _State.of(text, place)
    if state.surplus is not None:
        return text[: state.surplus]
    return text + state.missing


@dataclass(frozen=True, slots=True)
class _State:
    """`surplus`: offset of the first closer that has nothing to close, or None; `missing`: what would close all."""

    surplus: int | None
    missing: str

    @classmethod
    def of(cls, text: str, place: Place) -> "_State":
        before = place.near_before
        after = place.after[replaces(text, place.before, place.after, place.language) :]
        closing = [sign for _, sign in scan(after[:NEAR], place.language).closers]
        outer = list(scan(before, place.language).openers)
        cut_short = len(before) < len(place.before) or len(after) > NEAR
        found, quote = signs(before + text, place.language)
        own: list[tuple[int, str]] = []
        for at, sign in found:
            if at < len(before):
                continue
            if sign in CLOSER_OF:
                own.append((at, sign))
            elif own:
                if CLOSER_OF[own[-1][1]] != sign:
                    return cls(at - len(before), "")
                own.pop()
            elif outer:
                if CLOSER_OF[outer[-1][1]] != sign or not _free([sign for _, sign in outer], closing, cut_short):
                    return cls(at - len(before), "")
                outer.pop()
            elif not cut_short:
                return cls(at - len(before), "")
        free = _free([sign for _, sign in (*outer, *own)], closing, cut_short)
        return cls(None, _closed(before + text, own[max(0, len(own) - free) :], _quote(quote, place)))


def _free(openers: list[str], closing: list[str], cut_short: bool) -> int:
    """How many of `openers`, the innermost ones, the closers that follow the cursor leave open."""
    wanted = [CLOSER_OF[sign] for sign in reversed(openers)]
    missing = len(wanted) - len(closing)
    if not cut_short and missing >= 0 and wanted[missing:] == closing:
        return missing
    for count in range(len(wanted) + 1):
        shared = min(len(wanted) - count, len(closing))
        if wanted[count : count + shared] == closing[:shared] and (shared or not closing):
            return count
    return len(wanted)


def _quote(quote: str, place: Place) -> str:
    """The quote that is missing if any: that of a string that ends nowhere else."""
    if not quote:
        return ""
    opened = scan(place.near_before, place.language).quote == quote
    if quote in (place.right if len(quote) == 1 and quote != "`" else place.after):
        return ""
    return "" if opened and (len(quote) > 1 or quote == "`") else quote


def _closed(text: str, openers: list[tuple[int, str]], quote: str) -> str:
    """What closes `openers` at the end of `text`: on its last line, or each on a line of its own as it was opened."""
    added, last = quote, -1
    for at, sign in reversed(openers):
        start = text.rfind("\n", 0, at) + 1
        line = text[start:].partition("\n")[0]
        below = start + len(line) < len(text) and start != last
        added += (f"\n{indent(line)}" if below else "") + CLOSER_OF[sign]
        last = start
    return added
