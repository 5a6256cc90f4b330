"""Values of next-edit suggestions; they cross between the server and the model as they are.

Offsets and columns count code points, lines count from 0.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated

from msgspec import Meta, Struct, field

from fastcoder_lsp.core import Change, Counts, Reason
from fastcoder_lsp.core.bounds import MOST_CHANGES, Name, Natural, Short

MOST_EDITS = 64


@dataclass(frozen=True, slots=True)
class Edit:
    """The characters from `start` to `end` of the question's text become `text`."""

    start: Natural
    end: Natural
    text: str


class EditQuestion(Struct, frozen=True, tag_field="kind", tag="edit"):
    """A request for the next edit of a document."""

    number: Natural  # counts questions of both kinds; later ones have higher numbers
    uri: Name
    path: Short  # its path below its folder, with forward slashes
    language: Short  # its LSP language id
    version: int
    text: str
    offset: Natural  # the cursor
    history: Annotated[tuple[Change, ...], Meta(max_length=MOST_CHANGES)]
    """Changes in this and other files, oldest first."""
    invoked: bool = False  # whether the user asked by key: gates about timing do not apply


class EditAnswer(Struct, frozen=True, tag_field="kind", tag="edit"):
    """The answer to an `EditQuestion`."""

    edits: Annotated[tuple[Edit, ...], Meta(max_length=MOST_EDITS)] = ()
    """Of the question's text, in its order, without overlaps; empty where nothing is worth showing."""
    probability: float = 1.0  # the joint probability of the tokens that differ from the old text; 1 where none does
    source: Short = ""  # the edit model, or `analogy`
    reason: Reason | None = None
    cut: bool = False  # whether the answer reached the token limit
    counts: Counts = Counts()
    ms: Mapping[str, float] = field(default_factory=dict)  # milliseconds by span
