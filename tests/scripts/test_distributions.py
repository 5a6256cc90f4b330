"""The wheel and the source distribution that pip builds: what they hold, and that uv and pipx start their program."""

import os
import re
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from collections.abc import Mapping
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from fastcoder_lsp import __version__
from fastcoder_lsp.extensions import COMMANDS
from tests.editors.conftest import find_editor
from tests.scripts.conftest import ROOT, pip, tool

pytestmark = pytest.mark.ci  # pip fetches the build backend, twice
EDITOR_FILES = ("editors/neovim/lua/fastcoder/init.lua", "editors/emacs/fastcoder.el", "editors/helix/languages.toml")
NEOVIM_LOOK = """
local attached = vim.wait(120000, function() return #vim.lsp.get_clients({{ bufnr = 0, name = 'fastcoder' }}) > 0 end)
local file = vim.api.nvim_get_runtime_file('lua/fastcoder/init.lua', false)[1]
vim.fn.writefile({{ tostring(attached), file or '' }}, '{seen}')
"""
EMACS_LOOK = """
(setq eglot-sync-connect 120 eglot-connect-timeout 120)
(find-file "{file}")
(run-hooks 'post-command-hook) ; connects after the command that opened the file
(write-region (format "%s\n%s\n" (if fastcoder-mode "true") (symbol-file 'fastcoder-mode)) nil "{seen}")
"""


