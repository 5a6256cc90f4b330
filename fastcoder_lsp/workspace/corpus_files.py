"""Texts for corpora: folders, archives, the standard library, a workspace's installed dependencies.

Owns which of their files are worth having: code, of moderate size, no tests, no secrets. Nothing is unpacked to the
disk; an archive's members are read up to the same caps as files.
"""

import os
import re
import sysconfig
import tarfile
import zipfile
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path, PurePosixPath

from fastcoder_lsp.errors import UsageError
from fastcoder_lsp.workspace.languages import is_known, language_of
from fastcoder_lsp.workspace.secrets import is_secret

MAX_FILE_BYTES = 1_000_000
MAX_LINE = 5_000
DEPENDENCY_BYTES = 40_000_000
"""Of installed code, for all dependencies of a workspace together: some 10 M tokens."""
_NO_CODE = frozenset(("plaintext", "json", "jsonc", "markdown", "diff", "xml", "html", "latex", "restructuredtext"))
_SKIPPED = re.compile(r"(tests?|testing|idle_test|__pycache__|pydoc_data|\..*)")
_INSTALLED = frozenset(("site-packages", "dist-packages", "node_modules"))
_ARCHIVES = (".zip", ".whl", ".tar", ".tar.gz", ".tgz", ".tar.xz", ".tar.bz2")
Texts = Iterator[tuple[str, str]]
"""Key and text of each file."""


def texts_of(paths: Iterable[Path]) -> Texts:
    """The code in some folders, archives and files.

    Raises:
        UsageError: a path does not exist, or is none of these.
    """
    for path in paths:
        if path.is_dir():
            yield from _read(_walk(path))
        elif path.name.endswith(_ARCHIVES):
            yield from _archive(path)
        elif path.is_file():
            yield from _read([path])
        else:
            raise UsageError(f"{path} does not exist", "Name folders, code files, .zip, .whl or .tar archives.")


def standard_library() -> Texts:
    """The code of the running Python's standard library, without tests and installed packages."""
    return _read(_walk(Path(sysconfig.get_path("stdlib")), _INSTALLED))


def dependencies(roots: Sequence[Path], cap: int = DEPENDENCY_BYTES) -> Texts:
    """The code of what is installed in some workspace folders, smaller packages first, until `cap` bytes."""
    packages = [package for root in roots for folder in installed(root) for package in _packages(folder)]
    sized = sorted((sum(path.stat().st_size for path in files), files) for files in map(_listed, packages))
    left = cap
    for size, files in sized:
        if size > left:
            return
        left -= size
        yield from _read(files)


def installed(root: Path) -> list[Path]:
    """The folders of a workspace folder that packages are installed in."""
    found = [root / "node_modules"]
    for environment in (".venv", "venv"):
        found += sorted((root / environment).glob("lib*/python*/site-packages"))
        found += sorted((root / environment).glob("Lib/site-packages"))
    return [folder for folder in found if folder.is_dir() and not folder.is_symlink()]


def _packages(folder: Path) -> Iterator[Path]:
    """Each installed package: a folder or a single file; links lead elsewhere and are left out."""
    for entry in sorted(folder.iterdir()):
        if entry.is_symlink() or entry.name.endswith((".dist-info", ".egg-info")) or entry.name.startswith("."):
            continue
        if entry.name.startswith("@"):
            yield from _packages(entry)
        else:
            yield entry


def _listed(package: Path) -> list[Path]:
    return list(_walk(package)) if package.is_dir() else [package] if _wanted(package) else []


def _walk(folder: Path, without: frozenset[str] = frozenset()) -> Iterator[Path]:
    """The files worth having below a folder; no link is followed."""
    for base, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if not _SKIPPED.fullmatch(name) and name not in without)
        for name in sorted(names):
            path = Path(base) / name
            if _wanted(path) and not path.is_symlink() and path.stat().st_size <= MAX_FILE_BYTES:
                yield path


def _wanted(path: Path | PurePosixPath) -> bool:
    minified = ".min." in path.name or path.name.endswith(".map")
    return is_known(path) and language_of(path) not in _NO_CODE and not is_secret(path) and not minified


def _read(paths: Iterable[Path]) -> Texts:
    for path in paths:
        try:
            text = _text(path.read_bytes())
        except OSError:
            continue
        if text is not None:
            yield str(path), text


def _text(content: bytes) -> str | None:
    """A file's text with line feeds as line ends; None if it is no text, or has lines that nobody wrote."""
    try:
        text = content.decode("utf-8-sig").replace("\r\n", "\n").replace("\r", "\n")
    except UnicodeDecodeError:
        return None
    return None if "\0" in text or max(map(len, text.split("\n"))) > MAX_LINE else text


def _archive(path: Path) -> Texts:
    try:
        for name, content in _zip(path) if path.suffix in (".zip", ".whl") else _tar(path):
            text = _text(content)
            if text is not None:
                yield f"{path}!{name}", text
    except (tarfile.TarError, zipfile.BadZipFile, OSError, EOFError) as error:
        raise UsageError(f"{path} cannot be read: {error}", "Is it a whole archive?") from error


def _zip(path: Path) -> Iterator[tuple[str, bytes]]:
    with zipfile.ZipFile(path) as archive:
        for member in archive.infolist():
            if not member.is_dir() and member.file_size <= MAX_FILE_BYTES and _member_wanted(member.filename):
                yield member.filename, archive.read(member)


def _tar(path: Path) -> Iterator[tuple[str, bytes]]:
    with tarfile.open(path) as archive:
        for member in archive:
            if member.isfile() and member.size <= MAX_FILE_BYTES and _member_wanted(member.name):
                opened = archive.extractfile(member)
                if opened is not None:
                    yield member.name, opened.read()


def _member_wanted(name: str) -> bool:
    """Whether a member is wanted. "." and ".." name no folder, and nothing is ever written to where they lead."""
    path = PurePosixPath(name)
    return _wanted(path) and not any(_SKIPPED.fullmatch(part) for part in path.parts[:-1] if part not in (".", ".."))
