"""Writes the owner, the maintainer and the version into all files that a release publishes.

    python scripts/release_files.py                          write them
    python scripts/release_files.py --check                  name the files that differ
    python scripts/release_files.py --tag v1.2.3             the same, and refuse what must not be published
    python scripts/release_files.py --checksums SHA256SUMS   after the release: write the source archive's checksum too

The names are in publishing/owner.toml, the version is in fastcoder_lsp/__init__.py. A new version resets the checksums
of the old one. Needs Python alone.
"""

import argparse
import re
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]
FILES = (
    "pyproject.toml",
    "editors/emacs/fastcoder.el",
    "editors/vscode/README.md",
    "editors/vscode/package.json",
    "editors/zed/Cargo.toml",
    "editors/zed/extension.toml",
    "publishing/aur/PKGBUILD",
    "publishing/homebrew/fastcoder-lsp.rb",
    "publishing/mason/package.yaml",
    "publishing/melpa/fastcoder",
    "publishing/nvim-lspconfig/fastcoder.lua",
)
CHANGELOGS = ("CHANGELOG.md", "editors/vscode/CHANGELOG.md")
PLACES = {
    "owner": r'(?<=https://github\.com/)[\w-]+(?=/fastcoder-lsp)|(?<=:repo ")[\w-]+(?=/fastcoder-lsp)',
    "maintainer": r'(?<=^# Maintainer: ).+$|(?<=^authors = \[").+(?="\]$)',
    "version": (
        r'(?<=^version = ")[^"]+|(?<=^  "version": ")[^"]+|(?<=^;; Version: ).+$|(?<=^pkgver=).+$'
        r"|(?<=/download/v)\d[^/]*|(?<=fastcoder_lsp-)\d.*(?=\.tar\.gz)|(?<=pypi/fastcoder-lsp@).+$"
    ),
    "checksum": r"\b[0-9a-f]{64}\b",
}
"""Where each value stands in a file."""
NO_CHECKSUM = "0" * 64
"""Stands in the files until the version's source archive is published."""
PLACEHOLDERS = {"owner": "OWNER", "maintainer": "MAINTAINER <maintainer@example.org>"}


def read_values(root: Path) -> dict[str, str]:
    """What the files must say.

    Raises:
        KeyError: publishing/owner.toml lacks a name.
        ValueError: a name cannot stand in these files, or there is no version.
    """
    names = tomllib.loads((root / "publishing/owner.toml").read_text(encoding="utf-8"))
    version = re.search(
        r'^__version__ = "(.+)"$', (root / "fastcoder_lsp/__init__.py").read_text("utf-8"), re.MULTILINE
    )
    if not re.fullmatch(r"[A-Za-z0-9-]+", names["owner"]):
        raise ValueError(f"the owner {names['owner']!r} is no account's name: write letters, digits and hyphens")
    if not re.fullmatch(r'[^"\\<>\n]+ <[^"\\<>\s]+@[^"\\<>\s]+>', names["maintainer"]):
        raise ValueError(f"the maintainer {names['maintainer']!r} has another form: write NAME <ADDRESS>")
    if version is None:
        raise ValueError("fastcoder_lsp/__init__.py has no __version__")
    return {"owner": names["owner"], "maintainer": names["maintainer"], "version": version[1]}


def filled(text: str, values: dict[str, str]) -> str:
    """The text of a file with these values in their places, and no checksum of another version."""
    if any(found[0] != values["version"] for found in re.finditer(PLACES["version"], text, re.MULTILINE)):
        values = {"checksum": NO_CHECKSUM} | values
    for name, value in values.items():
        text = re.sub(PLACES[name], lambda _, value=value: value, text, flags=re.MULTILINE)  # type: ignore[misc]
    return text


def checksum_of(sums: str, version: str) -> str:
    """The checksum of the version's source archive in the text of SHA256SUMS.

    Raises:
        ValueError: the archive is not in it.
    """
    name = f"fastcoder_lsp-{version}.tar.gz"
    found = re.search(rf"^([0-9a-f]{{64}}) [ *]{re.escape(name)}$", sums, re.MULTILINE)
    if found is None:
        raise ValueError(f"{name} is not among the checksums: take SHA256SUMS of the release {version}")
    return found[1]


def problems(root: Path, values: dict[str, str], tag: str | None) -> list[str]:
    """What stands against these files, a line each; with a tag also what stands against their publication."""
    found = [
        f"{name} names another owner, maintainer or version: run scripts/release_files.py"
        for name in FILES
        if filled(text := (root / name).read_text(encoding="utf-8"), values) != text
    ]
    if tag is not None:
        found += [
            f"the {name} is a placeholder: set it in publishing/owner.toml, then run scripts/release_files.py"
            for name, placeholder in PLACEHOLDERS.items()
            if values[name] == placeholder
        ]
        if tag != f"v{values['version']}":
            found.append(f"the tag {tag} is not of this version: tag v{values['version']}, or change __version__")
        found += [
            f"{name} has no heading of this version: write ## {values['version']}, with what changed"
            for name in CHANGELOGS
            if not re.search(
                rf"^## \[?{re.escape(values['version'])}(?![\w.])", (root / name).read_text("utf-8"), re.MULTILINE
            )
        ]
        found += [
            f"{name} has a checksum, but this version's archive is not published yet: write {len(NO_CHECKSUM)} zeros"
            for name in FILES
            if set(re.findall(PLACES["checksum"], (root / name).read_text("utf-8"))) - {NO_CHECKSUM}
        ]
    return found


def main(arguments: list[str], root: Path = ROOT) -> int:
    """Do what the arguments say; the exit code: 1 where something stands against it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    kind = parser.add_mutually_exclusive_group()
    kind.add_argument("--check", action="store_true")
    kind.add_argument("--tag")
    kind.add_argument("--checksums", type=Path)
    options = parser.parse_args(arguments)
    try:
        values = read_values(root)
        if options.checksums is not None:
            values["checksum"] = checksum_of(options.checksums.read_text(encoding="utf-8"), values["version"])
    except (KeyError, OSError, ValueError) as error:
        print(f"release_files: {error}", file=sys.stderr)
        return 1
    if options.check or options.tag is not None:
        found = problems(root, values, options.tag)
        print("\n".join(found), end="\n" if found else "", file=sys.stderr)
        return 1 if found else 0
    for path in (root / name for name in FILES):
        path.write_text(filled(path.read_text(encoding="utf-8"), values), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
