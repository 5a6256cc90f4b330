"""Decides which files may be read, for completions, repository context and the datastore.

A file whose name suggests secrets is never opened, shown to a model or indexed. Nothing outside the workspace's folders
is ever read. Open documents are the editor's own text and follow the fewer rules of `may_complete`.
"""

import re
import stat
from collections.abc import Iterator, Sequence
from enum import Enum
from fnmatch import translate
from pathlib import Path, PurePath
from typing import Final

from fastcoder_lsp.config import Settings
from fastcoder_lsp.config.resolve import shown
from fastcoder_lsp.core.controls import counted
from fastcoder_lsp.workspace.ignore import IgnoreFiles
from fastcoder_lsp.workspace.languages import language_of
from fastcoder_lsp.workspace.paths import as_on_disk, openable
from fastcoder_lsp.workspace.regular import NotRegularError, read_regular, walk_folders

_TOOL_FOLDERS: Final = frozenset(
    (
        *(".git", ".hg", ".svn", ".jj", ".bzr", "node_modules", "bower_components", "site-packages", "__pycache__"),
        *(".venv", "venv", ".tox", ".nox", ".eggs", ".mypy_cache", ".pytest_cache", ".ruff_cache", ".hypothesis"),
        *(".idea", ".gradle", ".terraform", ".direnv"),
    )
)
_BINARY_PROBE: Final = 8192


class ExclusionReason(Enum):
    """Why a file is not read, for the user."""

    OUTSIDE = "outside the workspace's folders"
    NOT_A_FILE = "no regular file"
    UNREADABLE = "cannot be read"
    TOOL_FOLDER = "in a folder of a tool or of installed packages"
    SECRET = "may hold secrets, by its name or language"  # noqa: S105 - words, no password
    IGNORED = "ignored by git (.gitignore, an exclude file), .fastcoderignore or the setting read.exclude"
    EXCLUDED = "matches a pattern in .fastcoderignore or in the setting read.exclude"
    UNREAD_RULES = (
        "in a folder whose ignore file is over a limit (250,000 bytes, 65,536 characters of patterns) or unreadable"
    )
    LANGUAGE = "in a language that the settings leave out"
    TOO_LARGE = "larger than the setting read.max_file_bytes"
    LONG_LINES = "has a line longer than the setting read.max_line_length"
    BINARY = "not text"


