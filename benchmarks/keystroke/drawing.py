"""Pieces of SVG: elements, text, axes. Colours are classes, which the page's style gives for light and for dark.

Owns the spelling of SVG; knows no figure.
"""

import math
from collections.abc import Sequence
from html import escape

WIDTH = 920.0
"""Of every picture, in its own units; the page scales it."""


def element(tag: str, content: str = "", **attributes: object) -> str:
    """`<tag …>content</tag>`; `class_` is written `class`, `_` in a name `-`; numbers are rounded."""
    spelt = "".join(
        f' {name.rstrip("_").replace("_", "-")}="{_number(value)}"' for name, value in attributes.items() if value != ""
    )
    return f"<{tag}{spelt}>{content}</{tag}>" if content else f"<{tag}{spelt}/>"


def text(x: float, y: float, words: str, class_: str = "label", anchor: str = "start") -> str:
    """Draw one line of text."""
    return element("text", escape(words), x=x, y=y, class_=class_, text_anchor=anchor)


def bar(x: float, y: float, width: float, height: float, class_: str, title: str = "") -> str:
    """A rectangle that tells what it is when pointed at."""
    return element("rect", tooltip(title), x=x, y=y, width=max(width, 0.0), height=max(height, 0.0), class_=class_)


def line(x1: float, y1: float, x2: float, y2: float, class_: str) -> str:
    """Draw a straight line."""
    return element("line", x1=x1, y1=y1, x2=x2, y2=y2, class_=class_)


def tooltip(words: str) -> str:
    """What an element says when pointed at."""
    return element("title", escape(words)) if words else ""


def picture(height: float, parts: Sequence[str], describes: str) -> str:
    """A whole picture; `describes` is read out to those who cannot see it."""
    inner = element("title", escape(describes)) + "".join(parts)
    return f'<svg viewBox="0 0 {WIDTH:.0f} {height:.0f}" role="img" xmlns="http://www.w3.org/2000/svg">{inner}</svg>'


def steps_up_to(most: float, about: int = 4) -> list[float]:
    """Round numbers from 0 to at least `most`, `about` of them."""
    rough = max(most, 1e-9) / about
    size = 10.0 ** math.floor(math.log10(rough))
    step = next(size * factor for factor in (1, 2, 2.5, 5, 10) if size * factor >= rough * 0.999)
    return [step * count for count in range(math.ceil(most / step - 1e-9) + 1)]


def _number(value: object) -> str:
    return f"{value:.2f}".rstrip("0").rstrip(".") if isinstance(value, float) else escape(str(value))
