"""Installed packages are found where the tools of five languages keep them, and give code of their language alone."""

from pathlib import Path

import pytest

from fastcoder_lsp.workspace.installed_packages import FAMILIES, folders_of, package_texts

CODE = {
    "python": ("home/.local/lib/python3.12/site-packages/pack/a.py", "usr/lib/python3/dist-packages/single.py"),
    "javascript": ("home/.nvm/versions/node/v22.1.0/lib/node_modules/@scope/pack/index.ts",),
    "rust": ("home/.cargo/registry/src/index.crates.io-1949cf8c6b5b557f/serde-1.0.0/src/lib.rs",),
    "go": ("home/go/pkg/mod/github.com/someone/tool@v1.2.3/tool.go", "usr/local/go/src/fmt/print.go"),
    "ruby": ("home/.rbenv/versions/3.3.0/lib/ruby/gems/3.3.0/gems/rack-3.0.0/lib/rack.rb",),
}
LEFT_OUT = (
    "home/.local/lib/python3.12/site-packages/pack/binding.c",
    "home/.local/lib/python3.12/site-packages/pack/tests/test_a.py",
    "home/.nvm/versions/node/v22.1.0/lib/node_modules/@scope/pack/index.min.js",
    "home/go/pkg/mod/cache/download/github.com/someone/tool@v1.2.3/tool.go",
    "home/.cargo/registry/src/index.crates.io-1949cf8c6b5b557f/serde-1.0.0/build.py",
)


@pytest.fixture
def machine(tmp_path: Path) -> Path:
    for name in (*(name for names in CODE.values() for name in names), *LEFT_OUT):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(f"code of {name}\n")
    return tmp_path


def found(machine: Path, family: str, cap: int = 10_000, **environment: str) -> set[str]:
    folders = folders_of(family, machine / "home", environment, machine)
    return {str(Path(key).relative_to(machine)) for key, _ in package_texts(family, folders, cap)}


@pytest.mark.parametrize("family", FAMILIES)
def test_packages_of_a_language_are_found(machine: Path, family: str) -> None:
    assert found(machine, family) == set(CODE[family])


def test_variables_name_other_places(machine: Path) -> None:
    (machine / "home/go").rename(machine / "elsewhere")
    assert found(machine, "go") == {"usr/local/go/src/fmt/print.go"}
    moved = found(machine, "go", GOPATH=str(machine / "elsewhere"), GOROOT="relative")
    assert moved == {"usr/local/go/src/fmt/print.go", "elsewhere/pkg/mod/github.com/someone/tool@v1.2.3/tool.go"}


def test_a_folder_that_several_places_lead_to_counts_once(machine: Path) -> None:
    (machine / "usr/lib/go-1.22").symlink_to(machine / "usr/local/go")
    folders = folders_of("go", machine / "home", {}, machine)
    assert len(folders) == len(set(folders)) == 2


def test_a_text_of_several_versions_counts_once(machine: Path) -> None:
    first = machine / CODE["python"][0]
    again = Path(str(first).replace("3.12", "3.13"))
    again.parent.mkdir(parents=True)
    again.write_text(first.read_text())
    assert len(found(machine, "python")) == len(CODE["python"])


def test_smaller_packages_come_first_up_to_the_limit(machine: Path) -> None:
    large = machine / "home/.local/lib/python3.12/site-packages/large/code.py"
    large.parent.mkdir()
    large.write_text("x = 1\n" * 1000)
    assert found(machine, "python", cap=5_000) == set(CODE["python"])
    assert len(found(machine, "python", cap=10_000)) == 3
