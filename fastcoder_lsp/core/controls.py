r"""Control characters: those that act on a terminal or on the order of a line, and invisible ones.

Control characters except for tab and line ends, marks that change the direction of text, characters without width or
ink, tags, and halves of surrogate pairs. A suggestion ends before one; what a command prints shows it as an escape.
Joiners are part of a word or an emoji where they have an effect that readers see; elsewhere they hide in one.

Source: Unicode, categories Cc, Cf, Cs, Zl and Zp, and the fillers of Hangul; CVE-2021-42574 (Trojan Source). Joiners:
RFC 5892, appendix A (CONTEXTJ), but also between letters that do not join, where Persian has them; UTS 51 for emoji.
"""

import re
import unicodedata
from dataclasses import dataclass
from typing import Any, Final, TextIO


def counted(number: int, noun: str, plural: str = "") -> str:
    """`number` with its noun, as in "1 step" and "1,200 steps"; `plural` where it is not the noun and an "s"."""
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"


_CLASS: Final = (
    "\0-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\xad\u061c\u115f\u1160\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\u3164"
    "\ud800-\udfff\ufeff\uffa0\ufff9-\ufffb\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
)
_CONTROL: Final = re.compile(f"[{_CLASS}]")
_PRINTED: Final = re.compile(f"[{_CLASS}]|\r(?!\n)")
_JOINERS: Final = "\u200c\u200d"
_SOFT_HYPHEN: Final = "\xad"
_IN_WORDS: Final = re.compile(f"[{_JOINERS}{_SOFT_HYPHEN}\U000e0020-\U000e007f]")
_EMOJI: Final = re.compile(
    "[©®\u203c\u2049\u2122\u2139\u2190-\u21ff\u2300-\u27bf\u2900-\u297f\u2b00-\u2bff\U0001f000-\U0001faff]"
)
_JOINING_SCRIPTS: Final = re.compile(
    "[\u0600-\u077f\u07c0-\u08ff\u0900-\u0dff\u0f00-\u109f\u1780-\u18af\u1a20-\u1aaf\u1b00-\u1c4f\ua800-\ua9ff"
    "\uaa00-\uaaff\uabc0-\uabff\ufb50-\ufdff\ufe70-\ufefc\U00010a00-\U00011fff\U0001e900-\U0001e95f]"
)
_VIRAMA: Final = 9  # the combining class of signs that join consonants
_FLAG: Final = re.compile("\U0001f3f4[\U000e0030-\U000e0039\U000e0061-\U000e007a]{3,6}\U000e007f")
"""A black flag with the tags of a region, such as Scotland; more tags could spell any hidden text."""
_FLAG_BEGUN: Final = re.compile("\U0001f3f4[\U000e0030-\U000e0039\U000e0061-\U000e007a]{0,6}\\Z")


@dataclass(frozen=True, slots=True)
class Control:
    """A control character that ends a text before `at`; `in_word`: in the middle of a word or an emoji."""

    at: int
    in_word: bool


def first_control(text: str, start: int, before: str, *, hyphens: bool) -> Control | None:
    """The first control character of `text` from `start` on, as far as no later text can change that.

    `before`: the text left of `text`. `hyphens`: whether soft hyphens have a meaning, as in markup.
    """
    flag = -1
    for found in _CONTROL.finditer(text, start):
        at = found.start()
        if not _IN_WORDS.match(found[0]):
            return Control(at, in_word=False)
        if at < flag:
            continue
        left = text[at - 1] if at else before[-1:]
        if (begun := left + text[at : at + 8]) and (whole := _FLAG.match(begun)):
            flag = at + whole.end() - 1
        elif at + 1 >= len(text) or _FLAG_BEGUN.match(begun):
            return None
        elif not _joins(left, found[0], text[at + 1], hyphens=hyphens):
            return Control(at, in_word=True)
    return None


def _joins(left: str, joiner: str, right: str, *, hyphens: bool) -> bool:
    """Whether `joiner` has its effect between these characters."""
    if joiner == _SOFT_HYPHEN:
        return hyphens and left.isalpha() and right.isalpha()
    if joiner not in _JOINERS or not left:
        return False
    if _in_joining_script(left):
        at_end = not right.isalnum() and (joiner == "\u200d" or unicodedata.combining(left) == _VIRAMA)
        return _in_joining_script(right) or (at_end and not _CONTROL.match(right))
    return joiner == "\u200d" and bool((left == "\ufe0f" or _EMOJI.match(left)) and _EMOJI.match(right))


def _in_joining_script(char: str) -> bool:
    return unicodedata.category(char)[0] in "LM" and _JOINING_SCRIPTS.match(char) is not None


def visible(text: str) -> str:
    """`text` with JSON's escapes in place of control characters, so that JSON stays the same value."""
    return _PRINTED.sub(lambda found: _escape(ord(found[0])), text)


class VisibleStream:
    """A stream that escapes control characters except tabs and line ends; otherwise as the stream it wraps."""

    def __init__(self, stream: TextIO) -> None:
        self.wrapped = stream

    def write(self, text: str) -> int:
        """Write `visible(text)`."""
        self.wrapped.write(visible(text))
        return len(text)

    def writelines(self, lines: Any) -> None:
        """Write each line."""
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.wrapped, name)


def raw_stream(stream: TextIO) -> TextIO:
    """The wrapped stream, for code that draws with control characters; other texts must pass `visible` first."""
    return stream.wrapped if isinstance(stream, VisibleStream) else stream


def _escape(code: int) -> str:
    if code < 0x10000:
        return f"\\u{code:04x}"
    high, low = divmod(code - 0x10000, 0x400)
    return f"\\u{0xD800 + high:04x}\\u{0xDC00 + low:04x}"
