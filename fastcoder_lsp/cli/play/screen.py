"""The full-screen editor: one pane, tabs, a status line, its keys and colours.

Typing never waits for the server: keys change the buffer, the session tells the server in tasks of its own, and the
screen is redrawn when an answer comes. Keys that are not bound here are prompt_toolkit's ordinary editing. The colours
are the terminal's own sixteen, so that light and dark themes both stay readable.
"""

import asyncio
from collections.abc import Callable, Sequence

from prompt_toolkit.application import Application
from prompt_toolkit.buffer import Buffer
from prompt_toolkit.document import Document
from prompt_toolkit.filters import Condition
from prompt_toolkit.formatted_text import StyleAndTextTuples
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.layout import ConditionalContainer, DynamicContainer, FormattedTextControl, HSplit, Layout, Window
from prompt_toolkit.layout.dimension import Dimension
from prompt_toolkit.styles import Style

from fastcoder_lsp.cli.play.pane import GhostControl, editor_window, keys_line, message, status_line, tabs
from fastcoder_lsp.cli.play.playground import Playground
from fastcoder_lsp.cli.play.session import OpenFile, PlaySession
from fastcoder_lsp.client.client import Ghost, ServerGoneError

ESCAPE_WAIT_S = 0.05  # escape is also the first byte of other keys: how long to wait for the next one
OPENERS = (":", "{", "(", "[", "=>")  # ends of lines whose next line is indented one step more
STYLE = Style.from_dict(
    {
        "ghost": "ansibrightblack italic",
        "line-number": "ansibrightblack",
        "line-number.current": "ansidefault",
        "tabs": "reverse",
        "tab": "",
        "tab.current": "noreverse bold",
        "status": "reverse",
        "state.ready": "ansigreen",
        "state.thinking": "ansiyellow",
        "state.loading": "ansiyellow",
        "state.error": "ansired",
        "message": "ansired",
        "key": "bold",
        "keys": "ansibrightblack",
        "pygments.keyword": "ansimagenta",
        "pygments.keyword.constant": "ansicyan",
        "pygments.name.builtin": "ansicyan",
        "pygments.name.class": "ansiblue bold",
        "pygments.name.function": "ansiblue",
        "pygments.name.decorator": "ansicyan",
        "pygments.literal.number": "ansicyan",
        "pygments.literal.string": "ansiyellow",
        "pygments.comment": "ansigreen",
    }
)


class Screen:
    """The editor of a playground."""

    def __init__(self, place: Playground) -> None:
        self._place = place
        self.session = PlaySession(place.files, self._redraw)
        self._buffers = {file.name: self._buffer(file) for file in place.files}
        self._windows = {
            file.name: editor_window(GhostControl(self._buffers[file.name], file.name, self._ghost), self._ghost)
            for file in place.files
        }
        self._application = self._make_application()

    async def run(self, command: Sequence[str], options: dict[str, object]) -> None:
        """Play until the user quits."""
        starting = asyncio.create_task(self._start(list(command), options))
        try:
            await self._application.run_async()
        finally:
            starting.cancel()
            await self.session.stop()

    async def _start(self, command: list[str], options: dict[str, object]) -> None:
        try:
            await self.session.start(command, self._place.root, options)
            self.session.ask(invoked=False)
        except ServerGoneError as gone:
            self.session.fail(gone)

    def show(self, file: OpenFile) -> None:
        """Show another file, and ask for a suggestion at its cursor."""
        self.session.show(file)
        self._application.layout.focus(self._windows[file.name])
        self.session.ask(invoked=False)

    def show_next(self, steps: int) -> None:
        """The file so many tabs to the right."""
        files = self.session.files
        self.show(files[(files.index(self.session.current) + steps) % len(files)])

    def put(self, text: str, cursor: int) -> None:
        """Replace the text of the file in view, as one change that can be undone."""
        buffer = self._buffers[self.session.current.name]
        buffer.save_to_undo_stack()
        buffer.document = Document(text, cursor)

    def _buffer(self, file: OpenFile) -> Buffer:
        buffer = Buffer(document=Document(file.text, file.cursor), multiline=True)
        buffer.on_text_changed += lambda changed: self.session.edited(changed.text, changed.cursor_position)
        buffer.on_cursor_position_changed += lambda changed: self.session.moved(changed.cursor_position)
        return buffer

    def _redraw(self) -> None:
        self._application.invalidate()

    def _ghost(self) -> Ghost | None:
        return self.session.ghost

    def _make_application(self) -> Application[None]:
        session = self.session

        def width() -> int:
            return self._application.output.get_size().columns

        body = HSplit(
            [
                _bar(lambda: tabs(session, width()), "class:tabs"),
                DynamicContainer(lambda: self._windows[session.current.name]),
                ConditionalContainer(
                    Window(
                        FormattedTextControl(lambda: message(session)),
                        height=Dimension(min=1, max=4),
                        dont_extend_height=True,
                        wrap_lines=True,
                        style="class:message",
                    ),
                    filter=Condition(lambda: bool(message(session))),
                ),
                _bar(lambda: status_line(session, width()), "class:status"),
                _bar(lambda: keys_line(width()), "class:keys"),
            ]
        )
        application: Application[None] = Application(
            layout=Layout(body, focused_element=self._windows[session.current.name]),
            key_bindings=key_bindings(self),
            style=STYLE,
            full_screen=True,
            mouse_support=True,
            include_default_pygments_style=False,
        )
        application.ttimeoutlen = application.timeoutlen = ESCAPE_WAIT_S
        return application


