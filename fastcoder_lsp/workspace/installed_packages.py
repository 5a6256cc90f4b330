"""Packages that are installed on this machine, where the tools of five languages keep them. Nothing is downloaded.

`corpus build` reads them when the user asks; the packages of a workspace are `corpus_files.dependencies`.
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from fastcoder_lsp.workspace.corpus_files import Texts, packages_in, smaller_first
from fastcoder_lsp.workspace.languages import family_of, language_of
from fastcoder_lsp.workspace.regular import list_folder

_PLACES: Final[Mapping[str, str]] = {
    "python": """
        $VIRTUAL_ENV/lib/python*/site-packages $CONDA_PREFIX/lib/python*/site-packages
        ~/.local/lib/python*/site-packages ~/.local/share/pipx/venvs/*/lib/python*/site-packages
        ~/.local/share/uv/tools/*/lib/python*/site-packages ~/.pyenv/versions/*/lib/python*/site-packages
        /usr/lib/python3/dist-packages /usr/local/lib/python*/site-packages /usr/local/lib/python*/dist-packages
        /opt/homebrew/lib/python*/site-packages""",
    "javascript": """
        $NPM_CONFIG_PREFIX/lib/node_modules ~/.npm-global/lib/node_modules ~/.nvm/versions/node/*/lib/node_modules
        /usr/lib/node_modules /usr/local/lib/node_modules /usr/share/nodejs /opt/homebrew/lib/node_modules""",
    "rust": """
        $CARGO_HOME/registry/src/* ~/.cargo/registry/src/* ~/.rustup/toolchains/*/lib/rustlib/src/rust/library
        /usr/share/cargo/registry""",
    "go": """
        $GOMODCACHE $GOPATH/pkg/mod ~/go/pkg/mod $GOROOT/src /usr/local/go/src /usr/lib/go*/src
        /usr/share/gocode/src""",
    "ruby": """
        $GEM_HOME/gems ~/.gem/ruby/*/gems ~/.local/share/gem/ruby/*/gems ~/.rbenv/versions/*/lib/ruby/gems/*/gems
        ~/.rvm/gems/*/gems /var/lib/gems/*/gems /usr/lib/ruby/gems/*/gems /usr/local/bundle/gems
        /usr/share/rubygems-integration/*/gems""",
}
"""By family of languages: folders of packages, with `*` for any name, and variables that may name a folder."""
FAMILIES: Final = tuple(_PLACES)
MODULE_DEPTH = 5  # folders above a Go module, whose own name has its version behind an "@"


def folders_of(family: str, home: Path, environment: Mapping[str, str], root: Path = Path("/")) -> list[Path]:
    """The folders that hold installed packages of a family of languages, each once, links followed."""
    found: dict[Path, None] = {}
    for place in _PLACES[family].split():
        first, _, rest = place.partition("/")
        if first.startswith("$"):
            named = environment.get(first[1:], "")
            base = Path(named) if Path(named).is_absolute() else None
        else:
            base = home if first == "~" else root
        if base is not None:
            matches = sorted(base.glob(rest)) if rest else [base]
            found |= dict.fromkeys(folder.resolve() for folder in matches if folder.is_dir())
    return list(found)


def package_texts(family: str, folders: Sequence[Path], cap: int) -> Texts:
    """The code of a family in the packages of some folders, each text once, smaller packages first, of `cap` bytes."""
    packages, seen = (package for folder in folders for package in _packages(family, folder)), set[int]()
    for key, text in smaller_first(packages, cap, lambda path: family_of(language_of(path)) == family):
        if (known := hash(text)) not in seen:
            seen.add(known)
            yield key, text


def _packages(family: str, folder: Path) -> Iterator[Path]:
    modules = list(_modules(folder, MODULE_DEPTH)) if family == "go" else []
    return iter(modules) if modules else packages_in(folder)


def _modules(folder: Path, depth: int) -> Iterator[Path]:
    for name, is_folder in list_folder(folder):
        if is_folder and "@" in name:
            yield folder / name
        elif is_folder and depth > 1 and name != "cache":
            yield from _modules(folder / name, depth - 1)
