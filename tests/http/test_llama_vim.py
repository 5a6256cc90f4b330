"""llama.vim as its authors publish it, in a real Neovim, against the real server: typed, shown, accepted."""

import os
import tarfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.editors.conftest import find_editor, wait_for
from tests.http.toy_server import Start

pynvim = pytest.importorskip("pynvim")

PEERS = Path(os.environ.get("FASTCODER_PEERS") or Path(__file__).parents[3] / "shared" / "peers")
"""Where archives of other people's programs lie; FASTCODER_PEERS names another folder."""
SAYS = "return sum(items)"
HEAD = "import os\nimport sys\n\n\ndef total(items):\n"


def model(text: str) -> str:
    """Says one line below the head, its indentation included, for the plugin leaves that to the server."""
    line, said = f"    {SAYS}\n", text.rpartition(HEAD)[2]
    return line[len(said) :] if line.startswith(said) else ""


@pytest.fixture
def plugin(tmp_path: Path) -> Path:
    found = sorted(PEERS.glob("llama.vim-*.tar.gz"))
    if not found:
        pytest.skip("llama.vim is absent: its archive is not in ../shared/peers, or where FASTCODER_PEERS says")
    with tarfile.open(found[-1]) as archive:
        archive.extractall(tmp_path / "plugin", filter="data")
    return next(path.parent.parent for path in (tmp_path / "plugin").rglob("autoload/llama.vim"))


@pytest.fixture
def neovim(plugin: Path, tmp_path: Path) -> Iterator[Callable[[int], Any]]:
    find_editor("curl", "curl")
    program, opened = find_editor("neovim", "nvim"), []

    def start(port: int) -> Any:
        init, file = tmp_path / "init.vim", tmp_path / "total.py"
        init.write_text(
            f"let g:llama_config = {{'endpoint_fim': 'http://127.0.0.1:{port}/infill', 'show_info': 0}}\n"
            f"set runtimepath+={plugin} noautoindent indentexpr=\nfiletype plugin indent off\n"
        )
        file.write_text(HEAD + "    \n")
        opened.append(
            pynvim.attach(
                "child", argv=[program, "--embed", "--headless", "-n", "-i", "NONE", "-u", str(init), str(file)]
            )
        )
        return opened[-1]

    yield start
    for editor in opened:
        editor.command("qall!", async_=True)
        editor.close()


def ghost(editor: Any) -> str:
    marks = editor.api.buf_get_extmarks(0, editor.api.create_namespace("vt_fim"), 0, -1, {"details": True})
    return "".join(chunk[0] for _, _, _, details in marks for chunk in details.get("virt_text", ())).strip()


def shows(editor: Any, text: str) -> bool:
    return ghost(editor) == text


def test_typed_shown_and_accepted(neovim: Callable[[int], Any], start: Start) -> None:
    server = start(model)
    editor = neovim(server.port)
    editor.funcs.cursor(6, 5)
    editor.input("A")
    wait_for(lambda: ghost(editor) == SAYS, "the suggestion is shown")
    assert server.asked[0] == HEAD
    for letter, left in zip("ret", (SAYS[1:], SAYS[2:], SAYS[3:]), strict=True):
        editor.input(letter)
        wait_for(partial(shows, editor, left), "what is left of it is shown")
    editor.input("<Tab>")
    wait_for(lambda: editor.api.get_current_line() == f"    {SAYS}", "it is accepted")
    assert not [text for text in server.asked if text.endswith(("r", "re", "ret"))], "the model was asked again"
    assert not sum(one.failed for one in server.desks.statistics())
