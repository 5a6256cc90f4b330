"""Pictures of the editors in a terminal, with the real server and a real model, for docs/editors.

    .venv/bin/python scripts/editor_pictures.py [neovim] [emacs]

Starts each editor on a copy of the sample workspace, types the beginning of a function, waits for ghost text, and
writes what the terminal shows as docs/editors/EDITOR.svg. Needs the editors and `fastcoder-lsp` on PATH, a model, and
the package `pyte` (not needed by anything else).
"""

import fcntl
import os
import pty
import re
import select
import shutil
import signal
import struct
import sys
import tempfile
import termios
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path

import pyte

from fastcoder_lsp.cli.play.sample import copy_sample

ROOT = Path(__file__).parents[1]
COLUMNS, ROWS = 92, 24
CELL_W, CELL_H, FONT_PX = 9.0, 20.0, 15
BACKGROUND, FOREGROUND = "#14161b", "#e0e2ea"
ANSWER_S = 90.0
# What pyte would print: strings to the terminal, private modes, colours with colons.
UNKNOWN = re.compile(
    rb"\x1b[P\]_^].*?(?:\x07|\x1b\\)|\x1b\[[<>=?][0-9;]*(?:\$p|[a-gi-km-z])|\x1b\[[0-9;]*:[0-9:;]*m", re.DOTALL
)
NEOVIM = """
vim.opt.runtimepath:append('{root}/editors/neovim')
vim.o.termguicolors, vim.o.number, vim.o.laststatus, vim.o.ruler, vim.o.showmode = true, true, 2, false, true
vim.o.background, vim.o.swapfile = 'dark', false
vim.o.statusline = " %t  %=%{{%v:lua.require'fastcoder'.statusline()%}}  %l:%c "
require('fastcoder').setup()
"""
EMACS = """
(setq inhibit-startup-screen t make-backup-files nil create-lockfiles nil python-indent-guess-indent-offset nil
      eglot-sync-connect nil auto-save-default nil native-comp-async-report-warnings-errors nil)
(menu-bar-mode -1)
(load-theme 'modus-vivendi t)
(load "{root}/editors/emacs/fastcoder.el" nil t)
(fastcoder-setup '(python-mode))
(add-hook 'python-mode-hook (lambda () (display-line-numbers-mode 1) (eglot-ensure)))
(run-with-timer 1 nil (lambda () (setq unread-command-events (list 12))))
(setq-default mode-line-format '(" %b  %l:%c  " mode-name minor-mode-alist))
"""


@dataclass(frozen=True, slots=True)
class Editor:
    """How an editor is started on a file, and which keys bring it where the function begins."""

    name: str
    command: Callable[[Path, Path], Sequence[str]]
    file: str
    configuration: str
    keys: Sequence[str]


def _neovim(configuration: Path, file: Path) -> Sequence[str]:
    return ("nvim", "-i", "NONE", "-u", str(configuration), str(file))


def _emacs(configuration: Path, file: Path) -> Sequence[str]:
    return ("emacs", "-nw", "-q", "-l", str(configuration), str(file))


LINE = "    days: dict[date, Decimal] = defaultdict(Decimal)"
EDITORS = {
    "neovim": Editor(
        "neovim", _neovim, "init.lua", NEOVIM, ("/sum of each day\r", ":noh\r", "zt4\x19", f"o\x15{LINE}", "\r")
    ),
    "emacs": Editor(
        "emacs", _emacs, "init.el", EMACS, ("\x13sum of each day\r", "\x05\x0c", f"\r\x01\x0b{LINE}", "\r")
    ),
}


def main() -> None:
    """A picture of each editor that is named, or of both."""
    for name in sys.argv[1:] or EDITORS:
        target = ROOT / "docs/editors" / f"{name}.svg"
        target.write_text(svg(photograph(EDITORS[name])))
        print(target.relative_to(ROOT))


def photograph(editor: Editor) -> pyte.Screen:
    """The terminal's screen once ghost text has stood still for a moment."""
    with tempfile.TemporaryDirectory() as folder:
        workspace = copy_sample(Path(folder) / "expenses-workspace")
        (workspace / ".git").mkdir()
        (workspace / "fastcoder.toml").write_text("[budget]\nautomatic_ms = 30000\n")
        configuration = Path(folder) / editor.file
        configuration.write_text(
            editor.configuration.replace("{{", "{").replace("}}", "}").replace("{root}", str(ROOT))
        )
        terminal = Terminal(editor.command(configuration, workspace / "expenses/reports.py"))
        try:
            terminal.run_until(_is_connected, ANSWER_S)
            terminal.run(3.0)
            for keys in editor.keys:
                terminal.type(keys)
                terminal.run(1.0)
            terminal.run_until(_shows_ghost, ANSWER_S)
            terminal.run(2.0)
        finally:
            terminal.close()
        return terminal.screen


def _is_connected(screen: pyte.Screen) -> bool:
    """The line at the bottom speaks of the server."""
    return any(" fast" in line for line in screen.display[-3:])


def _shows_ghost(screen: pyte.Screen) -> bool:
    """Something stands behind the cursor's place that nobody typed."""
    line = screen.buffer[screen.cursor.y]
    behind = "".join(line[x].data for x in range(screen.cursor.x, COLUMNS))
    return bool(behind.strip())


