r"""Control characters: those that act on a terminal or on the order of a line, and invisible ones.

Control characters except for tab and line ends, marks that change the direction of text, characters without width or
ink, tags, and halves of surrogate pairs. A suggestion ends before one; what a command prints shows it as an escape.

Source: Unicode, categories Cc, Cf, Cs, Zl and Zp, and the fillers of Hangul; CVE-2021-42574 (Trojan Source).
"""

import re
from typing import Any, Final, TextIO


def counted(number: int, noun: str, plural: str = "") -> str:
    """`number` with its noun, as in "1 step" and "1,200 steps"; `plural` where it is not the noun and an "s"."""
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"


_CLASS: Final = (
    "\0-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\xad\u061c\u115f\u1160\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\u3164"
    "\ud800-\udfff\ufeff\uffa0\ufff9-\ufffb\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
)
CONTROL: Final = re.compile(f"[{_CLASS}]")
_PRINTED: Final = re.compile(f"[{_CLASS}]|\r(?!\n)")


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
