"""What git does not track is not read, wherever git is told so; made by git itself where it can be."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from fastcoder_lsp.config import Settings
from fastcoder_lsp.workspace.ignore import repository_exclude, user_excludes
from fastcoder_lsp.workspace.rules import ExclusionReason, ReadingRules

needs_git = pytest.mark.skipif(shutil.which("git") is None, reason="needs git")


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "home"
    folder.mkdir()
    for name in ("HOME", "USERPROFILE"):
        monkeypatch.setenv(name, str(folder))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    return folder


def write(path: Path, text: str = "x = 1\n") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def git(folder: Path, *arguments: str) -> None:
    own = ("-c", "user.name=a", "-c", "user.email=a@b.c", "-c", "protocol.file.allow=always")
    subprocess.run(["git", *own, *arguments], cwd=folder, check=True, capture_output=True)


def repository(folder: Path) -> Path:
    write(folder / "a.py")
    git(folder, "init", "-q")
    git(folder, "add", ".")
    git(folder, "commit", "-qm", "first")
    return folder


def read(root: Path) -> set[str]:
    files = ReadingRules((root,), Settings()).files()
    return {path.relative_to(root).as_posix() for path in files if path.suffix == ".py"}


@needs_git
def test_a_linked_work_tree_heeds_its_repository(home: Path, tmp_path: Path) -> None:
    main = repository(tmp_path / "main")
    write(main / ".git/info/exclude", "notes.py\n")
    git(main, "worktree", "add", "-q", str(tmp_path / "linked"))
    write(tmp_path / "linked/notes.py")
    assert read(tmp_path / "linked") == {"a.py"}
    assert (
        ReadingRules((tmp_path / "linked",), Settings()).may_read(tmp_path / "linked/notes.py")
        is ExclusionReason.IGNORED
    )


@needs_git
def test_a_submodule_heeds_its_own(home: Path, tmp_path: Path) -> None:
    main = repository(tmp_path / "main")
    git(main, "submodule", "add", "-q", str(repository(tmp_path / "part")), "part")
    write(main / ".git/modules/part/info/exclude", "notes.py\n")
    write(main / "notes.py")
    write(main / "part/notes.py")
    assert read(main) == {"a.py", "notes.py", "part/a.py"}
    assert read(main / "part") == {"a.py"}


@pytest.mark.parametrize("folder", [".config", "elsewhere"])
def test_a_users_file_holds_anywhere(folder: str, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if folder != ".config":
        monkeypatch.setenv("XDG_CONFIG_HOME", str(home / folder))
    write(home / folder / "git/ignore", "scratch*.py\n")
    root = tmp_path / "root"
    for name in ("a.py", "scratch.py", "scratch_2.py", "below/scratch.py"):
        write(root / name)
    assert read(root) == {"a.py"}
    write(root / ".gitignore", "!scratch_2.py\n")
    assert read(root) == {"a.py", "scratch_2.py"}


@pytest.mark.parametrize(
    ("config", "named"),
    [
        ("[core]\n\texcludesFile = ~/mine\n", "mine"),
        ('[user]\nname = "excludesfile = no"\n[CORE] excludesfile="~/mine" # why\n', "mine"),
        ("[core]\nexcludesfile = ~/first\nexcludesfile = ~/mine ; last\n", "mine"),
        ('[core "other"]\nexcludesfile = ~/mine\n', ".config/git/ignore"),
        ("[other]\nexcludesfile = ~/mine\n", ".config/git/ignore"),
        ("[core]\nexcludesfile = ~/mine;why\n", "mine"),
        ('[core]\nexcludesfile = ~/"mi"ne#why\n', "mine"),
        ('[core]\nexcludesfile = "~/mine; yours" \n', "mine; yours"),
        ("[core]\nexcludesfile = ~/mi\\\nne\n", "mine"),
        ("\ufeff[core]\r\nexcludesfile = ~/mine\r\n", "mine"),
        ("[core]\nexcludesfile = ~/first\n[include]\npath = ~/more\n", "mine"),
        ("[include]\npath = ~/itself\n[core]\nexcludesfile = ~/mine\n", "mine"),
        ("[core]\nexcludesfile = relative\n", None),
        ("[core]\nexcludesfile = ~somebody/mine\n", None),
        ("[core]\nexcludesfile =\n", None),
        ("", ".config/git/ignore"),
    ],
)
@pytest.mark.parametrize("file", [".gitconfig", ".config/git/config"])
def test_the_users_configuration_names_it(config: str, named: str | None, file: str, home: Path) -> None:
    write(home / "more", "[core]\nexcludesfile = ~/mine\n")
    write(home / "itself", "[include]\npath = itself\n")
    write(home / file, config)
    assert user_excludes(home).files == (() if named is None else (home / named,))


@needs_git
@pytest.mark.parametrize(
    ("condition", "holds"),
    [
        ("gitdir:~/work/", True),
        ("gitdir:~/work", False),
        ("gitdir:work/", True),
        ("gitdir:wor/", False),
        ("gitdir:./work/**", True),
        ("gitdir:~/w[ao]rk/*/.git", True),
        ("gitdir:~/WORK/", False),
        ("gitdir/i:~/WORK/", True),
        ("gitdir:{home}/linked/", False),
        ("onbranch:topic/", True),
        ("onbranch:topic/?", True),
        ("onbranch:top*", False),
    ],
)
def test_an_include_holds_where_git_says_so(condition: str, holds: bool, home: Path) -> None:
    """For a repository at ~/work/here, on the branch topic/x."""
    root = repository(home / "work/here")
    git(root, "checkout", "-qb", "topic/x")
    (home / "linked").symlink_to(home / "work", target_is_directory=True)
    write(home / "more", "[core]\nexcludesfile = ~/mine\n")
    condition = condition.format(home=home)
    write(home / ".gitconfig", f'[core]\nexcludesfile = ~/other\n[includeIf "{condition}"]\npath = more\n')
    command = ["git", "config", "--type=path", "core.excludesfile"]
    told = subprocess.run(command, cwd=root, check=True, capture_output=True, text=True).stdout.strip()
    assert user_excludes(root).files == (Path(told),) == (home / ("mine" if holds else "other"),)


def test_an_include_with_an_unknown_condition_hides_more(home: Path, tmp_path: Path) -> None:
    write(home / "more", "[core]\nexcludesfile = ~/mine\n")
    write(home / ".gitconfig", '[core]\nexcludesfile = ~/other\n[includeIf "hasconfig:x"]\npath = more\n')
    write(home / "mine", "b.py\n")
    write(home / "other", "c.py\n")
    for name in ("a.py", "b.py", "c.py"):
        write(tmp_path / "root" / name)
    assert read(tmp_path / "root") == {"a.py"}


@pytest.mark.skipif(sys.platform == "win32", reason="users have names in /etc/passwd")
def test_a_path_in_a_users_home(home: Path) -> None:
    import pwd

    user = pwd.getpwuid(os.getuid())
    write(home / ".gitconfig", f"[core]\nexcludesfile = ~{user.pw_name}/mine\n")
    assert user_excludes(home).files == (Path(user.pw_dir) / "mine",)


@needs_git
def test_another_branch_takes_effect_at_once(home: Path) -> None:
    root = repository(home / "work")
    write(home / "more", f"[core]\nexcludesfile = {write(home / 'mine', 'b.py')}\n")
    write(home / ".gitconfig", '[includeIf "onbranch:topic"]\npath = more\n')
    rules = ReadingRules((root,), Settings())
    assert rules.may_read(write(root / "b.py")) is None
    git(root, "checkout", "-qb", "topic")
    assert rules.may_read(root / "b.py") is ExclusionReason.IGNORED


def test_the_repositorys_configuration_names_nothing(home: Path, tmp_path: Path) -> None:
    write(tmp_path / "root/.git/config", f"[core]\nexcludesfile = {write(tmp_path / 'all', '*')}\n")
    write(tmp_path / "root/a.py")
    assert read(tmp_path / "root") == {"a.py"}


@pytest.mark.parametrize(
    "named", ["//server/share/x", "\\\\server\\share\\x", "/\0", "", "/dev/zero", "/proc/self/fd", "."]
)
def test_a_place_that_is_none(named: str, home: Path, tmp_path: Path) -> None:
    write(tmp_path / "root/.git", f"gitdir: {named}\n")
    write(tmp_path / "root/a.py")
    assert read(tmp_path / "root") == {"a.py"}
    if "server" in named:
        assert repository_exclude(tmp_path / "root") is None


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs pipes")
def test_pipes_are_not_waited_for(home: Path, tmp_path: Path) -> None:
    root, own = tmp_path / "root", tmp_path / "own"
    write(root / "a.py")
    (home / ".config/git").mkdir(parents=True)
    for path in (home / ".gitconfig", home / ".config/git/config", home / ".config/git/ignore"):
        os.mkfifo(path)
    write(root / ".git", f"gitdir: {own}\n")
    (own / "info").mkdir(parents=True)
    os.mkfifo(own / "commondir")
    os.mkfifo(own / "info/exclude")
    assert read(root) == {"a.py"}


@pytest.mark.skipif(os.name == "nt", reason="needs a system's limit on paths")
def test_a_path_that_leaves_no_room_for_git(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root, length = tmp_path / "root", os.pathconf("/", "PC_PATH_MAX") - 3
    write(root / "a.py")
    monkeypatch.chdir(root)
    left = length - len(os.fsencode(root))
    while left:
        name = "d" * min(199 if left - 200 != 1 else 198, left - 1)
        Path(name).mkdir()
        monkeypatch.chdir(name)
        left -= len(name) + 1
    assert read(root) == {"a.py"}
    # Names below which nothing can be asked for are too long for whoever tidies up, too.
    monkeypatch.chdir(root)
    shutil.rmtree("d" * 199)
    (root / "locked").mkdir(mode=0)
    assert read(root) == {"a.py"}
    assert ReadingRules((root,), Settings()).may_read(root / "locked/b.py") is ExclusionReason.UNREADABLE