def test_the_source_distribution_has_all_that_it_needs(sdist: Path) -> None:
    with tarfile.open(sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    pages = {"README.md", "LICENSE", "CHANGELOG.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "SECURITY.md"}
    assert (
        pages | {"constraints.txt", "docs/install.md", "tests/conftest.py", "scripts/test", "pyproject.toml"} <= names
    )
    assert not [name for name in names if name.startswith((".scratch", ".venv")) or "__pycache__" in name]
    editors = {name.split("/")[1] for name in names if name.startswith("editors/")}
    assert editors == {"emacs", "helix", "neovim"}


def test_the_index_shows_no_relative_link(sdist: Path, wheel: Path) -> None:
    """Its page stands without the repository: links and pictures name the owner's."""
    with tarfile.open(sdist) as archive:
        information = next(each for each in archive.getmembers() if each.name.endswith("/PKG-INFO"))
        pages = [archive.extractfile(information).read().decode()]  # type: ignore[union-attr]
    with zipfile.ZipFile(wheel) as packed:
        pages.append(packed.read(f"fastcoder_lsp-{__version__}.dist-info/METADATA").decode())
    owner = tomllib.loads((ROOT / "publishing/owner.toml").read_text(encoding="utf-8"))["owner"]
    repository = f"https://github.com/{owner}/fastcoder-lsp"
    for page in pages:
        links = re.findall(r"(!?)\[[^\]]*\]\(([^)]*)\)", page)
        assert [target for _, target in links if not target.startswith(repository)] == []
        assert ("!", f"{repository}/raw/main/docs/editors/neovim-movie.svg") in links
        assert ("", f"{repository}/blob/main/docs/install.md") in links
        assert not re.search(r"(?:src|href)=", page)


def test_the_wheel_holds_the_program_and_its_data(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    assert "fastcoder_lsp/cli/play/sample/web/src/api.ts" in names
    assert {f"fastcoder_lsp/{path}" for path in EDITOR_FILES} <= set(names)
    assert any(name.endswith("licenses/LICENSE") for name in names)
    benches = {name.rpartition("/")[2] for name in names if name.startswith("fastcoder_lsp/bench/")}
    assert benches == {"__init__.py", "engine.py", "limits.py", "model.py", "report.py"}
    assert {name.partition("/")[0] for name in names} == {"fastcoder_lsp", f"fastcoder_lsp-{__version__}.dist-info"}


def test_the_wheels_program_starts_without_any_other_package(wheel: Path, tmp_path: Path) -> None:
    pip("install", "--no-deps", "--no-index", "--target", str(tmp_path), str(wheel))
    program = (
        "import sys; sys.path.insert(0, sys.argv.pop(1)); from fastcoder_lsp.cli.main import main; sys.exit(main())"
    )

    command = [sys.executable, "-I", "-S", "-c", program, str(tmp_path), "--version"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=tmp_path)
    assert done.stdout.strip() == f"fastcoder-lsp {__version__}"


@pytest.fixture(scope="module")
def index(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of wheels: ours, and one of each package that it names, with nothing in it."""
    folder = tmp_path_factory.mktemp("index")
    (folder / wheel.name).write_bytes(wheel.read_bytes())
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    pins = {canonicalize_name(name): version for name, _, version in (line.partition("==") for line in lines)}
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    for requirement in map(Requirement, project["dependencies"]):
        _write_empty(folder, requirement.name, pins[canonicalize_name(requirement.name)])
    return folder


def _write_empty(folder: Path, name: str, version: str) -> None:
    stem = f"{canonicalize_name(name).replace('-', '_')}-{version}"
    info = f"{stem}.dist-info"
    with zipfile.ZipFile(folder / f"{stem}-py3-none-any.whl", "w") as out:
        out.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
        out.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        out.writestr(f"{info}/RECORD", "")


def run(command: list[str], environment: Mapping[str, str], home: Path) -> str:
    done = subprocess.run(
        command, env={**os.environ, "HOME": str(home), **environment}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def packages(environment: Path) -> set[str]:
    return {path.name.partition("-")[0] for path in environment.glob("lib/*/site-packages/*.dist-info")}


def test_uv_installs_the_program_without_torch(index: Path, tmp_path: Path) -> None:
    uv = tool("uv", tmp_path / "uv")
    environment = {
        "UV_TOOL_DIR": str(tmp_path / "tools"),
        "UV_TOOL_BIN_DIR": str(tmp_path / "bin"),
        "UV_CACHE_DIR": str(tmp_path / "cache"),
    }
    local = ["--no-config", "--no-index", "--find-links", str(index), "--python", sys.executable]
    run([str(uv), "tool", "install", *local, "fastcoder-lsp"], environment, tmp_path)
    assert run([str(tmp_path / "bin" / "fastcoder-lsp"), "--version"], environment, tmp_path).endswith(__version__)
    installed = packages(tmp_path / "tools" / "fastcoder-lsp")
    assert "numba" in installed
    assert not installed & set(COMMANDS["train"].packages)


def test_pipx_installs_the_program_without_torch(index: Path, tmp_path: Path) -> None:
    pipx = tool("pipx", tmp_path / "pipx")
    python = str(pipx.with_name("python"))
    got = subprocess.run(
        [python, "-m", "pip", "--quiet", "download", "--no-deps", "--dest", str(index), "pip>=26.1"],
        capture_output=True,
        check=False,
    )
    if got.returncode:
        pytest.skip("the pip that pipx wants for itself cannot be had from the package index here")
    environment = {
        "PIPX_HOME": str(tmp_path / "home"),
        "PIPX_BIN_DIR": str(tmp_path / "bin"),
        "PIP_NO_INDEX": "1",
        "PIP_FIND_LINKS": str(index),
    }
    run([str(pipx), "install", "--backend", "pip", "--python", sys.executable, "fastcoder-lsp"], environment, tmp_path)
    assert run([str(tmp_path / "bin" / "fastcoder-lsp"), "--version"], environment, tmp_path).endswith(__version__)
    assert not set(COMMANDS["train"].packages) & packages(tmp_path / "home" / "venvs" / "fastcoder-lsp")


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment with the wheel from a folder of wheels; its dependencies are those of the tests."""
    folder = tmp_path_factory.mktemp("installed")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    python = folder / "bin" / "python"
    local = ["--no-index", "--find-links", str(wheel.parent), "--no-deps", "fastcoder-lsp"]
    pip("--python", str(python), "install", *local)
    [packages_folder] = folder.glob("lib/*/site-packages")
    others = [path for path in sys.path if path.endswith("site-packages")]
    (packages_folder / "dependencies.pth").write_text("\n".join(others), encoding="utf-8")
    return folder


@pytest.mark.parametrize("editor", ["neovim", "emacs"])
def test_the_printed_lines_set_an_editor_up(
    installed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, editor: str
) -> None:
    """Two of the three steps of a person: install, and append the lines; a server needs no model to be attached."""
    monkeypatch.setenv("PATH", f"{installed / 'bin'}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("FASTCODER_CACHE", str(tmp_path / "cache"))
    for variable in ("XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME"):
        monkeypatch.setenv(variable, str(tmp_path / variable.lower()))
    monkeypatch.delenv("PYTHONPATH", raising=False)
    init, look, seen, file = (tmp_path / name for name in ("init.lua", "look", "seen", "example.py"))
    init.write_text(run(["fastcoder-lsp", "editor", editor], {}, tmp_path), encoding="utf-8")
    file.write_text("x = 1\n", encoding="utf-8")
    if editor == "neovim":
        look.write_text(NEOVIM_LOOK.format(seen=seen), encoding="utf-8")
        program = [find_editor("neovim", "nvim"), "--headless", "-n", "-i", "NONE", "-u", str(init), str(file)]
        run([*program, "-c", f"luafile {look}", "-c", "qall!"], {}, tmp_path)
    else:
        look.write_text(EMACS_LOOK.format(seen=seen, file=file), encoding="utf-8")
        run([find_editor("emacs", "emacs"), "--batch", "-q", "-l", str(init), "-l", str(look)], {}, tmp_path)
    attached, source = seen.read_text(encoding="utf-8").splitlines()
    assert attached == "true"
    assert Path(source).is_relative_to(installed)
