"""Pictures of the editors in a terminal, with the real server, for docs/editors.

    .venv/bin/python scripts/editor_pictures.py [neovim] [neovim-narrow] [neovim-calm] [neovim-rename] [emacs]
    .venv/bin/python scripts/editor_pictures.py --movie

Starts each editor on a copy of the sample workspace, types the beginning of a function, waits for ghost text, and
writes what the terminal shows as docs/editors/PICTURE.svg. In these pictures the server gives a model's recorded
answer (ANSWER), so that the same editor makes the same bytes; tests/editors/test_pictures.py makes them again.
`--movie` types on in Neovim with a real model, and writes the whole session as docs/editors/neovim-movie.svg: an SVG
without a script, which CSS animates. It runs at the recorded speed, but a time without a change lasts at most
LONGEST_PAUSE_S.

The terminal is the one that most people have: 80 columns and 256 colours, as tmux has them unless it is told otherwise;
true colour would hide ghost text that looks like code. Needs the editors on PATH, and `--movie` the default model.
"""

import argparse
import fcntl
import os
import pty
import random
import re
import select
import shlex
import signal
import struct
import sys
import tempfile
import termios
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from pathlib import Path

try:
    import pyte

    from fastcoder_lsp.cli.play.playground import copy_sample
    from fastcoder_lsp.config import cache_folder
except ImportError as error:
    if __name__ != "__main__":
        raise
    raise SystemExit(f"editor_pictures: {error.name} is not installed; run: pip install --editable '.[test]'") from None

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs/editors"
COLUMNS, ROWS = 80, 24
CELL_W, CELL_H, FONT_PX = 9.0, 20.0, 15
ANSWER_S = 90.0
LONGEST_PAUSE_S, LAST_FRAME_S = 1.0, 3.0
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
# What `auto` chooses on two idle cores of a server, so that a busy machine makes the same movie.
CHOSEN = "vim.o.hlsearch = false" + NEOVIM.replace(
    "setup()", "setup({{ settings = {{ engine = 'cpu-int8', context = {{ enabled = true }} }} }})"
)
EMACS = """
(setq inhibit-startup-screen t make-backup-files nil create-lockfiles nil python-indent-guess-indent-offset nil
      eglot-sync-connect nil auto-save-default nil native-comp-deferred-compilation nil
      native-comp-jit-compilation nil native-comp-async-report-warnings-errors nil)
(menu-bar-mode -1)
(setq frame-background-mode '{background})
(frame-set-background-mode (selected-frame))
(load "{root}/editors/emacs/fastcoder.el" nil t)
(fastcoder-setup '(python-mode))
(add-hook 'python-mode-hook (lambda () (display-line-numbers-mode 1) (eglot-ensure)))
(run-with-timer 1 nil #'redraw-display)
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


def _shows_ghost(screen: pyte.Screen) -> bool:
    """Something stands behind the cursor's place that nobody typed."""
    return bool(_behind_cursor(screen))


def _behind_cursor(screen: pyte.Screen) -> str:
    line = screen.buffer[screen.cursor.y]
    return "".join(line[x].data for x in range(screen.cursor.x, COLUMNS)).rstrip()


@dataclass(frozen=True, slots=True)
class Picture:
    """How an editor is started on a file, and which keys bring it where the function begins."""

    background: str
    command: Callable[[Path, Path], Sequence[str]]
    file: str
    configuration: str
    keys: Sequence[str]
    shows: Callable[[pyte.Screen], bool] = _shows_ghost  # what it waits for


def _neovim(configuration: Path, file: Path) -> Sequence[str]:
    return ("nvim", "-i", "NONE", "-u", str(configuration), str(file))


def _emacs(configuration: Path, file: Path) -> Sequence[str]:
    return ("emacs", "-nw", "-q", "-l", str(configuration), str(file))


LINE = "    days: dict[date, Decimal] = defaultdict(Decimal)"
ANSWER = """for expense in expenses:
        days[expense.day] += expense.amount
    return dict(days)"""