class ReadingRules:
    """The rules for some workspace folders (absolute) under one set of settings.

    Symlinks in the folders are resolved; `read.exclude` is relative to each. `cut`: the folders with more files than
    `read.max_files`, known when `files` has ended.
    """

    def __init__(self, roots: Sequence[Path], settings: Settings) -> None:
        self.cut: set[Path] = set()
        self._settings = settings
        self._roots = tuple(dict.fromkeys(map(resolved, roots)))
        self._ignore_files: dict[Path, IgnoreFiles] = {}  # made on demand: there may be hundreds of roots

    def may_read(self, path: Path) -> ExclusionReason | None:
        """Why the file at `path` must not be read, or None, by names and sizes only."""
        return self._place_reason(path) or self._file_reason(resolved(path))

    def read_text(self, path: Path) -> str | ExclusionReason:
        """The file's text with its own line ends, or why it is not read."""
        reason = self.may_read(path)
        if reason is not None:
            return reason
        real = resolved(path)
        root = self._root_of(real)
        if root is None:  # a link has replaced it meanwhile
            return ExclusionReason.OUTSIDE
        try:
            content = read_regular(real, self._settings.read_max_file_bytes + 1, inside=root)
        except NotRegularError:
            return ExclusionReason.NOT_A_FILE
        except OSError:
            return ExclusionReason.UNREADABLE
        if b"\0" in content[:_BINARY_PROBE]:
            return ExclusionReason.BINARY
        try:
            text = content.decode("utf-8-sig")
        except UnicodeDecodeError:
            return ExclusionReason.BINARY
        return self.size_reason(len(content), max(map(len, text.replace("\r", "\n").split("\n")))) or text

    def size_reason(self, size: int, longest_line: int) -> ExclusionReason | None:
        """Why a text of this size must not be used, open documents included."""
        if size > self._settings.read_max_file_bytes:
            return ExclusionReason.TOO_LARGE
        return ExclusionReason.LONG_LINES if longest_line > self._settings.read_max_line_length else None

    def may_complete(self, path: Path | None, language: str) -> ExclusionReason | None:
        """Why an open document gets no suggestions, or None, by its names; `path` is None if it is untitled."""
        if is_secret_language(language):
            return ExclusionReason.SECRET
        include, exclude = self._settings.languages_include, self._settings.languages_exclude
        if language in exclude or (include and language not in include):
            return ExclusionReason.LANGUAGE
        if path is None:
            return None
        real = resolved(path)
        root = self._root_of(real)
        if is_secret(real, below=root) or is_secret(path, below=root):
            return ExclusionReason.SECRET
        if root is None or not self._ignored(root, real, path, own_only=True):
            return None
        unread = self._ignore(root).unread(real, own_only=True)
        return ExclusionReason.UNREAD_RULES if unread else ExclusionReason.EXCLUDED

    def may_send(self, path: Path | None, language: str) -> ExclusionReason | None:
        """Why an open document must not leave the machine, or None, by its names; `path` is None if it is untitled.

        A file that may not be read may not be sent, even if it may be completed.
        """
        reason = self.may_complete(path, language)
        return reason if reason is not None or path is None else self._place_reason(path)

    def files(self) -> Iterator[Path]:
        """Every file that may be read, without links, by root, upper folders first; at most `read.max_files` each."""
        for root in self._roots:
            for before, path in enumerate(self._listed(root)):
                if before == self._settings.read_max_files:
                    self.cut.add(root)
                    break
                yield path

    def left_out(self) -> str:
        """A sentence about the files that `files` left out; empty if it listed all."""
        if not self.cut:
            return ""
        read = counted(self._settings.read_max_files, "file")
        where = ", ".join(shown(str(root)) for root in sorted(self.cut))
        return f"fastcoder reads only the first {read} of {where}. To read more, raise `read.max_files`."

    def _listed(self, root: Path) -> Iterator[Path]:
        """The allowed files below `root`; a verdict on a path holds for its folder, for no link lies on the way."""
        ignore = self._ignore(root)
        entered = walk_folders(
            root, lambda path: path.name not in _TOOL_FOLDERS and not ignore.ignores(path, is_folder=True)
        )
        for folder, names in entered:
            within = self._root_of(folder)
            parts = folder.relative_to(within).parts if within is not None else ()
            if within is None or not _TOOL_FOLDERS.isdisjoint(parts) or any(map(is_secret_folder, parts)):
                continue
            ignored = self._ignore(within).names_ignored(folder)
            for name in names:
                path = folder / name
                if not is_secret_name(name) and not ignored(name) and self._file_reason(path) is None:
                    yield path

    def _place_reason(self, path: Path) -> ExclusionReason | None:
        """Why `path` must not be read, by its names alone."""
        real = resolved(path)
        root = self._root_of(real)
        if root is None:
            return ExclusionReason.OUTSIDE
        if is_secret(real, below=root) or is_secret(path, below=root):
            return ExclusionReason.SECRET
        if not _TOOL_FOLDERS.isdisjoint(real.relative_to(root).parts[:-1]):
            return ExclusionReason.TOOL_FOLDER
        if not self._ignored(root, real, path):
            return None
        return ExclusionReason.UNREAD_RULES if self._ignore(root).unread(real) else ExclusionReason.IGNORED

    def _root_of(self, real: Path) -> Path | None:
        holding = [root for root in self._roots if real.is_relative_to(root)]
        return max(holding, key=lambda root: len(root.parts), default=None)

    def _ignored(self, root: Path, real: Path, path: Path, *, own_only: bool = False) -> bool:
        if self._ignore(root).ignores(real, is_folder=False, own_only=own_only):
            return True
        named = resolved(path.parent) / path.name
        by_name = None if named == real else self._root_of(named)
        return by_name is not None and self._ignore(by_name).ignores(named, is_folder=False, own_only=own_only)

    def _ignore(self, root: Path) -> IgnoreFiles:
        if root not in self._ignore_files:
            self._ignore_files[root] = IgnoreFiles(root, self._settings.read_exclude)
        return self._ignore_files[root]

    def _file_reason(self, real: Path) -> ExclusionReason | None:
        include, exclude = self._settings.languages_include, self._settings.languages_exclude
        if include or exclude:
            language = language_of(real)
            if language in exclude or (include and language not in include):
                return ExclusionReason.LANGUAGE
        try:
            status = openable(real).lstat()
        except (OSError, ValueError):
            return ExclusionReason.UNREADABLE
        if not stat.S_ISREG(status.st_mode):
            return ExclusionReason.NOT_A_FILE
        return ExclusionReason.TOO_LARGE if status.st_size > self._settings.read_max_file_bytes else None


