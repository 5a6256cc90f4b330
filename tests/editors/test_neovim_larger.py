"""A real Neovim while a larger model is made ready: a smaller one answers, and the editor says so."""

import subprocess
from pathlib import Path

import pytest

from fastcoder_lsp.config import kernels_folder
from fastcoder_lsp.model import ModelFiles
from fastcoder_lsp.model.downloads import ProgressStep, recorded
from tests.editors.conftest import find_editor, make_workspace, put_on_path, wait_for
from tests.editors.neovim import Neovim
from tests.editors.test_neovim import CONFIGURATION
from tests.runtime.test_succession import LARGE, NOBODY, SMALL, put


@pytest.mark.ci
def test_a_smaller_model_answers_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache = tmp_path / "cache"
    program = find_editor("neovim", "nvim")
    wanted = ModelFiles(name=LARGE, folder=Path(LARGE), source="", variant="", digest="")
    server = put_on_path(wanted, tmp_path, monkeypatch)
    monkeypatch.setenv("FASTCODER_CACHE", str(cache))
    monkeypatch.setenv("FASTCODER_KERNELS", str(kernels_folder()))
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hub"))
    put(cache, SMALL, "few\n")
    file = make_workspace(tmp_path) / "new.py"
    file.write_text("")
    with recorded(cache, LARGE, NOBODY) as download:
        download.advance(ProgressStep(LARGE, 1_000_000, 4_000_000))
        editor = Neovim(program, CONFIGURATION, file, tmp_path)
        try:

            def message() -> str:
                return str(editor.lua("return require('fastcoder.status').of().message"))

            editor.type("ix = 1<CR>")
            wait_for(lambda: editor.ghost() == "few", "text of the smaller model")
            wait_for(lambda: message().startswith(f"{SMALL} answers until {LARGE} is ready (downloading"), "the status")
            put(cache, LARGE, "many\n")
            wait_for(lambda: message() == "", "the larger model takes over")
            editor.type("<Esc>:edit! other.py<CR>ix = 1<CR>")  # the scripted text comes at a document's first question
            wait_for(lambda: editor.ghost() == "many", "text of the larger model")
            assert "Error" not in editor.messages()
        finally:
            editor.quit()
            subprocess.run([server.program, "host", "stop"], check=False, capture_output=True, timeout=60)
