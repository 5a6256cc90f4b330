"""What all messages between fronts and their host are made of: plain structs, checked as they are read.

Owns their limits, the version of it all, and how a text is told. Texts and names that a client gave go as bytes: they
may hold halves of surrogate pairs, which the format's own strings cannot. Never pickles.
"""

from typing import Annotated, Final, TypeAlias

from msgspec import Meta, Struct

PROTOCOL: Final = 6
"""Grows with every change of a message. Fronts and hosts of different versions never meet in the first place: the
build is a part of the address."""
MOST_BYTES: Final = 8_000_000
"""Of one message."""
MOST_NAMES: Final = 5_000
"""Of one list: files that changed, folders, cells of a notebook."""
MOST_EXTRAS: Final = 256
"""Chunks of other files that a question gives along."""
MOST_DEFINITIONS: Final = 64
"""Places of definitions that a question gives along."""
MOST_YANKS: Final = 8
"""Pieces of code that were copied, which a question gives along."""

MOST_TOLD: Final = 10_000
"""Characters of what people are told."""

Natural: TypeAlias = Annotated[int, Meta(ge=0, le=2**53)]
Whole: TypeAlias = Annotated[int, Meta(ge=-(2**53), le=2**53)]
Name: TypeAlias = Annotated[bytes, Meta(max_length=65_536)]
Short: TypeAlias = Annotated[str, Meta(max_length=MOST_TOLD)]
Value: TypeAlias = bool | int | str | Annotated[list[str], Meta(max_length=MOST_NAMES)]
"""Of a setting, by its name in the table."""
Table: TypeAlias = dict[str, Value]


class ProtocolError(Exception):
    """The other side says what it never should; the connection ends."""


class Message(Struct, frozen=True, array_like=True, tag=True):
    """What goes over the wire; an array of the class' name and the fields in their order."""


class Part(Struct, frozen=True, array_like=True):
    """A part of messages."""


def encoded(text: str) -> bytes:
    """A text, or a name, as messages have it."""
    return text.encode("utf-8", "surrogatepass")


def decoded(data: bytes) -> str:
    """The text again.

    Raises:
        ProtocolError: it is none.
    """
    try:
        return data.decode("utf-8", "surrogatepass")
    except UnicodeDecodeError as error:
        raise ProtocolError("a text that is none") from error


def told(text: str, most: int = MOST_TOLD) -> str:
    """What is for people, or a name of ours, as messages have it: bounded, and only letters that an encoding knows."""
    return text[:most].encode("utf-8", "replace").decode()


class TextAt(Part, frozen=True):
    """A text that was sent, by its document and its number."""

    slot: Natural
    number: Natural


class Difference(Message, frozen=True):
    """A text: `head` and `tail` characters of the one called `base`, and `middle` between; no base: all of it."""

    slot: Natural
    number: Natural
    base: Natural | None
    head: Natural
    tail: Natural
    middle: bytes
    hash: bytes = b""


class PlaceAt(Part, frozen=True):
    """A place in a text that differs so from one that was sent; `cursor`: in its characters."""

    text: TextAt
    head: Natural
    tail: Natural
    middle: bytes
    cursor: Natural