"""What Qwen2.5-Coder 0.5B suggests on the line below."""
READY = re.compile(r" fast(?:coder)?(?:  |$| [A-Z])")
"""What the line at the bottom says while the server has nothing to do."""
TO_FUNCTION = ("/sum of each day\r", ":noh\r", "zt4\x19", f"o\x15{LINE}", "\r")
BESIDE = (":vsplit %:h/models.py\r", "\x17p")
RENAME = ("/def format_table\r", ":noh\r", "zt3\x19", "f(l", "cwspending\x1b")
MOVIE = Picture("dark", _neovim, "init.lua", CHOSEN, ("/sum of each day\r", "zt10\x19", "odays"))
PICTURES = {
    "neovim": Picture("dark", _neovim, "init.lua", NEOVIM, TO_FUNCTION),
    "neovim-narrow": Picture("light", _neovim, "init.lua", NEOVIM, (*BESIDE, *TO_FUNCTION)),
    "neovim-calm": Picture("dark", _neovim, "init.lua", CALM, TO_FUNCTION),
    "neovim-rename": Picture(
        "dark", _neovim, "init.lua", NEOVIM, RENAME, lambda screen: "\n".join(screen.display).count("spending") == 3
    ),
    "emacs": Picture(
        "light", _emacs, "init.el", EMACS, ("\x13sum of each day\r", "\x05\x0c", f"\r\x01\x0b{LINE}", "\r")
    ),
}


def main() -> None:
    """The movie, or the pictures that are named, or all pictures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--movie", action="store_true")
    parser.add_argument("pictures", nargs="*", choices=PICTURES)
    options = parser.parse_args()
    if options.movie:
        target, movie = DOCS / "neovim-movie.svg", Movie(PALETTES[MOVIE.background])
        serve = f'{shlex.quote(sys.executable)} -m fastcoder_lsp.cli.main "$@"'
        photograph(MOVIE, lambda terminal: movie.record(settled(MOVIE)(terminal)), serve)
        target.write_text(movie.svg())
        print(target.relative_to(ROOT))
        return
    for name in options.pictures or PICTURES:
        target, picture = DOCS / f"{name}.svg", PICTURES[name]
        screen = photograph(picture, settled(picture))
        target.write_text(svg(screen, PALETTES[picture.background]))
        print(target.relative_to(ROOT))


RECORDED = shlex.join([sys.executable, str(ROOT / "tests/lsp/scripted_server.py"), "--says", ANSWER])


def photograph(picture: Picture, then: Callable[["Terminal"], object], server: str = RECORDED) -> pyte.Screen:
    """The terminal's screen after `then`, which sees the terminal once the picture's keys are typed.

    `server` is what a shell runs as `fastcoder-lsp`.
    """
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        workspace = copy_sample(home / "expenses-workspace")
        (workspace / ".git").mkdir()
        (workspace / "fastcoder.toml").write_text("[budget]\nautomatic_ms = 30000\n")
        configuration = home / picture.file
        configuration.write_text(
            picture.configuration.replace("{{", "{")
            .replace("}}", "}")
            .replace("{root}", str(ROOT))
            .replace("{background}", picture.background)
        )
        command = picture.command(configuration, workspace / "expenses/reports.py")
        terminal = Terminal(command, _environment(home, server))
        try:
            terminal.run_until(_is_connected, ANSWER_S)
            for keys in picture.keys:
                terminal.type(keys)
                terminal.rest(0.1)
            then(terminal)
        finally:
            terminal.close()
        return terminal.screen


def settled(picture: Picture) -> "Callable[[Terminal], Terminal]":
    """Waits until a terminal shows what the picture is of, and it has stood still for a while."""

    def wait(terminal: Terminal) -> Terminal:
        terminal.run_until(lambda screen: picture.shows(screen) and _is_ready(screen), ANSWER_S)
        terminal.rest(2.0)
        return terminal

    return wait


def _environment(home: Path, server: str) -> dict[str, str]:
    """Variables of an editor that finds `server` on PATH, and nothing of the user's in its home."""
    program = home / "bin/fastcoder-lsp"
    program.parent.mkdir()
    program.write_text(f"#!/bin/sh\nexec {server}\n")
    program.chmod(0o755)
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("XDG_", "COLORTERM"))}
    path = f"{program.parent}{os.pathsep}{os.environ['PATH']}"
    own = {"HOME": str(home), "PATH": path, "PYTHONPATH": str(ROOT), "FASTCODER_CACHE": str(cache_folder())}
    return environment | own | {"TERM": "tmux-256color", "LC_ALL": "C.UTF-8"}


