"""The forms of a suggestion that a client can show, by its capabilities, and by name where it is known to misread them.

`KNOWN` is the only place where a client's name changes an answer. docs/editors/README.md shows the same table.
"""

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Final

from lsprotocol.types import InsertTextMode


def at(value: object, *names: str) -> object:
    """The value at a path of names in untrusted JSON, or None."""
    for name in names:
        value = value.get(name) if isinstance(value, dict) else None
    return value


class MenuText(Enum):
    """How the text of an entry of the completion menu is written."""

    AS_IS = "as it is"
    ADJUSTED = "without the line's indentation"  # the client indents each further line as the entry's line
    ONE_LINE = "one line"


@dataclass(frozen=True, slots=True)
class ClientFacts:
    """A client's name, and what it declares of the entries of completion menus; `modes`: values of `InsertTextMode`."""

    name: str = ""
    modes: frozenset[int] = frozenset()
    adjusts_by_default: bool = False
    deprecated: bool | None = None

    @classmethod
    def read(cls, params: object) -> "ClientFacts":
        """From the raw params of `initialize`."""
        name, completion = at(params, "clientInfo", "name"), at(params, "capabilities", "textDocument", "completion")
        item = at(completion, "completionItem")
        modes, deprecated = at(item, "insertTextModeSupport", "valueSet"), at(item, "deprecatedSupport")
        return cls(
            name if isinstance(name, str) else "",
            frozenset(one for one in modes if isinstance(one, int)) if isinstance(modes, list) else frozenset(),
            at(completion, "insertTextMode") == InsertTextMode.AdjustIndentation,
            deprecated if isinstance(deprecated, bool) else None,
        )

    @property
    def insert_text_mode(self) -> InsertTextMode:
        """The mode that the client supports; of both, the one that leaves the text alone."""
        adjusts = InsertTextMode.AdjustIndentation in self.modes if self.modes else self.adjusts_by_default
        as_is = InsertTextMode.AsIs in self.modes or not adjusts
        return InsertTextMode.AsIs if as_is else InsertTextMode.AdjustIndentation

    @property
    def menu_text(self) -> MenuText:
        """How the client wants a text, if it keeps its word."""
        adjusts = self.insert_text_mode is InsertTextMode.AdjustIndentation
        return MenuText.ADJUSTED if adjusts else MenuText.AS_IS


@dataclass(frozen=True, slots=True)
class KnownClient:
    """A client that misreads what the protocol says, in the version that was looked at."""

    client: str
    version: str
    name: str  # as in `clientInfo`
    menu_text: MenuText
    reason: str
    misreads_inline: bool = False
    applies: Callable[[ClientFacts], bool] = lambda _: True


KNOWN: Final = (
    KnownClient(
        "vim-lsp with asyncomplete-lsp.vim",
        "474c656, da23f44 (2026)",
        "vim-lsp",
        MenuText.ONE_LINE,
        "inserts NUL for a line break; replaces the whole line by ghost text",
        misreads_inline=True,
    ),
    KnownClient(
        "yegappan/lsp",
        "33aef9d (2026)",
        "Vim",
        MenuText.ONE_LINE,
        "inserts NUL for a line break before Vim 9.1.1086, and indents further lines twice since",
    ),
    KnownClient(
        "mini.completion",
        "0.16",
        "Neovim",
        MenuText.ADJUSTED,
        "declares `asIs`, and indents further lines as the first",
        applies=lambda facts: bool(facts.modes) and facts.deprecated is False,
    ),
    KnownClient(
        "Neovim's own menu, and plugins that declare no capabilities",
        "0.11, 0.12",
        "Neovim",
        MenuText.ONE_LINE,
        "cuts the text, or indents further lines twice",
        applies=lambda facts: not facts.modes,
    ),
)


def known(facts: ClientFacts) -> KnownClient | None:
    """The row of the table for a client, or None."""
    return next((one for one in KNOWN if one.name == facts.name and one.applies(facts)), None)


def counts_triggers_from_zero(params: object) -> bool:
    """Whether the raw params of `initialize` are of vscode-languageclient 9, which sends VS Code's own numbers.

    Version 10, which sends the protocol's, declares `textDocumentContent` too.
    """
    capabilities = at(params, "capabilities")
    return (
        at(capabilities, "textDocument", "inlineCompletion") is not None
        and at(capabilities, "general", "markdown") == {"parser": "marked", "version": "1.1.0"}
        and at(capabilities, "workspace", "textDocumentContent") is None
    )
