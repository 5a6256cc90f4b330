"""Texts for corpora: folders, archives, the standard library, a workspace's installed dependencies.

Selects code of moderate size, without tests and secrets. Nothing is unpacked to the disk: an archive's members are read
in memory, with the same limits as files and one for the whole archive, because a few bytes can expand to many.
Dependencies are read unasked, so they are bounded, must be regular files, and links must not leave the workspace.
"""

import os
import re
import stat
import sysconfig
import tarfile
import zipfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from io import BufferedReader
from itertools import islice
from pathlib import Path, PurePosixPath
from typing import BinaryIO, Final

from fastcoder_lsp.core.archives import DAMAGED_ZIP
from fastcoder_lsp.errors import UsageError
from fastcoder_lsp.workspace.languages import is_known, language_of
from fastcoder_lsp.workspace.regular import NotRegularError, list_folder, open_real, read_real, walk
from fastcoder_lsp.workspace.rules import is_secret, resolved

MAX_FILE_BYTES = 1_000_000
MAX_LINE = 5_000
DEPENDENCY_BYTES = 40_000_000  # for all dependencies of a workspace together: some 10 M tokens
_NO_CODE = frozenset(("plaintext", "json", "jsonc", "markdown", "diff", "xml", "html", "latex", "restructuredtext"))
_SKIPPED = re.compile(r"(tests?|testing|idle_test|__pycache__|pydoc_data|\..*)")
_INSTALLED = frozenset(("site-packages", "dist-packages", "node_modules"))
_MAX_ENTRIES = 300_000  # entries of a workspace's installed packages that are listed to find out their sizes
_MAX_VERSIONS = 8  # Pythons of one virtual environment
Texts = Iterator[tuple[str, str]]  # key and text of each file


def texts_of(paths: Iterable[Path]) -> Texts:
    """The code in some folders, archives and files; raises UsageError if a path does not exist."""
    for path in paths:
        if path.is_dir():
            yield from _read(_walk(path))
        elif path.is_file() and path.name.endswith(ARCHIVES):
            yield from _archive(path)
        else:
            require_sources([path])
            yield from _read([path.resolve()])


def require_sources(paths: Iterable[Path]) -> None:
    """Raise UsageError unless each path is a folder, an archive or a file."""
    for path in paths:
        if not path.is_dir() and not path.is_file():
            what = "not a regular file" if path.exists() else "no such file or folder"
            raise UsageError(f"{path}: {what}", "Name folders, code files, .zip, .whl or .tar archives.")


def standard_library() -> Texts:
    """The code of the running Python's standard library, without tests and installed packages."""
    return _read(_walk(Path(sysconfig.get_path("stdlib")), _INSTALLED))


def dependencies(roots: Sequence[Path], cap: int = DEPENDENCY_BYTES) -> Texts:
    """The code installed in some workspace folders, smaller packages first, until `cap` bytes."""
    return smaller_first(
        (package for root in roots for folder in installed(root) for package in packages_in(folder)), cap
    )


def smaller_first(packages: Iterable[Path], cap: int, wanted: Callable[[Path], bool] = lambda _path: True) -> Texts:
    """The code in packages, of the files that are `wanted`; smaller packages first, until `cap` bytes."""
    entries_left = _MAX_ENTRIES
    sized: list[tuple[int, list[Path]]] = []
    for package in packages:
        if entries_left <= 0:
            break
        files = _code_files(package, entries_left)
        entries_left -= 1 + len(files)
        files = [path for path in files if wanted(path)]
        sized.append((sum(map(_size, files)), files))
    sized.sort()
    left = cap
    for size, files in sized:
        if size > left:
            return
        left -= size
        yield from _read(files)


def installed(root: Path) -> list[Path]:
    """The folders of a workspace folder that contain installed packages."""
    found = [root / "node_modules"]
    for environment in (root / ".venv", root / "venv"):
        places = (environment / "lib", environment / "lib64")
        listed = (place / name for place in places for name, is_folder in list_folder(place) if is_folder)
        pythons = (folder for folder in listed if folder.name.startswith("python"))
        found += [python / "site-packages" for python in islice(pythons, _MAX_VERSIONS)]
        found.append(environment / "Lib" / "site-packages")
    top = resolved(root)
    # A link could lead to another workspace's packages, or to a home folder.
    return [folder for folder in found if resolved(folder) == top / folder.relative_to(root) and _may_list(folder)]


def modified_ns(path: Path) -> int:
    """When a file or folder was changed; -1 if unknown."""
    try:
        return path.stat().st_mtime_ns
    except OSError:
        return -1


def _may_list(folder: Path) -> bool:
    return folder.is_dir() and not folder.is_symlink() and os.access(folder, os.R_OK | os.X_OK)


def packages_in(folder: Path, *, scoped: bool = False) -> Iterator[Path]:
    """Each package installed in a folder, of scopes (`@name`) too: a folder or a file."""
    for name, _ in list_folder(folder):
        entry = folder / name
        if name.endswith((".dist-info", ".egg-info")) or name.startswith("."):
            continue
        if name.startswith("@") and not scoped:
            yield from packages_in(entry, scoped=True)
        else:
            yield entry


