"""Pictures of the editors in a terminal, with the real server and a real model, for docs/editors.

    .venv/bin/python scripts/editor_pictures.py [neovim] [neovim-narrow] [neovim-calm] [emacs]

Starts each editor on a copy of the sample workspace, types the beginning of a function, waits for ghost text, and
writes what the terminal shows as docs/editors/PICTURE.svg. The terminal is the one that most people have: 80 columns
and 256 colours, as tmux has them unless it is told otherwise; true colour would hide ghost text that looks like code.
Needs the editors and `fastcoder-lsp` on PATH, a model, and the package `pyte` (not needed by anything else).
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
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path

import pyte

from fastcoder_lsp.cli.play.playground import copy_sample

ROOT = Path(__file__).parents[1]
COLUMNS, ROWS = 80, 24
CELL_W, CELL_H, FONT_PX = 9.0, 20.0, 15
ANSWER_S = 90.0
# What pyte would print: strings to the terminal, private modes, colours with colons.
UNKNOWN = re.compile(
    rb"\x1b[P\]_^].*?(?:\x07|\x1b\\)|\x1b\[[<>=?][0-9;]*(?:\$p|[a-gi-km-z])|\x1b\[[0-9;]*:[0-9:;]*m", re.DOTALL
)
NEOVIM = """
vim.opt.runtimepath:append('{root}/editors/neovim')
vim.o.number, vim.o.ruler, vim.o.swapfile = true, false, false
vim.o.background = '{background}'
vim.o.statusline = " %t  %=%{{%v:lua.require'fastcoder'.statusline()%}}  %l:%c "
require('fastcoder').setup()
"""
CALM = NEOVIM.replace("setup()", "setup({{ settings = {{ quiet = {{ lines = 1 }} }} }})")
EMACS = """
(setq inhibit-startup-screen t make-backup-files nil create-lockfiles nil python-indent-guess-indent-offset nil
      eglot-sync-connect nil auto-save-default nil native-comp-async-report-warnings-errors nil)