def reading_settings(settings: Settings) -> tuple[object, ...]:
    """The settings that decide what is read: where they are equal, the same files are read."""
    return (
        settings.languages_include,
        settings.languages_exclude,
        settings.read_max_file_bytes,
        settings.read_max_line_length,
        settings.read_max_files,
        settings.read_exclude,
    )


def resolved(path: Path) -> Path:
    """`path` with all symlinks followed as far as it exists, in the disk's spelling; a loop of links stays."""
    try:
        real = path.resolve()
    except (OSError, RuntimeError, ValueError):
        return path.absolute()
    return as_on_disk(real)


_NAMES: Final = (
    # environment and tool settings with passwords
    *(".env*", "*.env", ".netrc", "_netrc", ".npmrc", ".yarnrc*", ".pypirc", ".pgpass", ".my.cnf", ".mylogin.cnf"),
    *(".git-credentials", ".htpasswd", ".htaccess", ".dockercfg", ".dockerconfigjson", ".s3cfg", ".boto", ".authinfo*"),
    *(".vault-token", ".vault_pass*", ".pip.conf", "pip.conf", ".rhosts", ".esmtprc", ".msmtprc", "kubeconfig*"),
    # keys, certificates, key stores
    *("id_rsa*", "id_dsa*", "id_ecdsa*", "id_ed25519*", "*.pem", "*.key", "*.ppk", "*.p12", "*.pfx", "*.p8", "*.jks"),
    *("*.keystore", "*.truststore", "*.bks", "*.kdb", "*.kdbx", "*.crt", "*.cer", "*.cert", "*.der", "*.csr", "*.p7b"),
    *("*.p7c", "*.asc", "*.gpg", "*.pgp", "*.ovpn", "*.age", "*.jwk", "*.jwks", "wallet.dat", "authorized_keys*"),
    # credentials of clouds and services
    *("credentials", "credential", "client_secret*.json", "client-secret*.json", "*service-account*.json"),
    *("*service_account*.json", "*serviceaccount*.json", "*-credentials.json", "*_credentials.json"),
    *("google-services.json", "application_default_credentials.json", "*.tfvars", "*.tfvars.json", "*.tfstate"),
    *("*.tfstate.*", "*.publishsettings"),
    *("token", "tokens", "*.token", "*.tokens", "*.secret", "*.secrets", "*.credentials", "*.password", "*.passwd"),
    *("passwd", "shadow", "master.key", "hosts.yml.secret"),
)
_NAME: Final = re.compile("|".join(map(translate, _NAMES)))
"""One pattern for all: scanning a large repository tests every file."""
_DATA_STEMS: Final = frozenset(
    ("credential", "credentials", "secret", "secrets", "token", "tokens", "password", "passwords", "apikeys")
)
_DATA_SUFFIXES: Final = frozenset(
    (
        *(".json", ".jsonc", ".yaml", ".yml", ".toml", ".ini", ".cfg", ".conf", ".config", ".xml", ".txt", ".csv"),
        *(".properties", ".plist", ".db", ".sqlite", ".enc", ".bak"),
    )
)
_FOLDERS: Final = frozenset(
    (
        *(".ssh", ".gnupg", ".aws", ".azure", ".kube", ".docker", ".gcloud"),
        *(".password-store", ".vault", ".chef", ".secrets"),
    )
)
_LANGUAGES: Final = frozenset(("dotenv", "env", "netrc", "pem"))


def is_secret(path: PurePath, below: PurePath | None = None) -> bool:
    """Whether a file at `path` counts as secret, by its own name and those of its folders `below` a root."""
    inside = path.relative_to(below) if below is not None and path.is_relative_to(below) else path
    return is_secret_name(path.name) or any(map(is_secret_folder, inside.parts[:-1]))


def is_secret_name(name: str) -> bool:
    """Whether a file of this name counts as secret in any folder."""
    name = name.lower()
    if _NAME.match(name):
        return True
    stem, dot, _ = name.partition(".")
    return bool(dot) and stem in _DATA_STEMS and PurePath(name).suffix in _DATA_SUFFIXES


def is_secret_folder(name: str) -> bool:
    """Whether everything in a folder of this name, at any depth, counts as secret."""
    return name.lower() in _FOLDERS


def is_secret_language(language: str) -> bool:
    """Whether the editor's language id, of an untitled document for example, marks secrets."""
    return language.lower() in _LANGUAGES