class Terminal:
    """A program in a terminal of its own."""

    def __init__(self, command: Sequence[str]) -> None:
        self.screen = pyte.Screen(COLUMNS, ROWS)
        self._stream = pyte.ByteStream(self.screen)
        self._pid, self._fd = pty.fork()
        if self._pid == 0:
            environment = os.environ | {"TERM": "xterm-256color", "COLORTERM": "truecolor", "LC_ALL": "C.UTF-8"}
            os.execvpe(command[0], list(command), environment)  # noqa: S606
        fcntl.ioctl(self._fd, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))

    def type(self, keys: str) -> None:
        """Key by key, as a person would."""
        for key in keys:
            os.write(self._fd, key.encode())
            self.run(0.02)

    def run(self, seconds: float) -> None:
        """Let it draw."""
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            if select.select([self._fd], [], [], left)[0]:
                self._stream.feed(UNKNOWN.sub(b"", os.read(self._fd, 1 << 16)))

    def run_until(self, holds: Callable[[pyte.Screen], bool], seconds: float) -> None:
        """Let it draw until something is to be seen."""
        end = time.monotonic() + seconds
        while not holds(self.screen):
            if time.monotonic() > end:
                raise SystemExit("not in time:\n" + "\n".join(self.screen.display))
            self.run(0.2)

    def close(self) -> None:
        """End the program; its server ends with it."""
        os.kill(self._pid, signal.SIGKILL)
        os.waitpid(self._pid, 0)
        os.close(self._fd)


def svg(screen: pyte.Screen) -> str:
    """The screen as a picture: a background for each run of cells, then its text, cell by cell in place."""
    width, height = COLUMNS * CELL_W + 24, ROWS * CELL_H + 24
    fonts = "ui-monospace, SFMono-Regular, Menlo, Consolas, DejaVu Sans Mono, monospace"
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}">',
        f'<rect width="100%" height="100%" rx="8" fill="{_background(screen)}"/>',
        f'<g transform="translate(12 12)" font-size="{FONT_PX}" font-family="{fonts}">',
    ]
    for y in range(ROWS):
        parts.extend(_row(screen, y))
    parts.append("</g></svg>\n")
    return "\n".join(parts)


def _row(screen: pyte.Screen, y: int) -> list[str]:
    cells = [screen.buffer[y][x] for x in range(COLUMNS)]
    drawn, start = [], 0
    for x in range(1, COLUMNS + 1):
        if x < COLUMNS and _style(screen, cells, x, y) == _style(screen, cells, start, y):
            continue
        foreground, background, bold, italics, under, strike = _style(screen, cells, start, y)
        text = "".join(cell.data for cell in cells[start:x])
        left, long = start * CELL_W, (x - start) * CELL_W
        if background != _background(screen):
            drawn.append(
                f'<rect x="{left:g}" y="{y * CELL_H:g}" width="{long:g}" height="{CELL_H:g}" fill="{background}"/>'
            )
        if text.strip():
            # Spaces at the ends say nothing, and some viewers would close up those within.
            first = start + len(text) - len(text.lstrip())
            text = text.strip().replace(" ", "\u00a0")
            left, long = first * CELL_W, len(text) * CELL_W
            marks = [name for name, on in (("underline", under), ("line-through", strike)) if on]
            looks = (' font-weight="bold"' if bold else "") + (' font-style="italic"' if italics else "")
            looks += f' text-decoration="{" ".join(marks)}"' if marks else ""
            drawn.append(
                f'<text x="{left:g}" y="{y * CELL_H + 15:g}" textLength="{long:g}" fill="{foreground}"{looks}>'
                f"{escape(text)}</text>"
            )
        start = x
    return drawn


def _style(
    screen: pyte.Screen, cells: Sequence[pyte.screens.Char], x: int, y: int
) -> tuple[str, str, bool, bool, bool, bool]:
    """Colours and looks of a cell; the cursor's are reversed."""
    cell = cells[x]
    foreground, background = _colour(cell.fg, FOREGROUND), _colour(cell.bg, BACKGROUND)
    if cell.reverse is not ((screen.cursor.x, screen.cursor.y) == (x, y)):
        foreground, background = background, foreground
    return foreground, background, cell.bold, cell.italics, cell.underscore, cell.strikethrough


def _background(screen: pyte.Screen) -> str:
    """What most of the screen has behind it."""
    return _colour(screen.buffer[0][COLUMNS - 1].bg, BACKGROUND)


_NAMED = {
    "black": "#14161b", "red": "#ffc0b9", "green": "#b3f6c0", "brown": "#fce094", "blue": "#a6dbff",
    "magenta": "#ffcaff", "cyan": "#8cf8f7", "white": "#eef1f8",
}  # fmt: skip


def _colour(name: str, default: str) -> str:
    if name == "default":
        return default
    return _NAMED.get(name.removeprefix("bright"), f"#{name}")


if __name__ == "__main__":
    if shutil.which("fastcoder-lsp") is None:
        raise SystemExit("fastcoder-lsp is not on PATH")
    main()
