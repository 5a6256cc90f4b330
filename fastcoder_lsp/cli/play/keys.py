"""The keys of `play`. Everything else is prompt_toolkit's ordinary editing."""

from typing import Protocol

from prompt_toolkit.document import Document
from prompt_toolkit.filters import Condition
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent

from fastcoder_lsp.cli.play import typist
from fastcoder_lsp.cli.play.session import PlaySession


class ScreenActions(Protocol):
    """The screen that keys act on."""

    session: PlaySession

    def put(self, text: str, cursor: int) -> None:
        """Replace the text of the file in view, as one change that can be undone."""
        ...

    def show_next(self, steps: int) -> None:
        """Show the file so many tabs to the right."""
        ...


def key_bindings(screen: ScreenActions) -> KeyBindings:
    """The keys that act on a screen."""
    bindings = KeyBindings()
    ghost_shown = Condition(lambda: screen.session.ghost is not None)
    _bind_ghost(bindings, screen, ghost_shown)
    _bind_typing(bindings, ghost_shown)
    _bind_files(bindings, screen)
    return bindings


def _bind_ghost(bindings: KeyBindings, screen: ScreenActions, ghost_shown: Condition) -> None:
    session = screen.session

    @bindings.add("tab", filter=ghost_shown)
    def accept(_: KeyPressEvent) -> None:
        screen.put(*session.accept())

    @bindings.add("c-right", filter=ghost_shown)
    @bindings.add("escape", "f", filter=ghost_shown)
    def accept_word(_: KeyPressEvent) -> None:
        screen.put(*session.accept_word())

    @bindings.add("escape")
    def dismiss(_: KeyPressEvent) -> None:
        session.dismiss()
        session.notice = ""

    @bindings.add("c-space")
    def ask(_: KeyPressEvent) -> None:
        session.ask(invoked=True)


def _bind_typing(bindings: KeyBindings, ghost_shown: Condition) -> None:
    @bindings.add("tab", filter=~ghost_shown)
    def indent(event: KeyPressEvent) -> None:
        buffer = event.current_buffer
        line = buffer.document.current_line_before_cursor
        buffer.insert_text(typist.tab(line, typist.indent_unit(buffer.text)))

    @bindings.add("enter")
    def newline(event: KeyPressEvent) -> None:
        buffer = event.current_buffer
        line = buffer.document.current_line_before_cursor
        buffer.insert_text(typist.newline(line, typist.indent_unit(buffer.text)))

    @bindings.add("backspace")
    def backspace(event: KeyPressEvent) -> None:
        buffer = event.current_buffer
        if buffer.selection_state is not None:
            buffer.cut_selection()
            return
        line = buffer.document.current_line_before_cursor
        buffer.delete_before_cursor(typist.backspace(line, typist.indent_unit(buffer.text)))

    @bindings.add("c-z", save_before=lambda _: False)
    def undo(event: KeyPressEvent) -> None:
        event.current_buffer.undo()

    @bindings.add("c-y", save_before=lambda _: False)
    def redo(event: KeyPressEvent) -> None:
        event.current_buffer.redo()


def _bind_files(bindings: KeyBindings, screen: ScreenActions) -> None:
    @bindings.add("c-n")
    def next_file(_: KeyPressEvent) -> None:
        screen.show_next(1)

    @bindings.add("c-p")
    def previous_file(_: KeyPressEvent) -> None:
        screen.show_next(-1)

    @bindings.add("c-r")
    def reset(event: KeyPressEvent) -> None:
        event.current_buffer.document = Document(screen.session.current.original, 0)

    @bindings.add("c-q")
    @bindings.add("c-c")
    def quit_(event: KeyPressEvent) -> None:
        event.app.exit()