def _is_connected(screen: pyte.Screen) -> bool:
    return any(" fast" in line for line in screen.display[-3:])


def _is_ready(screen: pyte.Screen) -> bool:
    return any(READY.search(line.rstrip()) for line in screen.display[-3:])


class Terminal:
    """A program in a terminal of its own."""

    def __init__(self, command: Sequence[str], environment: Mapping[str, str]) -> None:
        self.screen = pyte.Screen(COLUMNS, ROWS)
        self._stream = pyte.ByteStream(self.screen)
        self._pid, self._fd = pty.fork()
        if self._pid == 0:
            os.execvpe(command[0], list(command), dict(environment))  # noqa: S606
        fcntl.ioctl(self._fd, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))

    def type(self, keys: str) -> None:
        """Key by key, as a person would."""
        for key in keys:
            os.write(self._fd, key.encode())
            self.run(0.01)

    def run(self, seconds: float) -> None:
        """Let it draw."""
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            if select.select([self._fd], [], [], left)[0]:
                self._stream.feed(UNKNOWN.sub(b"", os.read(self._fd, 1 << 16)))

    def rest(self, seconds: float) -> None:
        """Let it draw until nothing has changed for so long."""
        before: list[str] = []
        while (now := self.screen.display) != before:
            before = now
            self.run(seconds)

    def run_until(self, holds: Callable[[pyte.Screen], bool], seconds: float) -> None:
        """Let it draw until something is to be seen."""
        end = time.monotonic() + seconds
        while not holds(self.screen):
            if time.monotonic() > end:
                raise SystemExit("not in time:\n" + "\n".join(self.screen.display))
            self.run(0.05)

    def close(self) -> None:
        """End the program; its server ends with it."""
        os.kill(self._pid, signal.SIGKILL)
        os.waitpid(self._pid, 0)
        os.close(self._fd)


