"""Fetches and reads repositories with git, so that nothing in them can make git run a command.

Only repositories that an administrator or a user's command names are read. A clone is bare, so no attribute, filter or
hook of the repository takes effect. Git reads no configuration but ours, uses no protocol that runs commands, and
prompts nobody. Submodules are not followed.

A repository can hold a pipe where an object should be, an object that unpacks to any size, or a list without an end.
So reading has limits of time, memory and output.
"""

import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryFile
from typing import Final, NamedTuple

from fastcoder_lsp.config.environment import find_program
from fastcoder_lsp.errors import NetworkError, ResourceError, UsageError

SCHEMES = ("https://", "ssh://", "file://")
_FETCH_S = 1800
READ_S: Final = 60.0  # of one command
_READ_KB: Final = 2_000_000  # memory of one command: the commits of the longest histories take a quarter of it
_LIMITED: Final = 'ulimit -d "$1"; ulimit -f "$2"; shift 2; exec "$@"'
_OPTIONS = (
    "core.hooksPath=/dev/null",
    "core.fsmonitor=false",
    "core.sshCommand=ssh -oBatchMode=yes -oStrictHostKeyChecking=yes",
    "credential.helper=",
    "fetch.fsckObjects=true",
    "transfer.bundleURI=false",
    "fetch.recurseSubmodules=false",
    "protocol.allow=never",
    "protocol.https.allow=always",
    "protocol.ssh.allow=always",
    "protocol.file.allow=always",
    "gc.auto=0",
    "http.followRedirects=false",
)
_LONGEST_PATH = 4096
_REGULAR = frozenset(("100644", "100755"))
_READ_BYTES: Final = 512_000_000  # output of one command: the longest list of files, or a batch of their contents
_SAID_BYTES: Final = 100_000  # of git's complaints
_TOGETHER = 100  # objects that are read in one batch


def check_url(url: str) -> None:
    """Raise UsageError if git would run a command, take an option or fetch unencrypted with this address."""
    if not url.startswith(SCHEMES) or any(letter.isspace() or not letter.isprintable() for letter in url):
        raise UsageError(f"{url!r} is not the address of a repository", f"It must begin with {' or '.join(SCHEMES)}.")
    if url.partition("://")[2].startswith("-"):
        raise UsageError(f"{url!r} names no host", "Write a host name after ://, or for file:// a path.")


def fetch(url: str, branch: str, clone: Path) -> str:
    """Create or update a bare clone; returns its branch's commit. Raises UsageError as `check_url`, NetworkError."""
    check_url(url)
    if not (clone / "HEAD").exists():
        _read(["init", "--quiet", "--bare", str(clone)], None)
    wanted = branch if branch == "HEAD" else f"refs/heads/{branch}"
    _run(
        [
            "fetch",
            "--quiet",
            "--depth=1",
            "--no-tags",
            "--no-write-fetch-head",
            "--force",
            "--",
            url,
            f"{wanted}:refs/team",
        ],
        clone,
        _FETCH_S,
    )
    return _read(["rev-parse", "--verify", "--quiet", "refs/team^{commit}"], clone).decode().strip()


def files(clone: Path, commit: str) -> Iterator[tuple[str, str, int]]:
    """Path, object and size of each regular file of a commit; NetworkError if the clone is damaged or too large."""
    for entry in _listed(["ls-tree", "-r", "-z", "--long", "--full-tree", commit], clone):
        about, _, path = entry.partition(b"\t")
        parts = about.split()
        if len(parts) == 4 and parts[0] in (b"100644", b"100755") and 0 < len(path) < _LONGEST_PATH:
            yield path.decode("utf-8", "replace"), parts[2].decode(), int(parts[3])


class Modified(NamedTuple):
    """A regular file that a commit changed, and its contents before and after, as objects."""

    path: str
    old: str
    new: str


def borrow(objects: Path, shallow: Sequence[str], clone: Path, *, sha256: bool = False) -> None:
    """Create a bare clone that reads the objects of another repository where they are, and nothing else of it.

    Its configuration is not read, so none of its objects is fetched from elsewhere.

    Args:
        objects: the repository's folder of objects.
        shallow: the commits whose parents it lacks.
        clone: where to create it.
        sha256: whether its objects are named by SHA-256.

    Raises:
        UsageError: git cannot be told of a folder with such a name.
        NetworkError: git fails.
    """
    if "\n" in str(objects) or str(objects).startswith(("#", '"')):
        raise UsageError(f"git cannot use the folder {str(objects)!r}", "Rename it, or move the repository.")
    kind = ["--object-format=sha256"] if sha256 else []
    _read(["init", "--quiet", "--bare", "--template=", *kind, str(clone)], None)
    (clone / "objects" / "info").mkdir(exist_ok=True)
    (clone / "objects" / "info" / "alternates").write_bytes(os.fsencode(objects) + b"\n")
    if shallow:
        (clone / "shallow").write_text("".join(f"{one}\n" for one in shallow), encoding="ascii")


def has_commit(clone: Path, commit: str) -> bool:
    """Whether the clone has this commit; no other object counts."""
    try:
        _read(["rev-list", "--no-walk", "--end-of-options", f"{commit}^{{commit}}"], clone)
    except NetworkError:
        return False
    return True


