"""The drawing of `play`: text with ghost text and line numbers, tabs above, status and keys below."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, cast

from prompt_toolkit.buffer import Buffer
from prompt_toolkit.filters import Always
from prompt_toolkit.formatted_text import OneStyleAndTextTuple, StyleAndTextTuples
from prompt_toolkit.formatted_text.utils import fragment_list_len
from prompt_toolkit.layout import BufferControl, Margin, ScrollOffsets, UIContent, Window, WindowRenderInfo
from prompt_toolkit.layout.processors import TabsProcessor
from prompt_toolkit.lexers import PygmentsLexer
from prompt_toolkit.mouse_events import MouseEvent

from fastcoder_lsp.cli.play.session import AnswerSummary, PlaySession
from fastcoder_lsp.client.client import Ghost
from fastcoder_lsp.completion.status import Status
from fastcoder_lsp.core.controls import counted
from fastcoder_lsp.observe import percentile

SIGNS = {"starting": "◌", "loading": "◔", "ready": "●", "thinking": "◐", "off": "○", "error": "✖"}
KEYS = (
    ("Tab", "accept"),
    ("^→", "word"),
    ("Esc", "dismiss"),
    ("^Space", "ask"),
    ("^N", "next file"),
    ("^R", "reset"),
    ("^Q", "quit"),
)
LOADING_CELLS = 10
MOST_EDITS = 4  # places of a next edit that are named
SHORT_NAME = 18
ENOUGH_ANSWERS = 3  # fewest times for a meaningful median
LONG_MS = 300.0  # slower answers are explained: the prompt's share, and waiting of this length


def tabs(session: PlaySession, width: int) -> StyleAndTextTuples:
    """The open files: the current one, and its neighbours as far as they fit; changed ones have a dot."""
    labels = [f" {file.path.name}{'•' if file.text != file.original else ''} " for file in session.files]
    current = session.files.index(session.current)
    first, last = _fitting([len(label) for label in labels], current, width)
    fragments: StyleAndTextTuples = [("class:tab", "‹" * (first > 0))]
    for at in range(first, last):
        fragments.append(("class:tab.current" if at == current else "class:tab", labels[at][: width - 2]))
    return [*fragments, ("class:tab", "›" * (last < len(labels)))]


def _fitting(widths: Sequence[int], current: int, room: int) -> tuple[int, int]:
    """The range of tabs around the current one that fits into `room`, with a mark at each end that is cut off."""
    if sum(widths) <= room:
        return 0, len(widths)
    first, last = current, current + 1
    while True:
        for begin, end in ((first, last + 1), (first - 1, last)):
            if begin >= 0 and end <= len(widths) and sum(widths[begin:end]) <= room - 2:
                first, last = begin, end
                break
        else:
            return first, last


def message(session: PlaySession) -> str:
    """A message for the user, with what to do about it; usually empty."""
    status = session.status
    if status.state == "error":
        return f"{status.message or 'The server reports an error.'}\n{status.hint}".strip()
    return session.notice or edit_message(session)


def edit_message(session: PlaySession) -> str:
    """The next edit in words; empty where there is none."""
    lines = [
        f"line {one['range']['start']['line'] + 1}: {one['text'].strip() or '(delete)'}"
        for one in session.edits[:MOST_EDITS]
    ]
    more = len(session.edits) - len(lines)
    return f"Next edit (Tab makes it): {'; '.join(lines)}{f'; {more} more' if more else ''}" if lines else ""


def status_line(session: PlaySession, width: int) -> StyleAndTextTuples:
    """The server's state on the left, the last answer on the right; drops less important parts for lack of room."""
    sign, state = SIGNS[session.status.state], _state(session.status)
    engine = [part for part in (session.model.rpartition("/")[2], session.engine) if part]
    short = [f"{name[:SHORT_NAME]}…" if len(name) > SHORT_NAME else name for name in engine[:1]]
    answer = _answer(session)
    for left, right in (
        (engine, answer),
        (engine[:1], answer),
        (short, answer),
        (short, answer[:3]),
        ([], answer[:3]),
        ([], answer[:2]),
        ([], answer[:1]),
        ([], []),
    ):
        texts = (" · ".join([state, *left]), " · ".join(right))
        free = width - len(texts[0]) - len(texts[1]) - 5
        if free >= 0:
            break
    return [
        (f"class:status class:state.{session.status.state}", f" {sign} "),
        ("class:status", f"{texts[0]}{' ' * max(free + 1, 0)}{texts[1]} "),
    ]


