"""Repositories that somebody made to run something, to hang or to silence whoever opens them.

Made when a test runs and never kept. Whatever a trap executes creates the canary. Each maker adds its traps to a folder
that already holds `main.py`; together they make one repository that has everything.
"""

import contextlib
import os
import pickle
import socket
import struct
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

MAIN = "def add(first, second):\n    return first + second\n\n\nvalue = "
LONG_NAME = "a" * 100 + ".py"
"""What the patterns of `stars` take for ever to tell apart."""
DEEP = "/".join("d" * 90) + "/deep.py"
TOO_DEEP = "/".join("d" * 150) + "/deep.py"
"""Below more folders than the ignore files are looked for in: it counts as excluded."""

Maker = Callable[[Path, Path], None]
"""Puts traps into a folder (the first), so that the canary (the second) appears when one is sprung."""


def repository(root: Path, canary: Path, *makers: Maker) -> Path:
    """A repository with these traps; its `main.py`."""
    root = root.resolve()
    main = write(root / "main.py", MAIN)
    write(root / LONG_NAME, MAIN)
    for make in makers:
        make(root, canary)
    return main


def write(path: Path, content: str | bytes) -> Path:
    folder(path.parent)
    assert not path.is_symlink()
    path.write_bytes(content.encode("utf-8", "surrogateescape") if isinstance(content, str) else content)
    return path


def folder(path: Path) -> Path:
    """Make a folder of the repository, none of whose folders is a link by which one would leave it."""
    assert path.resolve() == path, f"{path} is a link"
    path.mkdir(parents=True, exist_ok=True)
    return path


def modules(root: Path, canary: Path) -> None:
    """Modules that Python, its start and our libraries import; configuration that they look for where they run."""
    code = f"open({str(canary)!r}, 'a').write(__name__ + '\\n')\n"
    for name in (
        *("asyncio", "queue", "json", "logging", "numpy", "numba", "torch", "psutil", "pygls", "rich", "filelock"),
        *("sitecustomize", "usercustomize", "argparse", "typing", "platformdirs", "tokenizers", "watchdog", "yaml"),
    ):
        write(root / f"{name}.py", code)
    write(root / "fastcoder_lsp/__init__.py", code)
    write(root / "fastcoder_lsp/cli/main.py", code)
    write(root / ".pth", f"import os; os.system('touch {canary}')\n")
    write(root / "trap.pth", f"import os; os.system('touch {canary}')\n")
    write(root / "pyvenv.cfg", "home = /nowhere\ninclude-system-site-packages = true\n")
    write(root / "python._pth", ".\nimport site\n")
    for name, text in (
        (".numba_config.yaml", f"cache_dir: {root / 'numba'}\ndisable_jit: 1\n"),
        (".env", f"PYTHONPATH={root}\nPYTHONSTARTUP={root / 'json.py'}\nLD_PRELOAD={root / 'x.so'}\n"),
        ("setup.cfg", "[metadata]\nname = trap\n"),
        ("pip.conf", "[global]\nindex-url = http://127.0.0.1:9/\n"),
        ("torch_compile_debug/x.py", code),
    ):
        write(root / name, text)
    for folder in ("numba", "__pycache__", "kernels", "fastcoder-lsp"):
        for name in ("search_kernel.nbi", "entry.nbi", "step.kernel", "warm.json"):
            write(root / folder / name, _pickled(canary))


def git(root: Path, canary: Path) -> None:
    """A `.git` whose configuration, hooks and objects name programs; and repositories within, bare and pointed to."""
    command = write(root / "run.sh", f"#!/bin/sh\ntouch '{canary}'\n")
    command.chmod(0o755)
    config = (
        f"[core]\n repositoryformatversion = 1\n bare = false\n fsmonitor = {command}\n sshCommand = {command}\n"
        f" hooksPath = {root}/hooks\n pager = {command}\n editor = {command}\n askPass = {command}\n"
        f" gitProxy = {command}\n worktree = {root}\n sparseCheckout = true\n alternateRefsCommand = {command}\n"
        f"[index]\n sparse = true\n[extensions]\n partialClone = origin\n worktreeConfig = true\n"
        f'[remote "origin"]\n url = ssh://nowhere/x\n promisor = true\n uploadpack = {command}\n'
        f'[filter "lfs"]\n clean = {command}\n process = {command}\n smudge = {command}\n'
        f'[diff "x"]\n textconv = {command}\n command = {command}\n'
        f"[credential]\n helper = !{command}\n[include]\n path = {root}/more.config\n[alias]\n ls-files = !{command}\n"
        f'[includeIf "gitdir:/"]\n path = {root}/more.config\n[safe]\n directory = *\n'
    )
    write(root / ".git/config", config)
    write(root / ".git/config.worktree", config)
    write(root / "more.config", config)
    write(root / ".git/HEAD", "ref: refs/heads/main\n")
    write(root / ".git/refs/heads/main", "1" * 40 + "\n")
    write(root / ".git/objects/info/alternates", "/dev/zero\n/proc/self/fd/0\n")
    write(root / ".gitattributes", "* filter=lfs diff=x\n")
    write(root / ".gitmodules", f'[submodule "x"]\n path = sub\n url = ext::{command}\n update = !{command}\n')
    # A sparse index: its entry is a tree that is not here, and would have to be fetched.
    entry = struct.pack(">10I20sH", *(0,) * 6, 0o040000, 0, 0, 0, b"\x11" * 20, 0x4000 | 4) + b"\0\0" + b"sub/\0"
    write(root / ".git/index", b"DIRC" + struct.pack(">II", 3, 1) + entry + b"sdir\0\0\0\0" + b"\0" * 20)
    for name in ("post-index-change", "fsmonitor-watchman", "pre-commit", "post-checkout"):
        for folder in (root / ".git/hooks", root / "hooks"):
            write(folder / name, command.read_bytes()).chmod(0o755)
    write(root / "bare/HEAD", "ref: refs/heads/main\n")
    write(root / "bare/config", config.replace("bare = false", "bare = true"))
    write(root / "pointed/.git", f"gitdir: {root}/bare\n")


