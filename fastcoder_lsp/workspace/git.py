"""Fetches repositories that an administrator has named with git, so that nothing in them can make git run a command.

Owns git's command lines and environment. A clone is bare: nothing is checked out, and no attribute, filter or hook of
the repository takes effect. Git reads no configuration but ours, and may not use protocols that run commands, or prompt
a user. Submodules are not followed.
"""

import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path

from fastcoder_lsp.errors import NetworkError, ResourceError, UsageError

SCHEMES = ("https://", "ssh://", "file://")
_FETCH_S = 1800
_READ_S = 600
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
_LISTED_BYTES = 128_000_000
"""Longest list of a commit's files, over a million of them; a small repository can list any number."""
_TOGETHER = 100
"""Objects that are read in one batch."""


def check_url(url: str) -> None:
    """Check that git may use an address.

    Raises:
        UsageError: with this address git would run a command, take an option, or fetch unencrypted.
    """
    if not url.startswith(SCHEMES) or any(letter.isspace() or not letter.isprintable() for letter in url):
        raise UsageError(f"{url!r} is not the address of a repository", f"It must begin with {' or '.join(SCHEMES)}.")
    if url.partition("://")[2].startswith("-"):
        raise UsageError(f"{url!r} names no host", "Write a host name after ://, or for file:// a path.")


def fetch(url: str, branch: str, clone: Path) -> str:
    """Create or update a bare clone; returns the commit of its branch.

    Raises:
        UsageError: see `check_url`.
        NetworkError: git cannot fetch it; with git's message.
    """
    check_url(url)
    if not (clone / "HEAD").exists():
        _run(["init", "--quiet", "--bare", str(clone)], None, _READ_S)
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
    return _run(["rev-parse", "--verify", "--quiet", "refs/team^{commit}"], clone, _READ_S).decode().strip()


def files(clone: Path, commit: str) -> Iterator[tuple[str, str, int]]:
    """Path, object and size of each regular file of a commit; links and submodules are skipped.

    Raises:
        NetworkError: the clone is damaged, or has too many files.
    """
    words = ["ls-tree", "-r", "-z", "--long", "--full-tree", commit]
    quiet = subprocess.DEVNULL
    with subprocess.Popen(
        _command(words, clone), stdin=quiet, stdout=subprocess.PIPE, stderr=quiet, env=environment(), cwd="/"
    ) as listing:
        assert listing.stdout is not None
        listed = listing.stdout.read(_LISTED_BYTES + 1)
        if len(listed) > _LISTED_BYTES:
            listing.kill()
            raise NetworkError(f"the list of its files is longer than {_LISTED_BYTES} bytes")
    if listing.returncode:
        raise NetworkError(f"{clone} is damaged", "Delete it. The server then clones it again.")
    for entry in listed.split(b"\0"):
        about, _, path = entry.partition(b"\t")
        parts = about.split()
        if len(parts) == 4 and parts[0] in (b"100644", b"100755") and 0 < len(path) < _LONGEST_PATH:
            yield path.decode("utf-8", "replace"), parts[2].decode(), int(parts[3])


def contents(clone: Path, objects: Sequence[str]) -> Iterator[bytes]:
    """The contents of objects, in their order.

    Raises:
        NetworkError: the clone is damaged.
    """
    for start in range(0, len(objects), _TOGETHER):
        some = objects[start : start + _TOGETHER]
        told = _run(["cat-file", "--batch"], clone, _READ_S, "".join(f"{one}\n" for one in some).encode())
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


def _run(words: Sequence[str], clone: Path | None, most_s: float, told: bytes = b"") -> bytes:
    try:
        done = subprocess.run(
            _command(words, clone),
            input=told,
            capture_output=True,
            check=False,
            timeout=most_s,
            env=environment(),
            cwd="/",
        )
    except FileNotFoundError:
        raise ResourceError("repositories need git, which is not installed", "Install git.") from None
    except subprocess.TimeoutExpired:
        raise NetworkError(f"git {words[0]} took longer than {most_s:.0f} s") from None
    if done.returncode:
        said = done.stderr.decode("utf-8", "replace").strip().splitlines()
        raise NetworkError(f"git {words[0]} failed: {said[-1] if said else done.returncode}")
    return done.stdout


def _command(words: Sequence[str], clone: Path | None) -> list[str]:
    where = [] if clone is None else [f"--git-dir={clone}"]
    return ["git", *where, *(word for option in _OPTIONS for word in ("-c", option)), *words]
