"""Questions for ghost text and for the completion menu, and their answers."""

from enum import IntEnum
from typing import Final

from fastcoder_lsp.lsp.types.places import Command, Position, Range, TextDocumentIdentifier, TextEdit, Value


class InlineCompletionTriggerKind(IntEnum):
    """Whether a key asked for ghost text."""

    Invoked = 1
    Automatic = 2


class SelectedCompletionInfo(Value, frozen=True):
    """The entry of the completion menu that is selected."""

    range: Range
    text: str


class InlineCompletionContext(Value, frozen=True):
    """What asked for ghost text."""

    trigger_kind: InlineCompletionTriggerKind
    selected_completion_info: SelectedCompletionInfo | None = None


class InlineCompletionParams(Value, frozen=True):
    """`textDocument/inlineCompletion`."""

    context: InlineCompletionContext
    text_document: TextDocumentIdentifier
    position: Position


class InlineCompletionItem(Value, frozen=True):
    """Ghost text: `insert_text` for what stands in `range`."""

    insert_text: str
    range: Range | None = None
    command: Command | None = None


class InlineCompletionList(Value, frozen=True):
    """The answer to `textDocument/inlineCompletion`."""

    items: list[InlineCompletionItem]


class CompletionTriggerKind(IntEnum):
    """What asked for the completion menu."""

    Invoked = 1
    TriggerCharacter = 2
    TriggerForIncompleteCompletions = 3


class CompletionContext(Value, frozen=True):
    """What asked for the completion menu."""

    trigger_kind: CompletionTriggerKind


class CompletionParams(Value, frozen=True):
    """`textDocument/completion`."""

    text_document: TextDocumentIdentifier
    position: Position
    context: CompletionContext | None = None


class MarkupContent(Value, frozen=True):
    """Text in `kind`: Markdown here."""

    kind: str
    value: str


TEXT_KIND: Final = 1
"""The completion item kind of plain text."""
PLAIN_TEXT: Final = 1
"""The format of an inserted text that is no snippet."""
AS_IS: Final = 1
"""The way of inserting that leaves indentation alone."""


class CompletionItem(Value, frozen=True):
    """A suggestion in the completion menu."""

    label: str
    kind: int
    detail: str
    documentation: str | MarkupContent | None
    sort_text: str
    filter_text: str
    insert_text_format: int
    insert_text_mode: int
    text_edit: TextEdit
    command: Command | None = None


class CompletionList(Value, frozen=True):
    """The answer to `textDocument/completion`."""

    is_incomplete: bool
    items: list[CompletionItem]