def keys_line(width: int) -> StyleAndTextTuples:
    """The keys, as many as fit."""
    fragments: StyleAndTextTuples = []
    used = 0
    for key, action in KEYS:
        used += len(key) + len(action) + 3
        if used > width:
            break
        fragments += [("class:key", f" {key}"), ("class:keys", f" {action} ")]
    return fragments


def work_of(answer: AnswerSummary) -> list[str]:
    """The parts of an answer's time: prefill, generation, waiting; empty for a cached text."""
    took = f" in {milliseconds(answer.prefill_ms)}" if answer.ms > LONG_MS and answer.prefill_ms else ""
    read = [f"read {counted(answer.prefilled, 'prompt token')}{took}"] if answer.prefilled else []
    made = [f"{counted(answer.tokens, 'token')} in {counted(answer.steps, 'step')}"] if answer.steps else []
    waited = [f"waited {milliseconds(answer.waited_ms)} for other work"] if answer.waited_ms > LONG_MS else []
    return [*read, *made, *waited, *(["made in the background"] if answer.late else [])]


def milliseconds(ms: float) -> str:
    """`ms` with as many digits as matter."""
    return f"{ms:.1f} ms" if ms < 10 else f"{ms:,.0f} ms"


def _state(status: Status) -> str:
    if status.state != "loading":
        return status.state
    done = (status.percent or 0) * LOADING_CELLS // 100
    bar = "▰" * done + "▱" * (LOADING_CELLS - done)
    return f"{bar} {status.percent or 0} % {status.message or 'loading the model'}"


def _answer(session: PlaySession) -> list[str]:
    """Time of the last answer, what the model did for it, and the median time."""
    last = session.last
    if last is None:
        return []
    parts = [milliseconds(last.ms), *work_of(last)] if last.shown else [milliseconds(last.ms), "nothing to suggest"]
    if len(session.answers) < ENOUGH_ANSWERS:
        return parts
    return [*parts, f"median {milliseconds(percentile([answer.ms for answer in session.answers], 0.5))}"]


if TYPE_CHECKING:
    from prompt_toolkit.key_binding.key_bindings import NotImplementedOrNone

GHOST = "class:ghost"
TAB_WIDTH = 4
MOST_GHOST_LINES_KEPT_VISIBLE = 8
LINES_ABOVE_AT_FIRST = 10


class GhostControl(BufferControl):
    """A buffer with ghost text at its cursor; the file's `name` decides the colours."""

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
        """A click moves the cursor, unless ghost text stands between the lines."""
        return NotImplemented if self._ghost() is not None else super().mouse_handler(mouse_event)


def with_ghost(line: StyleAndTextTuples, column: int, ghost: Ghost) -> list[StyleAndTextTuples]:
    """The display lines for the cursor's line: ghost text at `column`, without the characters that it replaces."""
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
        """The width of the highest number, with a space on either side."""
        return max(3, len(str(get_ui_content().line_count))) + 2

    def create_margin(self, window_render_info: WindowRenderInfo, width: int, height: int) -> StyleAndTextTuples:  # noqa: ARG002
        """One line of text for each row of the window; a line's further rows have an arrow."""
        current = window_render_info.ui_content.cursor_position.y
        ghost = self._ghost()
        more = ghost.text.count("\n") if ghost is not None else 0
        fragments: StyleAndTextTuples = []
        above = -1
        for line in window_render_info.displayed_lines:
            number = line - more if line > current + more else line
            style = "class:line-number.current" if line == current else "class:line-number"
            sign = "↪" if line == above else "·" if current < line <= current + more else number + 1
            fragments.append((style, f"{sign:>{width - 1}} \n"))
            above = line
        return fragments


def editor_window(control: GhostControl, ghost: Callable[[], Ghost | None]) -> Window:
    """The window around a pane: scrolled so that the cursor and the suggestion below it are visible."""

    def below() -> int:
        shown = ghost()
        return 1 + min(shown.text.count("\n") if shown is not None else 0, MOST_GHOST_LINES_KEPT_VISIBLE)

    window = Window(
        control, left_margins=[LineNumbers(ghost)], scroll_offsets=ScrollOffsets(top=1, bottom=below), wrap_lines=True
    )
    window.vertical_scroll = max(control.buffer.document.cursor_position_row - LINES_ABOVE_AT_FIRST, 0)
    return window