def commits(clone: Path, commit: str, most: int) -> list[str]:
    """The newest commits behind `commit`, newest first, without merges; NetworkError if it is missing or damaged."""
    words = ["rev-list", "--no-merges", "--date-order", f"--max-count={most}", "--end-of-options", commit]
    return _read(words, clone).decode().split()


def modified(clone: Path, some: Sequence[str]) -> Iterator[tuple[str, list[Modified]]]:
    """Commits with the regular files that each changed, by names alone; NetworkError for a damaged or huge clone."""
    words = ["diff-tree", "--stdin", "-r", "-z", "--raw", "--no-renames", "--no-ext-diff", "--no-textconv"]
    for start in range(0, len(some), _TOGETHER):
        part = some[start : start + _TOGETHER]
        told = "".join(f"{one}\n" for one in part).encode()
        found: dict[str, list[Modified]] = {one: [] for one in part}
        of, entries = "", iter(_listed([*words, "--diff-filter=M"], clone, told))
        for entry in entries:
            if not entry.startswith(b":"):
                of = entry.decode("ascii", "replace")
                continue
            about, path = entry[1:].decode("ascii", "replace").split(), next(entries, b"")
            if of in found and len(about) == 5 and {about[0], about[1]} <= _REGULAR and len(path) < _LONGEST_PATH:
                found[of].append(Modified(path.decode("utf-8", "replace"), about[2], about[3]))
        yield from found.items()


def sizes(clone: Path, objects: Sequence[str]) -> dict[str, int]:
    """The bytes of each object that is there."""
    told = "".join(f"{one}\n" for one in objects).encode()
    lines = (line.split() for line in _read(["cat-file", "--batch-check"], clone, told).decode().splitlines())
    return {parts[0]: int(parts[2]) for parts in lines if len(parts) == 3}


def contents(clone: Path, objects: Sequence[str]) -> Iterator[bytes]:
    """The contents of objects, in their order; raises NetworkError if the clone is damaged."""
    for start in range(0, len(objects), _TOGETHER):
        some = objects[start : start + _TOGETHER]
        told = _read(["cat-file", "--batch"], clone, "".join(f"{one}\n" for one in some).encode())
        at = 0
        for one in some:
            end = told.index(b"\n", at)
            head = told[at:end].split()
            if len(head) != 3 or head[0].decode() != one:
                raise NetworkError(f"{clone} is damaged", "Delete it. The server then clones it again.")
            size = int(head[2])
            yield told[end + 1 : end + 1 + size]
            at = end + 2 + size


def environment() -> dict[str, str]:
    """Git's whole environment: no user's or system's configuration, no prompts, no automatic fetches."""
    return {
        "PATH": "/usr/local/bin:/usr/bin:/bin",
        "LC_ALL": "C",
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CONFIG_GLOBAL": "/dev/null",
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_ASKPASS": "/bin/false",
        "SSH_ASKPASS": "/bin/false",
        "GIT_NO_LAZY_FETCH": "1",
        "GIT_NO_REPLACE_OBJECTS": "1",
        "GIT_OPTIONAL_LOCKS": "0",
        "GIT_ATTR_NOSYSTEM": "1",
    }


def _listed(words: Sequence[str], clone: Path, told: bytes = b"") -> list[bytes]:
    """The NUL-separated output of git for the input `told`; NetworkError if it fails."""
    return _read(words, clone, told).split(b"\0")


def _run(words: Sequence[str], clone: Path | None, most_s: float) -> bytes:
    return _done(_command(words, clone), words[0], most_s)


def _read(words: Sequence[str], clone: Path | None, told: bytes = b"") -> bytes:
    """The output of a command that reads a repository, within the limits."""
    command = _command(words, clone)
    if sys.platform != "win32":  # which has no such limits: there the time alone is limited
        limits = [str(_READ_KB), str(_READ_BYTES // 512)]
        command = ["/bin/sh", "-c", _LIMITED, "sh", *limits, *command]
    return _done(command, words[0], READ_S, told)


def _done(command: Sequence[str], name: str, most_s: float, told: bytes = b"") -> bytes:
    # Files, not pipes: the limit of a file's size is also that of the output.
    with TemporaryFile() as out, TemporaryFile() as errors:
        try:
            code = subprocess.run(
                command, input=told, stdout=out, stderr=errors, check=False, timeout=most_s, env=environment(), cwd="/"
            ).returncode
        except subprocess.TimeoutExpired:
            raise NetworkError(f"git {name} took longer than {most_s:.0f} s") from None
        if out.seek(0, os.SEEK_END) >= _READ_BYTES // 512 * 512:
            raise NetworkError(f"the output of git {name} is longer than {_READ_BYTES // 10**6} MB")
        if code:
            errors.seek(0)
            said = errors.read(_SAID_BYTES).decode("utf-8", "replace").strip().splitlines()
            raise NetworkError(f"git {name} failed: {said[-1] if said else code}")
        out.seek(0)
        return out.read(_READ_BYTES)


def _command(words: Sequence[str], clone: Path | None) -> list[str]:
    where = [] if clone is None else [f"--git-dir={clone}"]
    program = find_program("git")
    if program is None:
        raise ResourceError("repositories need git, which is not installed", "Install git.")
    return [program, *where, *(word for option in _OPTIONS for word in ("-c", option)), *words]