@dataclass(slots=True)
class Movie:
    """What a terminal shows over time, with a line below it for the key that was pressed."""

    palette: Palette
    frames: list[tuple[float, tuple[str, ...]]] = field(default_factory=list)
    """Seconds from the first frame, with pauses shortened, and each row as it is drawn; only frames that differ."""
    _last: float = 0.0
    _key: str = ""

    def record(self, terminal: Terminal) -> None:
        """Undo what loaded the model; type a function: letters of a suggestion, Tab for the rest; begin another."""
        rhythm = random.Random(1)  # noqa: S311
        terminal.type("\x1bu\x0c")
        terminal.run(1.0)
        self._last = time.monotonic()

        def wait(seconds: float) -> None:
            end = time.monotonic() + seconds
            while time.monotonic() < end:
                terminal.run(0.02)
                self._add(terminal.screen)

        def keys(typed: str, name: str = "typing") -> None:
            self._key = name
            for key in typed:
                terminal.type(key)
                wait(rhythm.uniform(0.05, 0.14))

        def suggestion() -> str:
            self._key, end = "", time.monotonic() + ANSWER_S
            while not _shows_ghost(terminal.screen):
                if time.monotonic() > end:
                    raise SystemExit("no suggestion:\n" + "\n".join(terminal.screen.display))
                wait(0.1)
            wait(1.0)
            return _behind_cursor(terminal.screen)

        def accept() -> None:
            suggestion()
            keys("\t", "Tab: accept")
            wait(0.8)

        wait(0.8)
        keys(f"o{LINE.strip()}\r")
        keys(suggestion()[:7], "typing along")
        accept()
        keys("\x1b", "Esc")
        keys("}}k", "}}k: to the next function")
        keys("oreturn ")
        keys(suggestion()[:10], "typing along")
        suggestion()

    def _add(self, screen: pyte.Screen) -> None:
        rows = tuple("".join(_row(screen, self.palette, y)) for y in range(ROWS))
        rows += (_text(0, ROWS, self._key.replace(" ", "\u00a0"), "#8a8a8a"),) if self._key else ("",)
        if self.frames and rows == self.frames[-1][1]:
            return
        now, before = time.monotonic(), self.frames[-1][0] if self.frames else 0.0
        self.frames.append((before + min(now - self._last, LONGEST_PAUSE_S), rows))
        self._last = now

    def svg(self) -> str:
        """Each row's contents, one above the other, each visible in its times; without motion, the last frame."""
        end = self.frames[-1][0] + LAST_FRAME_S
        spans: dict[str, list[tuple[float, float]]] = defaultdict(list)
        for y in range(ROWS + 1):
            start = 0.0
            for (_, rows), (until, following) in zip(self.frames, [*self.frames[1:], (end, ())], strict=True):
                if following and rows[y] == following[y]:
                    continue
                if rows[y]:
                    spans[rows[y]].append((start, until))
                start = until
        names: dict[str, str] = {}
        drawn = []
        for content, times in spans.items():
            if times == [(0.0, end)]:
                drawn.append(content)
                continue
            keyframes = "".join(
                f"{100 * start / end:.2f}%{{visibility:visible}}"
                + f"{100 * until / end:.2f}%{{visibility:hidden}}" * (until < end)
                for start, until in times
            )
            if times[0][0] > 0:
                keyframes = "0%{visibility:hidden}" + keyframes
            name = names.setdefault(keyframes, f"{'h' if times[-1][1] < end else 'v'}{len(names)}")
            drawn.append(f'<g class="{name}">{content}</g>')
        style = [
            f"g[class]{{animation:{end:.2f}s step-end infinite}}[class^=h]{{visibility:hidden}}",
            *(
                f".{name}{{animation-name:{name}!important}}@keyframes {name}{{{keyframes}}}"
                for keyframes, name in names.items()
            ),
            "@media(prefers-reduced-motion:reduce){g[class]{animation:none!important}}",
        ]
        return _picture(["<style>", *style, "</style>", *drawn], self.palette, ROWS + 1)


def svg(screen: pyte.Screen, palette: Palette) -> str:
    """The screen as a picture: a background for each run of cells, then its text, cell by cell in place."""
    return _picture([part for y in range(ROWS) for part in _row(screen, palette, y)], palette, ROWS)


def _picture(drawn: Sequence[str], palette: Palette, rows: int) -> str:
    width, height = COLUMNS * CELL_W + 24, rows * CELL_H + 24
    fonts = "ui-monospace, SFMono-Regular, Menlo, Consolas, DejaVu Sans Mono, monospace"
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}">',
        f'<rect width="100%" height="100%" rx="8" fill="{palette.background}"/>',
        f'<g transform="translate(12 12)" font-size="{FONT_PX}" font-family="{fonts}">',
        *drawn,
        "</g></svg>\n",
    ]
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
            marks = [name for name, on in (("underline", under), ("line-through", strike)) if on]
            looks = (' font-weight="bold"' if bold else "") + (' font-style="italic"' if italics else "")
            looks += f' text-decoration="{" ".join(marks)}"' if marks else ""
            drawn.append(_text(first, y, text, foreground, looks))
        start = x
    return drawn


def _text(x: int, y: int, text: str, colour: str, looks: str = "") -> str:
    """Text from a cell on, in cells of equal width."""
    place = f'x="{x * CELL_W:g}" y="{y * CELL_H + 15:g}" textLength="{len(text) * CELL_W:g}"'
    return f'<text {place} fill="{colour}"{looks}>{escape(text)}</text>'


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
    main()