def _code_files(package: Path, max_files: int) -> list[Path]:
    return list(islice(_walk(package), max_files)) if package.is_dir() else [package] if _is_code(package) else []


def _walk(folder: Path, without: frozenset[str] = frozenset()) -> Iterator[Path]:
    files = walk(folder, lambda path: not _SKIPPED.fullmatch(path.name) and path.name not in without)
    return (path for path in files if _is_code(path))


def _is_code(path: Path) -> bool:
    return _has_code_name(path) and 0 <= _size(path) <= MAX_FILE_BYTES


def _size(path: Path) -> int:
    """Bytes of a regular file; -1 for anything else."""
    try:
        status = path.lstat()
    except (OSError, ValueError):
        return -1
    return status.st_size if stat.S_ISREG(status.st_mode) else -1


def _has_code_name(path: Path | PurePosixPath) -> bool:
    minified = ".min." in path.name or path.name.endswith(".map")
    return is_known(path) and language_of(path) not in _NO_CODE and not is_secret(path) and not minified


def _read(paths: Iterable[Path]) -> Texts:
    for path in paths:
        try:
            text = _text(read_real(path, MAX_FILE_BYTES))
        except OSError:
            continue
        if text is not None:
            yield str(path), text


def _text(content: bytes) -> str | None:
    """A file's text with line feeds as line ends; None if it is not text, or has lines that nobody wrote by hand."""
    try:
        text = content.decode("utf-8-sig").replace("\r\n", "\n").replace("\r", "\n")
    except UnicodeDecodeError:
        return None
    return None if "\0" in text or max(map(len, text.split("\n"))) > MAX_LINE else text


def _archive(path: Path) -> Texts:
    for name, content in members(path, _is_code_member, MAX_FILE_BYTES):
        text = _text(content)
        if text is not None:
            yield f"{path}!{name}", text


def _is_code_member(name: str) -> bool:
    """Whether a member is code. "." and ".." are no folders; nothing is ever written to their targets."""
    path = PurePosixPath(name)
    folders = (part for part in path.parts[:-1] if part not in (".", ".."))
    return _has_code_name(path) and not any(map(_SKIPPED.fullmatch, folders))


ARCHIVES: Final = (".zip", ".whl", ".tar", ".tar.gz", ".tgz", ".tar.xz", ".tar.bz2")
MAX_BYTES: Final = 2_000_000_000  # of everything that an archive yields or unpacks
MAX_MEMBERS: Final = 500_000
_ZIPPED: Final = (".zip", ".whl")
NamePredicate = Callable[[str], bool]


class _TooMuchError(Exception):
    """The archive is larger than any user intends."""


def members(path: Path, wanted: NamePredicate, max_bytes: int) -> Iterator[tuple[str, bytes]]:
    """(name, content) of an archive's files that are `wanted` and small enough; UsageError if it is unusable."""
    try:
        with BufferedReader(open_real(path.resolve())) as file:
            unpack = _zip if path.suffix in _ZIPPED else _tar
            yield from unpack(file, wanted, max_bytes)
    except _TooMuchError as error:
        raise UsageError(
            f"{path} holds more than {MAX_BYTES // 10**9} GB or {MAX_MEMBERS:,} files",
            "Unpack it, and name a part of it.",
        ) from error
    except NotRegularError as error:
        raise UsageError(
            f"{path} is {error.strerror}", "Name folders, code files, .zip, .whl or .tar archives."
        ) from error
    except (tarfile.TarError, *DAMAGED_ZIP, OSError) as error:
        words = str(error) or type(error).__name__
        hint = "Use a complete archive without a password."
        raise UsageError(f"{path} cannot be read: {words}", hint) from error


def _zip(file: BinaryIO, wanted: NamePredicate, max_bytes: int) -> Iterator[tuple[str, bytes]]:
    taken = 0
    with zipfile.ZipFile(file) as archive:
        entries = archive.infolist()
        if len(entries) > MAX_MEMBERS:
            raise _TooMuchError
        for member in entries:
            if member.is_dir() or member.file_size > max_bytes or not wanted(member.filename):
                continue
            taken += member.file_size
            if taken > MAX_BYTES:
                raise _TooMuchError
            yield member.filename, archive.read(member)


def _tar(file: BinaryIO, wanted: NamePredicate, max_bytes: int) -> Iterator[tuple[str, bytes]]:
    with tarfile.open(fileobj=file) as archive:
        for number, member in enumerate(archive):
            # Skipped members are unpacked too.
            if number >= MAX_MEMBERS or member.offset_data + member.size > MAX_BYTES:
                raise _TooMuchError
            if member.isfile() and member.size <= max_bytes and wanted(member.name):
                opened = archive.extractfile(member)
                if opened is not None:
                    yield member.name, opened.read(max_bytes)