(menu-bar-mode -1)
(setq frame-background-mode '{background})
(frame-set-background-mode (selected-frame))
(load "{root}/editors/emacs/fastcoder.el" nil t)
(fastcoder-setup '(python-mode))
(add-hook 'python-mode-hook (lambda () (display-line-numbers-mode 1) (eglot-ensure)))
(run-with-timer 1 nil (lambda () (setq unread-command-events (list 12))))
(setq-default mode-line-format '(" %b  %l:%c  " mode-name minor-mode-alist))
"""


@dataclass(frozen=True, slots=True)
class Palette:
    """The colours of a terminal: its own two, and the first sixteen by the names that pyte has for them."""

    background: str
    foreground: str
    named: Mapping[str, str]


_NAMES = ("black", "red", "green", "brown", "blue", "magenta", "cyan", "white")


def _palette(background: str, foreground: str, normal: str, bright: str) -> Palette:
    named = dict(zip(_NAMES, normal.split(), strict=True))
    named |= {f"bright{name}": colour for name, colour in zip(_NAMES, bright.split(), strict=True)}
    return Palette(background, foreground, {name: f"#{colour}" for name, colour in named.items()})


PALETTES = {
    "dark": _palette(
        "#14161b", "#e0e2ea",
        "2e3436 ef6b6b 6ec85a d6b22a 7aa6e8 c08ad0 2fb5b5 d3d7cf",
        "7f8478 ff8787 8ae234 fce94f 9cc4ff dfa0e8 6fe3e3 ffffff",
    ),
    "light": _palette(
        "#ffffff", "#1c1c1c",
        "000000 b00000 267a1a 8a6100 2050b0 8a3a9a 0a7a80 8a8a85",
        "6a6d66 d02020 3a9a20 a88000 3a6fd8 a855b8 109aa0 bcbcb8",
    ),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Picture:
    """How an editor is started on a file, and which keys bring it where the function begins."""

    background: str
    command: Callable[[Path, Path], Sequence[str]]
    file: str
    configuration: str
    keys: Sequence[str]


def _neovim(configuration: Path, file: Path) -> Sequence[str]:
    return ("nvim", "-i", "NONE", "-u", str(configuration), str(file))


def _emacs(configuration: Path, file: Path) -> Sequence[str]:
    return ("emacs", "-nw", "-q", "-l", str(configuration), str(file))


LINE = "    days: dict[date, Decimal] = defaultdict(Decimal)"
TO_FUNCTION = ("/sum of each day\r", ":noh\r", "zt4\x19", f"o\x15{LINE}", "\r")
BESIDE = (":vsplit %:h/models.py\r", "\x17p")
PICTURES = {
    "neovim": Picture("dark", _neovim, "init.lua", NEOVIM, TO_FUNCTION),
    "neovim-narrow": Picture("light", _neovim, "init.lua", NEOVIM, (*BESIDE, *TO_FUNCTION)),
    "neovim-calm": Picture("dark", _neovim, "init.lua", CALM, TO_FUNCTION),
    "emacs": Picture(
        "light", _emacs, "init.el", EMACS, ("\x13sum of each day\r", "\x05\x0c", f"\r\x01\x0b{LINE}", "\r")
    ),
}


def main() -> None:
    """The pictures that are named, or all."""
    for name in sys.argv[1:] or PICTURES:
        target, picture = ROOT / "docs/editors" / f"{name}.svg", PICTURES[name]
        target.write_text(svg(photograph(picture), PALETTES[picture.background]))
        print(target.relative_to(ROOT))


def photograph(picture: Picture) -> pyte.Screen:
    """The terminal's screen once ghost text has stood still for a moment."""
    with tempfile.TemporaryDirectory() as folder:
        workspace = copy_sample(Path(folder) / "expenses-workspace")
        (workspace / ".git").mkdir()
        (workspace / "fastcoder.toml").write_text("[budget]\nautomatic_ms = 30000\n")
        configuration = Path(folder) / picture.file
        configuration.write_text(
            picture.configuration.replace("{{", "{")
            .replace("}}", "}")
            .replace("{root}", str(ROOT))
            .replace("{background}", picture.background)
        )
        terminal = Terminal(picture.command(configuration, workspace / "expenses/reports.py"))
        try:
            terminal.run_until(_is_connected, ANSWER_S)
            terminal.run(3.0)
            for keys in picture.keys:
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
            environment = os.environ | {"TERM": "tmux-256color", "LC_ALL": "C.UTF-8"}
            environment.pop("COLORTERM", None)
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


def svg(screen: pyte.Screen, palette: Palette) -> str:
    """The screen as a picture: a background for each run of cells, then its text, cell by cell in place."""
    width, height = COLUMNS * CELL_W + 24, ROWS * CELL_H + 24
    fonts = "ui-monospace, SFMono-Regular, Menlo, Consolas, DejaVu Sans Mono, monospace"
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}">',
        f'<rect width="100%" height="100%" rx="8" fill="{palette.background}"/>',
        f'<g transform="translate(12 12)" font-size="{FONT_PX}" font-family="{fonts}">',
    ]
    for y in range(ROWS):
        parts.extend(_row(screen, palette, y))
    parts.append("</g></svg>\n")
    return "\n".join(parts)


def _row(screen: pyte.Screen, palette: Palette, y: int) -> list[str]:
    cells = [screen.buffer[y][x] for x in range(COLUMNS)]
    drawn, start = [], 0
    for x in range(1, COLUMNS + 1):
        if x < COLUMNS and _style(screen, palette, cells, x, y) == _style(screen, palette, cells, start, y):
            continue
        foreground, background, bold, italics, under, strike = _style(screen, palette, cells, start, y)
        text = "".join(cell.data for cell in cells[start:x])
        left, long = start * CELL_W, (x - start) * CELL_W
        if background != palette.background:
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
    screen: pyte.Screen, palette: Palette, cells: Sequence[pyte.screens.Char], x: int, y: int
) -> tuple[str, str, bool, bool, bool, bool]:
    """Colours and looks of a cell; the cursor's are reversed."""
    cell = cells[x]
    foreground, background = (
        _colour(cell.fg, palette.foreground, palette),
        _colour(cell.bg, palette.background, palette),
    )
    if cell.reverse is not ((screen.cursor.x, screen.cursor.y) == (x, y)):
        foreground, background = background, foreground
    return foreground, background, cell.bold, cell.italics, cell.underscore, cell.strikethrough


def _colour(name: str, default: str, palette: Palette) -> str:
    return default if name == "default" else palette.named.get(name, f"#{name}")


if __name__ == "__main__":
    if shutil.which("fastcoder-lsp") is None:
        raise SystemExit("fastcoder-lsp is not on PATH")
    main()
