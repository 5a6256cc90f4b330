"""A renamed definition in other files, by the real server in real editors: previewed, made, undone."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.editors.conftest import ROOT, Server, assert_leaves, find_editor, put_scripted_on_path, wait_for
from tests.editors.neovim import Neovim
from tests.editors.test_emacs import play

NET = "def load(url):\n    return url\n"
USES = "from net import load\n\n\ndef run():\n    return load(1)\n"
CRAB = "from .reports import load\nx = '🦀', load(1)\n"
CONFIGURATION = f"""
vim.opt.runtimepath:append('{ROOT}/editors/neovim')
vim.o.hidden = true
require('fastcoder').setup()
"""


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Server:
    return put_scripted_on_path(tmp_path, monkeypatch, "--says", "ghost")


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    root = tmp_path / "repository"
    (root / ".git").mkdir(parents=True)
    for name, text in {"net.py": NET, "cart.py": USES, "wind.py": USES.replace("\n", "\r\n")}.items():
        (root / name).write_bytes(text.encode())
    return root


def test_emacs_shows_a_diff_and_makes_them_by_one_key(server: Server, repository: Path) -> None:
    program, folder = find_editor("emacs", "emacs"), repository / "expenses"
    folder.mkdir()
    (folder / "reports.py").write_text('def load(url):\n    """The largest first."""\n    return url\n')
    (folder / "cart.py").write_text(CRAB)
    renamed = CRAB.replace("load", "fetch")
    seen = play(program, server, repository, "everywhere")["everywhere"]
    assert seen["diff"] == (
        "--- cart.py\n+++ cart.py\n@@ -1 +1 @@\n-from .reports import load\n+from .reports import fetch\n"
        "@@ -2 +2 @@\n-x = '🦀', load(1)\n+x = '🦀', fetch(1)\n"
    )
    assert seen["made"] == renamed
    assert seen["undone"] == seen["disk"] == CRAB


@pytest.fixture
def neovim(server: Server, repository: Path, tmp_path: Path) -> Iterator[Neovim]:
    started = Neovim(find_editor("neovim", "nvim"), CONFIGURATION, repository / "net.py", tmp_path, "fastcoder")
    yield started
    started.quit()
    assert_leaves(server)


TEXTS = """
local found = {}
for _, name in ipairs({'cart.py', 'wind.py'}) do
  local buffer = vim.fn.bufnr(name)
  local loaded = buffer >= 0 and vim.api.nvim_buf_is_loaded(buffer)
  found[name] = loaded and table.concat(vim.api.nvim_buf_get_lines(buffer, 0, -1, true), '\\n') .. '\\n' or ''
end
return found
"""


def test_neovim_shows_a_diff_and_the_quickfix_list_and_makes_them_by_one_key(neovim: Neovim, repository: Path) -> None:
    neovim.type("wcwfetch<Esc>")

    def shown() -> bool:
        if neovim.lua("return vim.bo.filetype") != "diff":
            neovim.type(":FastCoder everywhere<CR>")
        return bool(neovim.lua("return vim.bo.filetype == 'diff'"))

    wait_for(shown, "the diff is shown")
    diff = neovim.text()
    assert "--- cart.py\n+++ cart.py\n" in diff
    assert diff.count("-from net import load\n+from net import fetch\n") == 2
    places = neovim.lua("return vim.tbl_map(function(one) return one.lnum end, vim.fn.getqflist())")
    assert places == [1, 5, 1, 5]
    renamed = USES.replace("load", "fetch")
    neovim.type("<CR>")
    wait_for(lambda: neovim.lua(TEXTS) == {"cart.py": renamed, "wind.py": renamed}, "both files are changed")
    assert (repository / "cart.py").read_text() == USES, "and not written"
    wait_for(lambda: "changed 2 files" in neovim.messages(), "it says so")
    neovim.type(":FastCoder undo<CR>")
    wait_for(lambda: neovim.lua(TEXTS) == {"cart.py": USES, "wind.py": USES}, "one command takes it back")