def _bar(text: Callable[[], StyleAndTextTuples], style: str) -> Window:
    return Window(FormattedTextControl(text, show_cursor=False), height=1, style=style)


def indent_unit(text: str) -> str:
    """How the file indents: a tab, or the narrowest indentation in use (four spaces where there is none)."""
    indents = [line[: len(line) - len(line.lstrip())] for line in text.split("\n") if line.strip()]
    if any(indent.startswith("\t") for indent in indents):
        return "\t"
    widths = [len(indent) for indent in indents if len(indent) > 1]
    return " " * min(widths, default=4)


def new_line(line_before: str, unit: str) -> str:
    """The text that Enter inserts after `line_before`, the line up to the cursor."""
    indent = line_before[: len(line_before) - len(line_before.lstrip())]
    return "\n" + indent + (unit if line_before.rstrip().endswith(OPENERS) else "")


def tab(line_before: str, unit: str) -> str:
    """The text that Tab inserts: up to the next stop."""
    return "\t" if unit == "\t" else " " * (len(unit) - len(line_before) % len(unit))


def shortened(line_before: str, unit: str) -> int:
    """How many characters Backspace removes: inside the indentation, down to the stop before."""
    if not line_before or line_before.strip(" ") or unit == "\t":
        return 1
    return (len(line_before) - 1) % len(unit) + 1


def key_bindings(screen: Screen) -> KeyBindings:
    """The key bindings of a screen."""
    session, bindings = screen.session, KeyBindings()
    edit_found = Condition(lambda: bool(session.edits))
    ghost_shown, on = Condition(lambda: session.ghost is not None), bindings.add

    @on("escape")
    def dismiss(_: KeyPressEvent) -> None:
        session.dismiss()
        session.notice = ""

    @on("backspace")
    def backspace(event: KeyPressEvent) -> None:
        buffer = event.current_buffer
        if buffer.selection_state is not None:
            buffer.cut_selection()
            return
        line = buffer.document.current_line_before_cursor
        buffer.delete_before_cursor(shortened(line, indent_unit(buffer.text)))

    def insert(text: Callable[[str, str], str]) -> Callable[[KeyPressEvent], None]:
        def insert_text(event: KeyPressEvent) -> None:
            buffer = event.current_buffer
            buffer.insert_text(text(buffer.document.current_line_before_cursor, indent_unit(buffer.text)))

        return insert_text

    on("tab", filter=ghost_shown)(lambda _: screen.put(*session.accept()))
    for keys in (("c-right",), ("escape", "f")):
        on(*keys, filter=ghost_shown)(lambda _: screen.put(*session.accept_word()))
    for keys in (("c-space",), ("escape", "]")):  # as in Neovim and VS Code
        on(*keys)(lambda _: session.ask(invoked=True))
    on("tab", filter=~ghost_shown & edit_found)(lambda _: screen.put(*session.made_edit()))
    on("tab", filter=~ghost_shown & ~edit_found)(insert(tab))
    on("enter")(insert(new_line))
    on("c-z", save_before=lambda _: False)(lambda event: event.current_buffer.undo())
    on("c-y", save_before=lambda _: False)(lambda event: event.current_buffer.redo())
    on("c-n")(lambda _: screen.show_next(1))
    on("c-p")(lambda _: screen.show_next(-1))
    on("c-r")(lambda event: setattr(event.current_buffer, "document", Document(session.current.original, 0)))
    for key in ("c-q", "c-c"):
        on(key)(lambda event: event.app.exit())
    return bindings