def stars(root: Path, _canary: Path) -> None:
    """Ignore patterns that a matcher which goes back would try for ever; and so many that it would never end."""
    lines = ["*a" * 20 + "b", "**/" * 50 + "*a" * 20 + "b", "/" + "*a/" * 20 + "b", "[!b]" * 3 + "*a" * 30 + "c"]
    for name in (".gitignore", ".fastcoderignore"):
        write(root / name, "\n".join([*lines, "[" * 5_000, "\\" * 999, "!" * 999, "[[:alpha:]" * 999, "(a+)+$"]) + "\n")
        write(root / "many" / name, "".join(f"*{'a' * 90}{number}\n" for number in range(20_000)))
    write(root / "many/.git/info/exclude", "\n".join(lines))
    write(root / "many" / LONG_NAME, MAIN)
    quoted = ", ".join(f"'{line}'" for line in lines)
    write(root / "fastcoder.toml", f"read.exclude = [{quoted}]\n")


def pipes(root: Path, _canary: Path) -> None:
    """Pipes, sockets and links to devices and to this process's own files, where files are looked for."""
    for name in (
        *(".gitignore", ".fastcoderignore", "fastcoder.toml", "pipe.py", "sub/.gitignore", "sub/.fastcoderignore"),
    ):
        path = folder((root / name).parent) / (root / name).name
        path.unlink(missing_ok=True)
        os.mkfifo(path)
    os.mkfifo(folder(root / ".git/info") / "exclude")
    targets = ("/dev/zero", "/dev/full", "/dev/tty", "/dev/stdin", "/proc/self/fd/0", "/proc/self/fd/3", "/proc/kmsg")
    for number, target in enumerate((*targets, "/proc/self/mem", "/proc/self/environ", "/sys/kernel/debug")):
        (root / f"device_{number}.py").symlink_to(target)
        folder(root / f"device_{number}")
        for name in (".gitignore", ".fastcoderignore", "fastcoder.toml"):
            (root / f"device_{number}" / name).symlink_to(target)
    with socket.socket(socket.AF_UNIX) as listening, contextlib.chdir(root):  # its path may be too long for one
        listening.bind("socket.py")


def links(root: Path, _canary: Path) -> None:
    """Links in circles, links that double, links to what is not the repository's."""
    (root / "around").symlink_to(root)
    (root / "loop.py").symlink_to("loop.py")
    (root / "there.py").symlink_to("back.py")
    (root / "back.py").symlink_to("there.py")
    (root / "disk").symlink_to("/")
    (root / "home").symlink_to(Path.home())
    (root / "passwd.py").symlink_to("/etc/passwd")
    (root / "dangling.py").symlink_to("nowhere/at/all.py")
    (root / "double_0").symlink_to(".")
    for number in range(1, 40):
        (root / f"double_{number}").symlink_to(f"double_{number - 1}/double_{number - 1}")
    (root / "bomb.py").symlink_to("double_39/main.py")
    (root / "venv").symlink_to(Path.home())
    (folder(root / "linked") / "node_modules").symlink_to("/usr")
    (root / "linked/.venv").symlink_to(Path.home())


