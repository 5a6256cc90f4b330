"""`fastcoder-lsp editor`: the lines that set an editor up, printed, or written into its configuration."""

import argparse
import json
import os
import re
import shlex
import sys
import sysconfig
import tomllib
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit
from urllib.request import url2pathname

from fastcoder_lsp.config.environment import find_program
from fastcoder_lsp.core.files import replace_file
from fastcoder_lsp.errors import UsageError
from fastcoder_lsp.workspace.regular import NotRegularError, read_real
from fastcoder_lsp.workspace.rules import resolved

_PACKAGE: Final = Path(__file__).parents[1]
_LUA: Final = """\
vim.opt.runtimepath:append({folder})
require('fastcoder').setup({{ cmd = {{ {program}, 'serve' }} }})"""
_LISP: Final = """\
(load {file})
(setq fastcoder-command '({program} "serve"))
(fastcoder-setup '(python-mode python-ts-mode typescript-ts-mode))
(dolist (hook '(python-mode-hook python-ts-mode-hook typescript-ts-mode-hook))
  (add-hook hook #'eglot-ensure))"""
_ZED: Final = """\
1. Run "zed: install dev extension", and choose the folder {folder}
2. Add to settings.json:
   {{ "lsp": {{ "fastcoder": {{ "binary": {{ "path": {program}, "arguments": ["serve"] }} }} }} }}"""
_JETBRAINS: Final = """\
1. Install the plugin LSP4IJ.
2. Open Settings > Languages & Frameworks > Language Servers > + > Template > Import from directory,
   and choose the folder {folder}
3. Set the command: {program} serve"""


@dataclass(frozen=True, slots=True)
class _SetUp:
    lines: Callable[[], str]
    file: Callable[[], Path] | None = None  # where `--write` puts the lines
    comment: str = ""
    check: Callable[[str], object] = str  # raises ValueError on a configuration that the editor cannot read


