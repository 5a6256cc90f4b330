"""What a release publishes: names and versions agree, and the files for other projects' lists follow their rules."""

import json
import re
import shutil
import subprocess
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml  # type: ignore[import-untyped]

from fastcoder_lsp import __version__
from fastcoder_lsp.cli.main import parser
from scripts import release_files
from tests.editors.conftest import find_editor
from tests.scripts.conftest import ROOT

SUM = "ab" * 32
NAMED = set(release_files.FILES) - {"editors/zed/Cargo.toml"}
"""The files that name the owner; the other one names the version alone."""


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    for name in (*release_files.FILES, "publishing/owner.toml", "fastcoder_lsp/__init__.py"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    for name in release_files.CHANGELOGS:
        (tmp_path / name).write_text(f"# Changelog\n\n## {__version__} - 2026-01-02\n", encoding="utf-8")
    (tmp_path / "publishing/owner.toml").write_text('owner = "Octo-Cat"\nmaintainer = "O. Cat <o@cat.example>"\n')
    return tmp_path


def test_the_repository_agrees_with_itself() -> None:
    assert release_files.main(["--check"]) == 0


def test_one_file_sets_the_names_everywhere(copy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert release_files.main(["--check"], copy) == 1
    assert {line.split()[0] for line in capsys.readouterr().err.splitlines()} == NAMED
    assert release_files.main([], copy) == 0
    assert release_files.main(["--tag", f"v{__version__}"], copy) == 0
    for name in release_files.FILES:
        text = (copy / name).read_text(encoding="utf-8")
        assert not re.search("OWNER|MAINTAINER", text), name


@pytest.mark.parametrize(
    ("owner", "tag", "said"),
    [
        (None, f"v{__version__}", "the owner is a placeholder"),
        (None, f"v{__version__}", "the maintainer is a placeholder"),
        ('owner = "cat"\nmaintainer = "C <c@cat.example>"', "v0.0.0", "the tag v0.0.0 is not of this version"),
        ('owner = "cat"\nmaintainer = "C <c@cat.example>"', f"v{__version__}", "names another owner"),
        ('owner = "a/b"\nmaintainer = "C <c@cat.example>"', f"v{__version__}", "'a/b' is no account's name"),
        ('owner = "cat"\nmaintainer = "C\\n"', f"v{__version__}", "write NAME <ADDRESS>"),
    ],
)
def test_a_tag_is_refused(
    copy: Path, capsys: pytest.CaptureFixture[str], owner: str | None, tag: str, said: str
) -> None:
    text = owner or (ROOT / "publishing/owner.toml").read_text(encoding="utf-8")
    (copy / "publishing/owner.toml").write_text(text, encoding="utf-8")
    assert release_files.main(["--tag", tag], copy) == 1
    assert said in capsys.readouterr().err


@pytest.mark.parametrize(
    ("name", "old", "new", "said"),
    [
        *((name, f"## {__version__}", "## Unreleased", "has no heading") for name in release_files.CHANGELOGS),
        *((name, f"## {__version__}", f"## {__version__}.1", "has no heading") for name in release_files.CHANGELOGS),
        ("publishing/aur/PKGBUILD", release_files.NO_CHECKSUM, SUM, "has a checksum"),
    ],
)
def test_a_tag_is_refused_for_one_file(
    copy: Path, capsys: pytest.CaptureFixture[str], name: str, old: str, new: str, said: str
) -> None:
    release_files.main([], copy)
    text = (copy / name).read_text(encoding="utf-8")
    assert old in text
    (copy / name).write_text(text.replace(old, new), encoding="utf-8")
    assert release_files.main(["--tag", f"v{__version__}"], copy) == 1
    assert capsys.readouterr().err.startswith(f"{name} {said}")


def test_a_new_version_and_its_checksum_are_written(copy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (copy / "fastcoder_lsp/__init__.py").write_text('__version__ = "7.8.9"\n', encoding="utf-8")
    sums = copy / "SHA256SUMS"
    sums.write_text(f"{'cd' * 32}  fastcoder_lsp-7.8.9-py3-none-any.whl\n", encoding="utf-8")
    assert release_files.main(["--checksums", str(sums)], copy) == 1
    assert "fastcoder_lsp-7.8.9.tar.gz is not among the checksums" in capsys.readouterr().err
    sums.write_text(f"{SUM}  fastcoder_lsp-7.8.9.tar.gz\n", encoding="utf-8")
    assert release_files.main(["--checksums", str(sums)], copy) == 0
    with_checksum = {name for name in release_files.FILES if SUM in (copy / name).read_text(encoding="utf-8")}
    assert with_checksum == {"publishing/aur/PKGBUILD", "publishing/homebrew/fastcoder-lsp.rb"}
    for name in set(release_files.FILES) - {"pyproject.toml", "publishing/melpa/fastcoder", "editors/vscode/README.md"}:
        text = (copy / name).read_text(encoding="utf-8")
        assert ("7.8.9" in text) is (name != "publishing/nvim-lspconfig/fastcoder.lua"), name
    assert release_files.main(["--check"], copy) == 0
    (copy / "fastcoder_lsp/__init__.py").write_text('__version__ = "7.9.0"\n', encoding="utf-8")
    assert release_files.main(["--check"], copy) == 1
    assert release_files.main([], copy) == 0
    for name in with_checksum:
        text = (copy / name).read_text(encoding="utf-8")
        assert release_files.NO_CHECKSUM in text, name
        assert SUM not in text, name


def test_the_version_in_the_extensions_lock_is_the_same() -> None:
    lock = json.loads((ROOT / "editors/vscode/package-lock.json").read_text(encoding="utf-8"))
    assert lock["version"] == lock["packages"][""]["version"] == __version__


def mason() -> list[str]:
    """The required keys and the patterns of mason-org/registry-schema."""
    package = yaml.safe_load((ROOT / "publishing/mason/package.yaml").read_text(encoding="utf-8"))
    assert set(package) == {
        *("name", "description", "homepage", "licenses", "languages", "categories", "source"),
        *("bin", "neovim"),
    }
    assert re.fullmatch("pkg:pypi/.+@.+", package["source"]["id"])
    assert package["categories"] == ["LSP"]
    assert package["neovim"]["lspconfig"] == "fastcoder"
    (program,) = package["bin"]
    assert package["bin"][program] == f"pypi:{program}"
    return [program, "serve"]


def nvim_lspconfig() -> list[str]:
    """Neovim reads it; it starts what our plugin starts, in the same folders. Its documentation is `---@brief`."""
    program = find_editor("neovim", "nvim")
    entries = (ROOT / "publishing/nvim-lspconfig/fastcoder.lua", ROOT / "editors/neovim/lsp/fastcoder.lua")
    assert entries[0].read_text(encoding="utf-8").startswith("---@brief\n---\n")
    code = (
        "lua local found = {} "
        f"vim.opt.rtp:prepend('{ROOT / 'editors/neovim'}') "
        f"for _, path in ipairs({{ {', '.join(repr(str(path)) for path in entries)} }}) do "
        "local entry = dofile(path) table.insert(found, { entry.cmd, entry.root_markers }) end "
        "io.stdout:write(vim.json.encode(found))"
    )
    command = [program, "--headless", "-u", "NONE", "-i", "NONE", "-c", code, "-c", "qall!"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    ours, plugins = json.loads(done.stdout)
    assert ours == plugins, done.stderr
    found: list[str] = ours[0]
    return found


def melpa() -> list[str]:
    """The recipe is named after the package's feature, and takes nothing but its file."""
    recipe = (ROOT / "publishing/melpa/fastcoder").read_text(encoding="utf-8")
    assert recipe.startswith("(fastcoder\n")
    assert ":fetcher github" in recipe
    (file,) = re.findall(r':files \("(.+)"\)', recipe)
    source = (ROOT / file).read_text(encoding="utf-8")
    assert "(provide 'fastcoder)" in source
    (command,) = re.findall(r"fastcoder-command '\((.+)\)$", source, re.MULTILINE)
    return [word.strip('"') for word in command.split()]


def zed() -> list[str]:
    """What Zed requires of a manifest, and the program that the extension looks for."""
    folder = ROOT / "editors/zed"
    manifest = tomllib.loads((folder / "extension.toml").read_text(encoding="utf-8"))
    assert {"id", "name", "version", "schema_version", "authors", "description", "repository"} <= set(manifest)
    assert "zed" not in manifest["id"]
    assert tomllib.loads((folder / "Cargo.toml").read_text(encoding="utf-8"))["lib"]["crate-type"] == ["cdylib"]
    source = (folder / "src/lib.rs").read_text(encoding="utf-8")
    return [*re.findall(r'which\("(.+?)"\)', source), *re.findall(r'args: vec!\["(\w+)"', source)]


def sublime() -> list[str]:
    (client,) = json.loads(snippet("json"))["clients"].values()
    assert set(client) == {"enabled", "command", "selector"}
    found: list[str] = client["command"]
    return found


def kakoune() -> list[str]:
    """The option holds TOML, a table for each server; the program is the table's name."""
    (servers,) = re.findall(r"lsp_servers %\{(.+?)\n +\}", snippet(""), re.DOTALL)
    ((program, server),) = tomllib.loads(servers).items()
    assert set(server) == {"root_globs", "args"}
    return [program, *server["args"]]


def snippet(language: str) -> str:
    page = (ROOT / "docs/editors/README.md").read_text(encoding="utf-8")
    blocks = dict(re.findall(r"^  ```(\w*)\n(.*?)^  ```$", page, re.MULTILINE | re.DOTALL))
    return str(blocks[language])


def container() -> list[str]:
    """It copies what exists, and drops root before it starts the server."""
    text = (ROOT / "publishing/Containerfile").read_text(encoding="utf-8")
    for sources in re.findall(r"^COPY (.+) \./\S*$", text, re.MULTILINE):
        assert all((ROOT / source).exists() for source in sources.split())
    assert text.index("USER fastcoder") < text.index("ENTRYPOINT")
    words = re.findall(r"^(?:ENTRYPOINT|CMD) (.+)$", text, re.MULTILINE)
    return [word for part in words for word in json.loads(part)]


@pytest.mark.parametrize("read", [mason, nvim_lspconfig, melpa, zed, sublime, kakoune, container])
def test_other_lists_start_a_command_that_exists(read: Callable[[], list[str]]) -> None:
    program, *arguments = read()
    assert program == "fastcoder-lsp"
    assert parser(arguments[0]).parse_args(arguments).run