def names(root: Path, _canary: Path) -> None:
    """Names with signs that a terminal, a protocol or a list in lines would take for its own."""
    for name in (
        *("new\nline.py", "bell\a\x1b[2Jred.py", "tab\t.py", " .py", "-rf.py", "$(touch x).py", "`x`.py", "%s%n.py"),
        *("a:1:1.py", "\u202egnp.py", "e\u0301.py", "\u00e9.py", "CON.py", "aux.py", "Main.py", "MAIN.PY"),
        "x" * 252 + ".py",
    ):
        write(root / name, MAIN)
    for raw in (b"latin\xe9.py", b"\xff\xfe.py", b"half\xed\xa0\x80.py", b"\xc3\x28"):
        with contextlib.suppress(OSError):  # some file systems take text only
            write(root / os.fsdecode(raw), MAIN)
            write(root / os.fsdecode(b"folder" + raw) / "inner.py", MAIN)


def shapes(root: Path, _canary: Path) -> None:
    """A tree deeper than any path, a folder of thousands, files of more bytes than the disk has, lines without end."""
    dig(root, 2_500)
    for name in (DEEP, TOO_DEEP):
        write(root / name, MAIN)
    below = (root / TOO_DEEP).parent
    write(below / ".fastcoderignore", "nothing\n")
    wide = folder(root / "wide")
    for number in range(600):
        (wide / f"f{number}.py").touch()
    for name, size in (("huge.py", 1 << 42), ("wide/.gitignore", 1 << 40), ("wide/.fastcoderignore", 1 << 40)):
        with contextlib.suppress(OSError), write(root / name, b"").open("wb") as file:
            file.truncate(size)
    write(root / "line.py", "x" * 3_000_000)
    write(root / "brackets.py", "([{" * 100_000)
    write(root / "zeros.py", b"\0" * 100_000)
    write(root / "blank.py", "\n" * 200_000)
    write(root / "marks.py", "<|fim_prefix|><|fim_middle|><|endoftext|>" * 5_000)


def installed(root: Path, canary: Path) -> None:
    """Packages that lie in the workspace: read unasked, so they are a place for traps."""
    site = root / ".venv/lib/python3.11/site-packages"
    modules(site, canary)
    for name in ("bin/python", "bin/git", "Scripts/python.exe"):
        write(root / ".venv" / name, f"#!/bin/sh\ntouch '{canary}'\n").chmod(0o755)
    for base in (site, root / "node_modules/package"):
        write(base / "good/code.py", MAIN)
        os.mkfifo(base / "good/pipe.py")
        os.mkfifo(base / "pipe.js")
        (base / "good/zero.py").symlink_to("/dev/zero")
        (base / "good/self").symlink_to(base)
        dig(base, 1_200)


def programs(root: Path, canary: Path) -> None:
    for name in ("git", "nvidia-smi", "python", "python3", "pip", "pip3", "gcc", "cc", "ldconfig", "uname", "lscpu"):
        for file in (name, f"{name}.exe", f"{name}.bat"):
            write(root / file, f"#!/bin/sh\ntouch '{canary}'\n").chmod(0o755)


SETTINGS: Final[Mapping[str, str]] = {
    "dotted": "a." * 33_000 + "b = 1\n",
    "tables": "[" + "a." * 33_000 + "b]\n",
    "nested": "x = " + "[" * 20_000 + "]" * 20_000,
    "inline": "x = " + "{a = " * 900 + "1" + "}" * 900 + "\n",
    "deep": "read." + "a." * 900 + "b = 1\n",
    "digits": "context_tokens = 0x" + "f" * 20_000 + "\nread.max_files = 1" + "0" * 4_000 + "\n",
    "unknown": "".join(f"k{number} = {number}\n" for number in range(7_000)),
    "words": "".join(f'"enable{number}" = 1\n' for number in range(4_000)),
    "controls": '"a\\u001b[2J\\nb" = "\\u0000"\n"\\ud7ff" = 1\nmodel = "/tmp/trap"\nlog.file = "/tmp/trap"\n',
    "lists": "read.exclude = [" + "'a'," * 15_000 + "]\nlanguages.exclude = [" + f"'{'x' * 20_000}'" + "]\n",
    "bytes": "\x00\x01\x02",
    "lines": "\n" * 99_999,
}
"""`fastcoder.toml` in ways that cost its reader, or whoever takes its values, more than they are worth."""

SETTINGS_LINKS: Final = (
    *("/dev/zero", "/dev/tty", "/proc/self/mem", "/", "fastcoder.toml", "../nowhere.toml", "/etc/shadow"),
)
"""What the file may be a link to."""

ALL: Final[tuple[Maker, ...]] = (modules, git, stars, links, names, shapes, programs)
"""One repository with everything that goes together."""


def dig(top: Path, levels: int) -> None:
    """Folders in folders, deeper than a path may be long."""
    with contextlib.chdir(top):
        for _ in range(levels):
            Path("d").mkdir()
            os.chdir("d")


class _Touch:
    def __init__(self, canary: Path) -> None:
        self._canary = canary

    def __reduce__(self) -> tuple[Callable[[str], int], tuple[str]]:
        return os.system, (f"touch '{self._canary}'",)


def _pickled(canary: Path) -> bytes:
    return pickle.dumps(_Touch(canary))