def add_parser(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command."""
    parser = commands.add_parser(
        "editor",
        help="print or write the lines that set an editor up",
        description="Print what sets an editor up: lines for its configuration (neovim, emacs, helix), the command "
        "that installs the extension (vscode), or the steps (zed, jetbrains).",
        epilog="Example: fastcoder-lsp editor neovim --write",
    )
    parser.add_argument("editor", choices=tuple(_EDITORS), help="the editor")
    parser.add_argument(
        "--write",
        action="store_true",
        help="write the lines into the editor's configuration, in place of those written before (neovim, emacs, helix)",
    )
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Run the command."""
    editor = _EDITORS[arguments.editor]
    lines = editor.lines()
    if not arguments.write:
        print(lines)
        return 0
    if editor.file is None:
        raise UsageError(
            f"The configuration of {arguments.editor} cannot be written.",
            hint=f"Follow what `fastcoder-lsp editor {arguments.editor}` prints.",
        )
    file = editor.file()
    try:
        before = _read(file).decode("utf-8")
        after = _with_block(before, lines, editor.comment)
        editor.check(after)
    except ValueError as error:
        raise UsageError(
            f"{file} stays as it is, because it would not work with the new lines: {error}",
            hint=f"Edit it by hand: `fastcoder-lsp editor {arguments.editor}` prints the lines.",
        ) from error
    if after == before:
        print(f"{file} already has these lines.")
        return 0
    file = file.resolve()  # a link into a repository of dotfiles stays one
    file.parent.mkdir(parents=True, exist_ok=True)
    mode = file.stat().st_mode if file.exists() else 0o644
    replace_file(file, after.encode())
    file.chmod(mode & 0o777)
    print(f"{'Changed' if before else 'Made'} {file}. Restart {arguments.editor.capitalize()}.")
    return 0


def _read(file: Path) -> bytes:
    """The configuration, empty where there is none yet. Raises UsageError if reading it could wait or never end."""
    try:
        return read_real(resolved(file), sys.maxsize)
    except FileNotFoundError:
        return b""
    except NotRegularError as error:
        raise UsageError(
            f"{file} is {error.strerror}, so it cannot be changed.",
            hint="Put a regular file in its place, or add the lines by hand: leave out --write to print them.",
        ) from error


def _with_block(text: str, lines: str, comment: str) -> str:
    """`text` with `lines` between two marks: in place of the marked lines that it has, else at its end."""
    newline = "\r\n" if "\r\n" in text else "\n"
    first, last = f"{comment} fastcoder-lsp begins", f"{comment} fastcoder-lsp ends"
    block = newline.join((first, *lines.splitlines(), last)) + newline
    marked = re.compile(rf"^{re.escape(first)}\r?\n.*?^{re.escape(last)}[ \t]*(?:\r?\n|\Z)", re.MULTILINE | re.DOTALL)
    if marked.search(text):
        return marked.sub(lambda _: block, text, count=1)
    if text and not text.endswith("\n"):
        text += newline
    return text + (newline if text else "") + block


def _neovim() -> str:
    return _LUA.format(folder=_quoted(_clients() / "neovim"), program=_quoted(_program()))


def _emacs() -> str:
    return _LISP.format(file=_quoted(_clients() / "emacs" / "fastcoder.el"), program=_quoted(_program()))


def _helix() -> str:
    text = (_clients() / "helix" / "languages.toml").read_text(encoding="utf-8").strip()
    return text.replace('"fastcoder-lsp"', _quoted(_program()), 1)


def _vscode() -> str:
    checkout = _checkout()
    if checkout is None:
        lines = "code --install-extension fastcoder-lsp.fastcoder-lsp"
    else:
        lines = f'code --install-extension "$({shlex.quote(str(checkout / "scripts" / "vsix"))})"'
    return lines if _on_path() else f'{lines}\n# settings.json: "fastcoder.server.path": {_quoted(_program())}'


def _zed() -> str:
    return _ZED.format(folder=_source("zed"), program=_quoted(_program()))


def _jetbrains() -> str:
    return _JETBRAINS.format(folder=_source("jetbrains/fastcoder"), program=_program())


def _clients() -> Path:
    """The folder of the editors' plugins, in an installed package or a checkout."""
    installed = _PACKAGE / "editors"
    return installed if installed.is_dir() else _PACKAGE.parent / "editors"


def _source(folder: str) -> Path:
    return (_checkout() or Path("CHECKOUT")) / "editors" / folder


def _checkout() -> Path | None:
    """The checkout that this package runs in, or was installed from and that is still there."""
    folder = _PACKAGE.parent
    if not (folder / "scripts" / "vsix").is_file():
        try:
            source = json.loads(distribution("fastcoder-lsp").read_text("direct_url.json") or "{}")
        except (PackageNotFoundError, ValueError):
            return None
        folder = Path(url2pathname(urlsplit(source.get("url", "")).path))
    return folder if (folder / "scripts" / "vsix").is_file() else None


def _program() -> str:
    """This program, by its full path, because editors often have another PATH; its link on PATH survives an update."""
    return _on_path() or str(_own())


def _on_path() -> str | None:
    found = find_program("fastcoder-lsp")
    return found if found is not None and (not _own().exists() or Path(found).samefile(_own())) else None


def _own() -> Path:
    return Path(sysconfig.get_path("scripts"), "fastcoder-lsp.exe" if os.name == "nt" else "fastcoder-lsp")


def _quoted(path: Path | str) -> str:
    """A path as a string of Lua, Lisp, TOML and JSON; all have JSON's quotes and backslashes."""
    return json.dumps(Path(path).as_posix(), ensure_ascii=False)


def _neovim_file() -> Path:
    # A file of its own: an init.lua would keep Neovim from reading an init.vim.
    return _settings_folder() / (os.environ.get("NVIM_APPNAME") or "nvim") / "plugin" / "fastcoder.lua"


def _emacs_file() -> Path:
    """The first file that Emacs would read."""
    home, settings = Path.home(), _settings_folder() / "emacs"
    own = home / ".emacs.d" / "init.el"
    if settings.is_dir() and not own.parent.is_dir():
        own = settings / "init.el"
    return next((file for file in (home / ".emacs.el", home / ".emacs") if file.exists() and not file.is_dir()), own)


def _helix_file() -> Path:
    return _settings_folder() / "helix" / "languages.toml"


def _check_helix(text: str) -> None:
    """Raise ValueError where Helix could not read `text`, or would take a later entry for one of the user's."""
    names = [one.get("name") for one in tomllib.loads(text).get("language", ())]
    if again := next((name for name in names if names.count(name) > 1), None):
        raise ValueError(f"it has an entry for {again} already")


def _settings_folder() -> Path:
    if os.name == "nt":
        return Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local")
    named = Path(os.environ.get("XDG_CONFIG_HOME") or "")
    return named if named.is_absolute() else Path.home() / ".config"  # as the XDG specification has it


_EDITORS: Final = {
    "neovim": _SetUp(_neovim, _neovim_file, "--"),
    "emacs": _SetUp(_emacs, _emacs_file, ";;"),
    "helix": _SetUp(_helix, _helix_file, "#", _check_helix),
    "vscode": _SetUp(_vscode),
    "zed": _SetUp(_zed),
    "jetbrains": _SetUp(_jetbrains),
}
