"""The full-screen editor: one pane, tabs, a status line.

Owns the application and the buffers. Typing never waits for the server: keys change the buffer, the session tells the
server in tasks of its own, and the screen is drawn again when an answer comes.
"""

import asyncio
from collections.abc import Callable, Sequence

from prompt_toolkit.application import Application
from prompt_toolkit.buffer import Buffer
from prompt_toolkit.document import Document
from prompt_toolkit.filters import Condition
from prompt_toolkit.formatted_text import StyleAndTextTuples
from prompt_toolkit.layout import ConditionalContainer, DynamicContainer, FormattedTextControl, HSplit, Layout, Window
from prompt_toolkit.layout.dimension import Dimension

from fastcoder_lsp.cli.play import bars
from fastcoder_lsp.cli.play.colours import STYLE
from fastcoder_lsp.cli.play.keys import key_bindings
from fastcoder_lsp.cli.play.pane import GhostControl, editor_window
from fastcoder_lsp.cli.play.playground import Playground
from fastcoder_lsp.cli.play.session import OpenFile, PlaySession
from fastcoder_lsp.client.ghost import Ghost
from fastcoder_lsp.client.rpc import ServerGoneError

ESCAPE_WAIT_S = 0.05
"""Escape is also the first byte of other keys: how long to wait for the next one."""


class Screen:
    """The editor on a place."""

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
        """Bring another file into view, and ask what belongs at its cursor."""
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
                _bar(lambda: bars.tabs(session), "class:tabs"),
                DynamicContainer(lambda: self._windows[session.current.name]),
                ConditionalContainer(
                    Window(
                        FormattedTextControl(lambda: bars.message(session)),
                        height=Dimension(min=1, max=4),
                        dont_extend_height=True,
                        wrap_lines=True,
                        style="class:message",
                    ),
                    filter=Condition(lambda: bool(bars.message(session))),
                ),
                _bar(lambda: bars.status_line(session, width()), "class:status"),
                _bar(lambda: bars.keys_line(width()), "class:keys"),
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
