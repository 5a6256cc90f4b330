"""`fastcoder-lsp editor`: the lines that set an editor up, to append to its configuration."""

import argparse
import json
from pathlib import Path
from typing import Final

_PACKAGE: Final = Path(__file__).parents[1]
_LUA: Final = """\
vim.opt.runtimepath:append({folder})
require('fastcoder').setup()"""
_LISP: Final = """\
(load {file})
(fastcoder-setup '(python-mode python-ts-mode typescript-ts-mode))
(dolist (hook '(python-mode-hook python-ts-mode-hook typescript-ts-mode-hook))
  (add-hook hook #'eglot-ensure))"""


def add_parser(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command."""
    parser = commands.add_parser(
        "editor",
        help="print the lines that set an editor up",
        description="Print what sets an editor up: lines for init.lua (neovim), init.el (emacs) or languages.toml "
        "(helix), or the command that installs the extension (vscode).",
        epilog="Example: fastcoder-lsp editor neovim >> ~/.config/nvim/init.lua",
    )
    parser.add_argument("editor", choices=("neovim", "emacs", "helix", "vscode"), help="the editor")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Run the command."""
    print(_lines(arguments.editor))
    return 0


def _lines(editor: str) -> str:
    folder = _PACKAGE / "editors"
    if not folder.is_dir():  # a checkout
        folder = _PACKAGE.parent / "editors"
    match editor:
        case "neovim":
            return _LUA.format(folder=_quoted(folder / "neovim"))
        case "emacs":
            return _LISP.format(file=_quoted(folder / "emacs" / "fastcoder.el"))
        case "helix":
            return (folder / "helix" / "languages.toml").read_text(encoding="utf-8").strip()
        case _:
            return "code --install-extension fastcoder-lsp.fastcoder-lsp"


def _quoted(path: Path) -> str:
    """A path as a string of Lua and of Lisp; both have JSON's quotes and backslashes."""
    return json.dumps(path.as_posix(), ensure_ascii=False)
