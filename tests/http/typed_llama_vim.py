"""How often llama.vim, unmodified, shows text before the next key: `python -P -m tests.http.typed_llama_vim`.

Types the runs of a recorded history in a real Neovim at five keys a second, with the real command as its server, and
looks before each key whether anything is shown. Nothing is accepted. It needs Neovim and curl on PATH, the plugin's
archive and the histories in ../shared, and a machine that does nothing else.
"""

import argparse
import re
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pynvim

from benchmarks.datasets import histories, require
from benchmarks.datasets.histories import RecordedEdit, apply
from benchmarks.typist import hands
from benchmarks.typist.hands import choose_runs
from tests.http.test_llama_vim import PEERS, ghost

SEED = 1


@dataclass
class Count:
    """Keys before which somebody could have looked, and how many of them had text."""

    keys: int = 0
    shown: int = 0

    def __str__(self) -> str:
        return f"{self.shown} of {self.keys} keys had text before the next ({self.shown / max(1, self.keys):.1%})"


def main() -> None:
    """Type, and say how it went."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--history", default=histories.NAMES[0])
    parser.add_argument("--runs", type=int, help="so many runs of it (as many as make up 480 keys)")
    parser.add_argument("--speed", type=float, default=5.0, help="keys a second")
    parser.add_argument("--url", help="of a server's /infill that runs already")
    arguments = parser.parse_args()
    folder = require("replay")
    subset = choose_runs(tuple(histories.steps(folder, arguments.history)), arguments.runs, SEED)
    files, count = histories.base(folder, arguments.history), Count()
    with ExitStack() as stack:
        root = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        editor = stack.enter_context(neovim(root, arguments.url or stack.enter_context(server())))
        for place, step in enumerate(subset.steps):
            if place in subset.typed and isinstance(step, RecordedEdit):
                type_run(editor, root, files[step.path], step, arguments.speed, count)
                sys.stderr.write(f"{count}\n")
            apply(files, step)
    sys.stdout.write(f"{arguments.history}, {len(subset.typed)} runs at {arguments.speed:g} keys a second: {count}\n")


@contextmanager
def server() -> Iterator[str]:
    """The command with a model of its own; the address of its /infill."""
    command = [sys.executable, "-P", "-m", "fastcoder_lsp.cli.main", "http", "--port", "0", "--alone"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stderr is not None
            found = re.search(r"http://127\.0\.0\.1:\d+", process.stderr.readline())
            said = process.stderr.readline()
            assert found is not None
            assert said.endswith("ready\n"), said
            yield f"{found[0]}/infill"
        finally:
            process.terminate()


@contextmanager
def neovim(root: Path, url: str) -> Iterator[Any]:
    """Neovim with the plugin alone."""
    with tarfile.open(max(PEERS.glob("llama.vim-*.tar.gz"))) as archive:
        archive.extractall(root / "plugin", filter="data")
    plugin = next(path.parent.parent for path in (root / "plugin").rglob("autoload/llama.vim"))
    init = root / "init.vim"
    init.write_text(
        f"let g:llama_config = {{'endpoint_fim': '{url}', 'show_info': 0}}\n"
        f"set runtimepath+={plugin} noautoindent indentexpr= hidden\nfiletype plugin indent off\n"
    )
    editor = pynvim.attach("child", argv=["nvim", "--embed", "--headless", "-n", "-i", "NONE", "-u", str(init)])
    try:
        yield editor
    finally:
        editor.command("qall!", async_=True)
        editor.close()


def type_run(editor: Any, root: Path, text: str, step: RecordedEdit, speed: float, count: Count) -> None:
    """Put the file as it was before, go to the place, and type the run key by key."""
    said = step.text.removesuffix("\n")
    opened, strokes = hands.opening(said), hands.keys(said)
    before = text[: step.offset] + opened
    after = step.text[len(said) :] + text[step.offset + step.delete :]
    file = root / "typed" / step.path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(before + after)
    editor.command(f"stopinsert | edit! {editor.funcs.fnameescape(str(file))}")
    row, column = before.count("\n"), len(before.rpartition("\n")[2])
    line = editor.current.buffer[row]
    at_end = column >= len(line)
    editor.funcs.cursor(row + 1, len(line[:column].encode()) + 1)
    editor.input("A" if at_end else "i")
    for number, (key, wait_s) in enumerate(
        zip(strokes, hands.waits(strokes, speed, f"{SEED} {step.path}"), strict=True)
    ):
        time.sleep(wait_s)
        if number:  # before the first key nothing was typed
            count.keys += 1
            count.shown += bool(ghost(editor))
        editor.input(key.replace("<", "<lt>").replace("\n", "<CR>"))
    typed = "\n".join(editor.current.buffer[:])
    assert typed.rstrip("\n") == (before + "".join(strokes) + after).rstrip("\n"), "what was typed is not what it has"
    editor.input("<Esc>")


if __name__ == "__main__":
    main()
