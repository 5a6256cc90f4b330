"""Training texts from folders, archives, corpora of this project, the standard library, and commits.

A folder is read by the server's rules (ignored files, secrets, limits); an archive's members are read in memory, never
unpacked. Equal texts count once. Commits give changes, file by file, for next edits: today's rules hold for every
version of a file. Git reads the objects through an empty clone of our own (`workspace/git`), so it sees no
configuration, hook, attribute or remote of the repository. Only that clone is written, and deleted.
"""

import hashlib
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePath, PurePosixPath
from tempfile import TemporaryDirectory

from fastcoder_lsp.config import Settings, resolve
from fastcoder_lsp.errors import NetworkError, UsageError
from fastcoder_lsp.index.corpus import Corpora, is_name
from fastcoder_lsp.tokenizer import Tokenizer
from fastcoder_lsp.workspace import git
from fastcoder_lsp.workspace.corpus_files import standard_library, texts_of
from fastcoder_lsp.workspace.ignore import git_folders
from fastcoder_lsp.workspace.languages import is_known, language_of
from fastcoder_lsp.workspace.regular import read_real
from fastcoder_lsp.workspace.rules import ReadingRules
from fastcoder_lsp.workspace.secret_lines import judge
from fastcoder_lsp.workspace.settings_files import layers_of_files

STANDARD_LIBRARY = "stdlib"
CORPUS_PREFIX = "corpus:"
SHORTEST = 200  # fewest characters of a file: a shorter one is too little to predict several tokens
_NO_CODE = frozenset(("plaintext", "json", "jsonc", "diff", "xml"))
_SOURCES = "Name folders, archives, code files, corpus:NAME (see: fastcoder-lsp corpus list), or stdlib."


@dataclass(frozen=True, slots=True)
class Texts:
    """Texts with their `sources` as the user named them; `fingerprint` is a hash of all texts in order."""

    sources: tuple[str, ...]
    texts: tuple[str, ...]
    fingerprint: str


def read_texts(sources: Sequence[str], tokenizer: Tokenizer, cache: Path) -> Texts:
    """The texts of all sources, in an order that depends only on their contents and names.

    A source is a folder, a code file, an archive (.zip, .whl, .tar and compressed), `corpus:NAME` in the folder
    `cache`, or `stdlib`. Raises UsageError if one does not exist, or none contains code.
    """
    settings, _ = resolve([])
    found: dict[bytes, str] = {}
    for source in sources:
        for text in _read(source, settings, tokenizer, cache):
            if len(text) >= SHORTEST:
                found.setdefault(hashlib.sha256(text.encode(errors="replace")).digest(), text)
    if not found:
        raise UsageError(f"no code to learn from in {', '.join(sources)}", _SOURCES)
    fingerprint = hashlib.sha256(b"".join(found)).hexdigest()
    return Texts(tuple(sources), tuple(found.values()), fingerprint)


def _read(source: str, settings: Settings, tokenizer: Tokenizer, cache: Path) -> Iterator[str]:
    path = Path(source).expanduser().absolute()
    if path.is_dir():
        yield from _folder(path, settings)
    elif path.exists():
        yield from (text for _, text in texts_of([path]))
    elif source == STANDARD_LIBRARY:
        yield from (text for _, text in standard_library())
    elif source.startswith(CORPUS_PREFIX) or is_name(source):
        yield from _corpus(source.removeprefix(CORPUS_PREFIX), tokenizer, cache)
    else:
        raise UsageError(f"{source}: no such file or folder", _SOURCES)


def is_code(path: PurePath) -> bool:
    """Whether a file's name says that it contains code."""
    return is_known(path) and language_of(path) not in _NO_CODE


def _folder(folder: Path, settings: Settings) -> Iterator[str]:
    rules = ReadingRules([folder], settings)
    for path in sorted(rules.files()):
        if is_code(path):
            text = rules.read_text(path)
            if isinstance(text, str):
                yield text.replace("\r\n", "\n").replace("\r", "\n")


def _corpus(name: str, tokenizer: Tokenizer, cache: Path) -> Iterator[str]:
    corpora = Corpora(cache)
    if not corpora.has(name, tokenizer.identity):
        raise UsageError(f"{name}: no such file or folder, and no corpus for this model's tokenizer", _SOURCES)
    store = corpora.open(name, tokenizer.identity)
    try:
        files = store.pin().files()
        for key in sorted(files):
            yield tokenizer.decode(files[key].tolist())
    finally:
        store.close()


MOST_FILES = 20  # files of a commit that is read; one that changes more moves or reformats code
MOST_FILE_BYTES = 200_000
MOST_BYTES = 200_000_000  # of all versions together; older commits are left out
MOST_S = 1800.0  # for a history; each of git's commands has a limit, too
_LISTED = 100  # commits that are read together
_SMALL_FILE = 16_000_000
_LINKS = 5  # names that `HEAD` may lead through, as in git
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

    `commit`: the id of the newest one; None: `HEAD`. Raises UsageError if it does not exist, or git cannot read the
    folder's history.
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
            if commit is not None and not git.has_commit(clone, commit):
                raise UsageError(
                    f"{repository} has no commit {commit}",
                    "Name one by its id with --commit: `git rev-parse NAME` prints it. Or leave --commit out, with "
                    "--restart if the run in --out began with another commit.",
                )
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
    settings, _ = resolve(layers_of_files(repository)[0])
    rules, room = ReadingRules([repository], settings), MOST_BYTES
    allowed: dict[str, bool] = {}
    until = time.monotonic() + MOST_S

    def may_read(path: str) -> bool:
        if path not in allowed:
            inside, language = PurePosixPath(path), language_of(PurePosixPath(path))
            plain = path.isprintable() and not inside.is_absolute() and ".." not in inside.parts
            allowed[path] = plain and is_code(inside) and rules.may_send(repository / path, language) is None
        return allowed[path]

    for start in range(0, len(commits), _LISTED):
        for commit, files in git.modified(clone, commits[start : start + _LISTED]):
            if time.monotonic() > until:
                raise NetworkError(f"it takes longer than {MOST_S / 60:.0f} minutes; name fewer commits with --commits")
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
    texts = [text.split("\n") for text in sides]
    judged = ((line, secret) for lines in texts for line, secret in zip(lines, judge(lines, language), strict=True))
    hidden = {line.strip() for line, secret in judged if secret}
    return ["\n".join(line for line in lines if line.strip() not in hidden) for lines in texts]


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
