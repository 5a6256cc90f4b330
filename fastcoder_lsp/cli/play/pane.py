"""The editor pane: the text in syntax colours, the ghost text inside it, line numbers beside it.

Owns how ghost text is drawn. It is display alone: the buffer never holds it.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, cast

from prompt_toolkit.buffer import Buffer
from prompt_toolkit.filters import Always
from prompt_toolkit.formatted_text import OneStyleAndTextTuple, StyleAndTextTuples
from prompt_toolkit.formatted_text.utils import fragment_list_len
from prompt_toolkit.layout import BufferControl, Margin, ScrollOffsets, UIContent, Window, WindowRenderInfo
from prompt_toolkit.layout.processors import TabsProcessor
from prompt_toolkit.lexers import PygmentsLexer
from prompt_toolkit.mouse_events import MouseEvent

from fastcoder_lsp.client.ghost import Ghost

if TYPE_CHECKING:
    from prompt_toolkit.key_binding.key_bindings import NotImplementedOrNone

GHOST = "class:ghost"
TAB_WIDTH = 4
MOST_GHOST_LINES_KEPT_VISIBLE = 8
LINES_ABOVE_AT_FIRST = 10


class GhostControl(BufferControl):
    """A buffer with ghost text at its cursor.

    Args:
        buffer: the text.
        name: the file's name, by which the colours are chosen.
        ghost: the ghost text of this buffer, at this moment.
    """

    def __init__(self, buffer: Buffer, name: str, ghost: Callable[[], Ghost | None]) -> None:
        lexer = PygmentsLexer.from_filename(name, sync_from_start=Always())
        spaces = TabsProcessor(tabstop=TAB_WIDTH, char1=" ", char2=" ")
        super().__init__(buffer=buffer, lexer=lexer, input_processors=[spaces])
        self._ghost = ghost

    def create_content(self, width: int, height: int, preview_search: bool = False) -> UIContent:
        """The buffer's lines, and the ghost text's between them."""
        content = super().create_content(width, height, preview_search)
        ghost = self._ghost()
        if ghost is None:
            return content
        row, first_lines = content.cursor_position.y, content.get_line
        shown = with_ghost(first_lines(row), content.cursor_position.x, ghost)
        more = len(shown) - 1

        def get_line(number: int) -> StyleAndTextTuples:
            if number < row:
                return first_lines(number)
            return shown[number - row] if number <= row + more else first_lines(number - more)

        return UIContent(get_line, content.line_count + more, content.cursor_position)

    def mouse_handler(self, mouse_event: MouseEvent) -> "NotImplementedOrNone":
        """A click moves the cursor, but not while ghost text stands between the lines."""
        return NotImplemented if self._ghost() is not None else super().mouse_handler(mouse_event)


def with_ghost(line: StyleAndTextTuples, column: int, ghost: Ghost) -> list[StyleAndTextTuples]:
    """The display lines for the cursor's line: ghost text at `column`, the characters that it replaces left out."""
    first, *rest = ghost.text.expandtabs(TAB_WIDTH).split("\n")
    before, after = _slice(line, 0, column), _slice(line, column + ghost.replaces, fragment_list_len(line))
    lines = [[*before, (GHOST, first)]]
    lines.extend([(GHOST, text)] for text in rest)
    lines[-1] = [*lines[-1], *after]
    return lines


def _slice(line: StyleAndTextTuples, start: int, end: int) -> StyleAndTextTuples:
    """The fragments from one display column to another."""
    found: StyleAndTextTuples = []
    at = 0
    for fragment in line:
        text = fragment[1][max(start - at, 0) : max(end - at, 0)]
        if text:
            found.append(cast("OneStyleAndTextTuple", (fragment[0], text, *fragment[2:])))
        at += len(fragment[1])
    return found


class LineNumbers(Margin):
    """The numbers of the buffer's lines; ghost lines have none."""

    def __init__(self, ghost: Callable[[], Ghost | None]) -> None:
        self._ghost = ghost

    def get_width(self, get_ui_content: Callable[[], UIContent]) -> int:
        """Room for the highest number and a space on either side."""
        return max(3, len(str(get_ui_content().line_count))) + 2

    def create_margin(self, window_render_info: WindowRenderInfo, width: int, height: int) -> StyleAndTextTuples:  # noqa: ARG002
        """One line of text for each line of the window."""
        current = window_render_info.ui_content.cursor_position.y
        ghost = self._ghost()
        more = ghost.text.count("\n") if ghost is not None else 0
        fragments: StyleAndTextTuples = []
        for line in window_render_info.displayed_lines:
            number = line - more if line > current + more else line
            style = "class:line-number.current" if line == current else "class:line-number"
            blank = current < line <= current + more
            fragments.append((style, f"{'·' if blank else number + 1:>{width - 1}} \n"))
        return fragments


def editor_window(control: GhostControl, ghost: Callable[[], Ghost | None]) -> Window:
    """The window around a pane: scrolled so that the cursor, and what is suggested below it, can be seen."""

    def below() -> int:
        shown = ghost()
        return 1 + min(shown.text.count("\n") if shown is not None else 0, MOST_GHOST_LINES_KEPT_VISIBLE)

    window = Window(control, left_margins=[LineNumbers(ghost)], scroll_offsets=ScrollOffsets(top=1, bottom=below))
    window.vertical_scroll = max(control.buffer.document.cursor_position_row - LINES_ABOVE_AT_FIRST, 0)
    return window
