"""Repositories that a team follows: fetched as they are, and nothing in them runs or leads elsewhere."""

import errno
import os
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from fastcoder_lsp.config import Settings
from fastcoder_lsp.errors import NetworkError, UsageError
from fastcoder_lsp.team.calls import Tenant
from fastcoder_lsp.team.configuration import RepositoryConfig, parse_config
from fastcoder_lsp.team.repositories import Repositories, inside, laid_out
from fastcoder_lsp.workspace import git
from tests.team.toy_team import ToyTeam


def run(folder: Path, *words: str, told: bytes = b"") -> str:
    """git, as the author of a repository uses it."""
    named = [f"GIT_{who}_{what}=x@y.example" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")]
    env = {**os.environ, "GIT_CONFIG_GLOBAL": "/dev/null", **dict(pair.split("=") for pair in named)}
    done = subprocess.run(["git", *words], cwd=folder, input=told, capture_output=True, check=True, env=env)
    return done.stdout.decode().strip()


@pytest.fixture
def origin(tmp_path: Path) -> Path:
    folder = tmp_path / "origin"
    folder.mkdir()
    run(folder, "init", "--quiet", "--initial-branch=main")
    return commit(folder, {"src/total.py": "def total(items):\n    return sum(items)\n"})


def commit(folder: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")
    run(folder, "add", "--all")
    run(folder, "commit", "--quiet", "--message=x")
    return folder


def named(origin: Path, branch: str = "main") -> RepositoryConfig:
    return RepositoryConfig("core", f"file://{origin}", branch)


def test_it_is_fetched_laid_out_and_followed(origin: Path, tmp_path: Path) -> None:
    first = laid_out(named(origin), tmp_path / "cache")
    assert (first / "src" / "total.py").read_text(encoding="utf-8").startswith("def total")
    assert laid_out(named(origin, "HEAD"), tmp_path / "cache") == first
    commit(origin, {"new.py": "x = 1\n"})
    second = laid_out(named(origin), tmp_path / "cache")
    assert (second / "new.py").exists()
    assert first.exists()
    commit(origin, {"newer.py": "x = 1\n"})
    laid_out(named(origin), tmp_path / "cache")
    assert not first.exists()


def test_a_tree_that_does_not_fit_on_the_disk(origin: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    commit(origin, {"another.py": "x = 1\n"})
    write, wrong = Path.write_bytes, errno.ENOSPC

    def refusing(path: Path, data: bytes) -> int:
        if path.name == "total.py":
            raise OSError(wrong, os.strerror(wrong), str(path))
        return write(path, data)

    monkeypatch.setattr(Path, "write_bytes", refusing)
    with pytest.raises(OSError, match="total"):
        laid_out(named(origin), tmp_path / "cache")
    assert list((tmp_path / "cache" / "core").iterdir()) == []
    wrong = errno.ENAMETOOLONG
    tree = laid_out(named(origin), tmp_path / "cache")
    assert [path.name for path in tree.rglob("*.py")] == ["another.py"]


def test_trees_that_grow_without_end_are_refused(origin: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(git, "_READ_BYTES", 1_000_000)
    good = laid_out(named(origin), tmp_path / "cache")
    blob = run(origin, "hash-object", "-w", "--stdin", told=b"x = 1\n")
    tree = run(origin, "mktree", told="".join(f"100644 blob {blob}\t{name}.py\n" for name in range(10)).encode())
    for _ in range(8):
        tree = run(origin, "mktree", told="".join(f"040000 tree {tree}\t{name}\n" for name in range(10)).encode())
    run(origin, "update-ref", "refs/heads/many", run(origin, "commit-tree", tree, "-m", "x"))
    with pytest.raises(NetworkError, match="longer than"):
        laid_out(named(origin, "many"), tmp_path / "cache")
    assert (good / "src" / "total.py").exists()
    assert laid_out(named(origin), tmp_path / "cache") == good


def test_nothing_of_it_runs_or_leads_elsewhere(origin: Path, tmp_path: Path) -> None:
    ran = tmp_path / "ran"
    for hook in ("post-checkout", "reference-transaction", "post-merge"):
        path = origin / ".git" / "hooks" / hook
        path.write_text(f"#!/bin/sh\ntouch {ran}\n", encoding="utf-8")
        path.chmod(0o755)
    commit(
        origin,
        {".gitattributes": "* filter=bad diff=bad\n", ".gitmodules": '[submodule "m"]\n\tpath=m\n\turl=ext::x\n'},
    )
    (origin / "link").symlink_to("/etc/passwd")
    (origin / "binary").write_bytes(b"\0\1\2")
    commit(origin, {})
    blob = run(origin, "hash-object", "-w", "--stdin", told=b"bad = 1\n")
    inner = run(origin, "mktree", told=f"100644 blob {blob}\tbad.py\n".encode())
    outer = run(origin, "mktree", "--missing", told=f"040000 tree {inner}\tsub:x\n100644 blob {blob}\tok.py\n".encode())
    made = run(origin, "commit-tree", outer, "-m", "x")
    run(origin, "update-ref", "refs/heads/odd", made)
    before = ran.exists()
    tree = laid_out(named(origin), tmp_path / "cache")
    assert not (tree / "link").exists()
    assert not (tree / "binary").exists()
    assert (tree / "src" / "total.py").exists()
    odd = laid_out(named(origin, "odd"), tmp_path / "odd")
    assert [path.name for path in odd.rglob("*")] == ["ok.py"]
    assert ran.exists() == before


@pytest.mark.parametrize(
    "path", ["", "/etc/x", "../x", "a/../../x", ".git/config", "a/.GIT/hooks/x", "a\\..\\x", "C:x", "a\nb", "."]
)
def test_names_that_lead_elsewhere_are_passed_over(path: str) -> None:
    assert inside(Path("/cache/core"), path) is None


@pytest.mark.parametrize(
    "url",
    [
        "ext::sh -c touch% /tmp/x",
        "--upload-pack=touch /tmp/x",
        "ssh://-oProxyCommand=touch/x",
        "http://example.org/x",
        "git://example.org/x",
        "/srv/x",
        "https://example.org/x y",
        "https://example.org/x\n--upload-pack=y",
    ],
)
def test_addresses_that_run_commands_are_refused(url: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError):
        git.fetch(url, "HEAD", tmp_path / "x.git")
    with pytest.raises(UsageError):
        parse_config(f"[[repositories]]\nname = 'x'\nurl = '''{url}'''", tmp_path)


def test_a_user_s_configuration_is_not_obeyed(origin: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home, ran = tmp_path / "home", tmp_path / "ran"
    home.mkdir()
    (home / ".gitconfig").write_text(f'[core]\n\tfsmonitor = "touch {ran}"\n[url "ext::x"]\n\tinsteadOf = file://\n')
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("GIT_CONFIG_COUNT", "1")
    monkeypatch.setenv("GIT_CONFIG_KEY_0", "url.ext::x.insteadOf")
    monkeypatch.setenv("GIT_CONFIG_VALUE_0", "file://")
    assert laid_out(named(origin), tmp_path / "cache").exists()
    assert not ran.exists()


def test_what_cannot_be_fetched_is_said_and_tried_again(origin: Path, tmp_path: Path) -> None:
    with pytest.raises(NetworkError, match="fetch failed"):
        git.fetch(f"file://{tmp_path}/absent", "HEAD", tmp_path / "x.git")
    wanted = named(tmp_path / "later")
    followed = Repositories((wanted,), tmp_path / "cache", Settings())
    followed.look(1.0, lambda: 1.0)
    assert not followed.folders(("core",))
    origin.rename(tmp_path / "later")
    followed.look(2.0, lambda: 2.0)
    assert not followed.folders(("core",)), "it is not due"
    followed.look(1.0 + wanted.every_s, lambda: 2.0)
    assert [tree.parent.name for tree in followed.folders(("core", "other"))] == ["core"]


def test_a_repository_drafts_for_its_readers_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked, team = list[tuple[str, ...]](), ToyTeam()

    def given(names: tuple[str, ...]) -> dict[Path, Settings]:
        asked.append(names)
        return {tmp_path: replace(Settings(), index_enabled=True)}

    try:
        tenants = team.replicas[0]._tenants
        monkeypatch.setattr(tenants, "_folders", given)
        tenants._pool_of(Tenant("ada", "work", ("core",)))
        tenants._pool_of(Tenant("eve", "work"))
        assert asked == [("core",)]
        folders = {tenant.key: dict(found) for tenant, (_, found) in tenants._of.items()}
        assert list(folders["ada"]) == [tmp_path]
        assert not folders["eve"]
    finally:
        team.close()
