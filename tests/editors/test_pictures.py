"""The pictures of docs/editors show what the editors show now: each is made again, and compared.

Only text and the looks of ghost text are: fonts and an editor's other colours depend on versions.
They run with `--ci` and the editors on PATH: .scratch/editors/bin has .ci/run's Neovim.
"""

import re
import time
from collections import defaultdict
from html import unescape

import pytest

from tests.editors.conftest import ANSWER_S, find_editor

pytest.importorskip("termios")  # Windows has no such terminals
pytest.importorskip("pyte")
from scripts.editor_pictures import ANSWER, CELL_W, DOCS, PALETTES, PICTURES, Terminal, photograph, svg

TEXT = re.compile(r'<text x="([\d.]+)" y="([\d.]+)" textLength="[\d.]+"([^>]*)>([^<]*)</text>')
SHORTEST = 12
"""Characters of what is known as ghost text by what it says."""


def read(drawn: str) -> tuple[list[str], set[str]]:
    """The rows of a picture, and the looks of ghost text in it."""
    rows, looks = defaultdict[str, str](str), set()
    for column, row, look, escaped in TEXT.findall(drawn):
        text = unescape(escaped).replace("\u00a0", " ")
        rows[row] = rows[row].ljust(round(float(column) / CELL_W)) + text
        if len(text) > SHORTEST and text in ANSWER:
            looks.add(look)
    return list(rows.values()), looks


@pytest.mark.ci
@pytest.mark.parametrize("name", PICTURES)
def test_the_picture_is_of_today(name: str) -> None:
    picture, stored = PICTURES[name], read((DOCS / f"{name}.svg").read_text(encoding="utf-8"))
    find_editor(name, picture.command(DOCS, DOCS)[0])

    def wait(terminal: Terminal) -> None:
        end = time.monotonic() + ANSWER_S
        while read(svg(terminal.screen, PALETTES[picture.background])) != stored and time.monotonic() < end:
            terminal.run(0.2)

    now = read(svg(photograph(picture, wait), PALETTES[picture.background]))
    assert now == stored, (
        f"it shows something else now; if it should: .venv/bin/python scripts/editor_pictures.py {name}"
    )
