"""Values of next-edit suggestions; they cross between the server and the model as they are.

Offsets and columns count code points, lines count from 0.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated

from msgspec import Meta

from fastcoder_lsp.core import Change, Counts, Reason
from fastcoder_lsp.core.bounds import MOST_CHANGES, Moment, Name, Natural, Short

MOST_EDITS = 64


@dataclass(frozen=True, slots=True)
class Edit:
    """The characters from `start` to `end` of the question's text become `text`."""

    start: Natural
    end: Natural
    text: str


@dataclass(frozen=True, slots=True)
class EditQuestion:
    """A request for the next edit of a document.

    Attributes:
        number: counts questions; later ones have higher numbers.
        path: its path below its folder, with forward slashes.
        language: its LSP language id.
        offset: the cursor.
        history: changes in this and other files, oldest first.
        asked_ms: its time on the service's clock.
        invoked: whether the user asked by key: gates about timing do not apply.
    """

    number: Natural
    uri: Name
    path: Short
    language: Short
    version: int
    text: str
    offset: Natural
    history: Annotated[tuple[Change, ...], Meta(max_length=MOST_CHANGES)]
    asked_ms: Moment
    invoked: bool = False


@dataclass(frozen=True, slots=True)
class EditAnswer:
    """The answer to an `EditQuestion`.

    Attributes:
        edits: of the question's text, in its order, without overlaps; empty where nothing is worth showing.
        probability: the joint probability of the tokens that differ from the old text; 1 where none does.
        source: the edit model, or `analogy`.
        cut: whether the answer reached the token limit.
        ms: milliseconds by span.
    """

    edits: Annotated[tuple[Edit, ...], Meta(max_length=MOST_EDITS)] = ()
    probability: float = 1.0
    source: Short = ""
    reason: Reason | None = None
    cut: bool = False
    counts: Counts = field(default_factory=Counts)
    ms: Mapping[str, float] = field(default_factory=dict)
