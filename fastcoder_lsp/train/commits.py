"""The changes of a repository's commits, file by file, as training on next edits reads them.

Today's rules hold for every version of a file: its name and place, its size, its lines that look like secrets. Git
reads the objects through an empty clone of our own (`workspace/git`), so it sees no configuration, hook, attribute or
remote of the repository. Only that clone is written, and deleted.
"""

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory

from fastcoder_lsp.config import resolve
from fastcoder_lsp.errors import NetworkError, UsageError
from fastcoder_lsp.train.texts import is_code
from fastcoder_lsp.workspace import git
from fastcoder_lsp.workspace.folders import Folder, read_settings_file
from fastcoder_lsp.workspace.ignore import git_folders
from fastcoder_lsp.workspace.languages import language_of
from fastcoder_lsp.workspace.regular import read_real
from fastcoder_lsp.workspace.rules import ReadingRules
from fastcoder_lsp.workspace.secret_lines import secret_lines, without_lines

MOST_FILES = 20
"""Files of a commit that is read; one that changes more moves or reformats code."""
MOST_FILE_BYTES = 200_000
MOST_BYTES = 200_000_000
"""Of all versions together; older commits are left out."""
_LISTED = 100
"""Commits that are read together."""
_SMALL_FILE = 16_000_000
_LINKS = 5
"""Names that `HEAD` may lead through, as in git."""
_HEX = frozenset("0123456789abcdef")


@dataclass(frozen=True, slots=True)
class FileChange:
    r"""A file before and after a commit, with `\n` line ends and without lines that look like secrets."""

    commit: str
    path: str
    language: str
    old: str
    new: str


@dataclass(frozen=True, slots=True)
class CommitHistory:
    """Changes of commits, oldest first, up to `commit`; `fingerprint` is a hash of them all."""

    commit: str
    changes: tuple[FileChange, ...]
    fingerprint: str


def read_history(repository: Path, commit: str | None, most: int) -> CommitHistory:
    """The changes, readable today, of the newest `most` commits of a work tree; merges don't count.

    `commit`: the id of the newest one; None: `HEAD`.

    Raises:
        UsageError: the folder is no work tree of git, or git cannot read its history.
    """
    folders = git_folders(repository)
    if folders is None:
        raise UsageError(f"{repository} is not the top folder of a git repository", "Name it with --repo.")
    shared = folders[1].resolve()
    newest = commit or _newest(*folders)
    shallow = [line for line in _lines_of(shared / "shallow") if _is_id(line)]
    with TemporaryDirectory(prefix="fastcoder-history-") as place:
        clone = Path(place) / "clone.git"
        try:
            git.borrow(shared / "objects", shallow, clone, sha256=len(newest) == 64)
            found = list(_changes(repository, clone, git.commits(clone, newest, most)))
        except NetworkError as error:
            raise UsageError(
                f"git cannot read the history of {repository}: {error}", "Check it with `git fsck`."
            ) from error
    found.reverse()
    digest = hashlib.sha256()
    for change in found:
        for part in (change.commit, change.path, change.old, change.new):
            digest.update(hashlib.sha256(part.encode(errors="replace")).digest())
    return CommitHistory(newest, tuple(found), digest.hexdigest())


def _changes(repository: Path, clone: Path, commits: Sequence[str]) -> Iterator[FileChange]:
    from_file, _ = read_settings_file(Folder(repository.as_uri(), repository))
    settings, _ = resolve([from_file] if from_file else [])
    rules, room = ReadingRules([repository], settings), MOST_BYTES
    allowed: dict[str, bool] = {}

    def may_read(path: str) -> bool:
        if path not in allowed:
            inside, language = PurePosixPath(path), language_of(PurePosixPath(path))
            plain = path.isprintable() and not inside.is_absolute() and ".." not in inside.parts
            allowed[path] = plain and is_code(inside) and rules.may_send(repository / path, language) is None
        return allowed[path]

    for start in range(0, len(commits), _LISTED):
        for commit, files in git.modified(clone, commits[start : start + _LISTED]):
            chosen = [one for one in files if may_read(one.path)] if len(files) <= MOST_FILES else []
            wanted = [identity for one in chosen for identity in (one.old, one.new)]
            size = git.sizes(clone, wanted) if wanted else {}
            small = {identity for identity in wanted if 0 <= size.get(identity, -1) <= MOST_FILE_BYTES}
            chosen = [one for one in chosen if small.issuperset(one[1:])]
            room -= sum(size[identity] for one in chosen for identity in one[1:])
            if room < 0:
                return
            texts = git.contents(clone, [identity for one in chosen for identity in one[1:]])
            for one in chosen:
                language = language_of(PurePosixPath(one.path))
                sides = [_text(next(texts), rules) for _ in range(2)]
                old, new = _cleaned(sides, language)
                if old and new and old != new:
                    yield FileChange(commit, one.path, language, old, new)


def _text(content: bytes, rules: ReadingRules) -> str:
    r"""A file's text with `\n` line ends; empty if the rules leave it out."""
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError:
        return ""
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    longest = max(map(len, text.split("\n")))
    return "" if "\0" in text or rules.size_reason(len(content), longest) is not None else text


def _cleaned(sides: Sequence[str], language: str) -> list[str]:
    """Both sides without the lines that look like secrets on either."""
    hidden = frozenset[str]().union(*(secret_lines(text, language) for text in sides))
    return [without_lines(text, hidden) for text in sides]


def _newest(own: Path, shared: Path) -> str:
    """The commit that `HEAD` names, by the files of git's folders; UsageError if none, or only git can read it."""
    packed = {name: one for one, _, name in (line.partition(" ") for line in _lines_of(shared / "packed-refs"))}
    name = "HEAD"
    for _ in range(_LINKS):
        said = next((line for folder in (own, shared) for line in _lines_of(folder / name)[:1]), packed.get(name, ""))
        if _is_id(said):
            return said
        name = said.removeprefix("ref: ").strip()
        if not name.startswith("refs/heads/") or ".." in name:
            break
    raise UsageError(
        f"cannot tell the newest commit of {shared}", "Name it with --commit: `git rev-parse HEAD` prints its id."
    )


def _lines_of(path: Path) -> list[str]:
    try:
        return read_real(path.resolve(), _SMALL_FILE).decode("utf-8", "replace").splitlines()
    except (OSError, ValueError, RuntimeError):
        return []


def _is_id(text: str) -> bool:
    return len(text) in (40, 64) and _HEX.issuperset(text)
