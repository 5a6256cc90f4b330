"""Places, texts and edits; and what all types of the protocol have in common.

Fields stand in the specification's order and are named as JSON has them. What comes in may hold more than is told here;
what goes out leaves out what is None. A field that may be null or absent has None.
"""

from typing import Any

from msgspec import Struct


class Value(Struct, rename="camel", omit_defaults=True, frozen=True):
    """A value of the protocol."""


class Position(Value, frozen=True):
    """Before which character of which line."""

    line: int
    character: int


class Range(Value, frozen=True):
    """From one position up to another."""

    start: Position
    end: Position


class TextEdit(Value, frozen=True):
    """`new_text` for what stands in `range`."""

    range: Range
    new_text: str


class Command(Value, frozen=True):
    """One of our commands, which the editor runs."""

    title: str
    command: str
    arguments: list[Any] | None = None


class TextDocumentIdentifier(Value, frozen=True):
    """A document."""

    uri: str


class VersionedTextDocumentIdentifier(Value, frozen=True):
    """A document as it is from a change on."""

    uri: str
    version: int


class TextDocumentItem(Value, frozen=True):
    """A document and its text."""

    uri: str
    language_id: str
    version: int
    text: str


class TextDocumentContentChangeEvent(Value, frozen=True):
    """An edit; without a range the whole text is new."""

    text: str
    range: Range | None = None
