"""What may be read, in real folders with real links."""

import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from fastcoder_lsp.config import Settings
from fastcoder_lsp.workspace.ignore import IgnoreFiles
from fastcoder_lsp.workspace.regular import read_regular
from fastcoder_lsp.workspace.rules import ExclusionReason, ReadingRules


def write(root: Path, name: str, text: str | bytes = "x = 1\n") -> Path:
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "work"
    folder.mkdir()
    return folder


def rules(*roots: Path, **settings: object) -> ReadingRules:
    return ReadingRules(roots, Settings(**settings))  # type: ignore[arg-type]


def given(of: ReadingRules, root: Path) -> set[str]:
    return {path.relative_to(root.resolve()).as_posix() for path in of.files()}


def test_git_ignore_files_hold_on_every_level(root: Path) -> None:
    write(root, ".gitignore", "*.log\nbuild/\n/top.py\n\\#odd.py\n[z-a]\n")
    write(root, "sub/.gitignore", "!keep.log\nlocal.py\n")
    write(root, ".git/info/exclude", "excluded.py\n")
    for name in ("a.py", "a.log", "build/b.py", "top.py", "sub/top.py", "sub/keep.log", "sub/other.log", "#odd.py"):
        write(root, name)
    for name in ("sub/local.py", "local.py", "excluded.py", "sub/deep/keep.log", "build/keep.log"):
        write(root, name)
    found = given(rules(root), root) - {".gitignore", "sub/.gitignore"}
    assert found == {"a.py", "sub/top.py", "sub/keep.log", "local.py", "sub/deep/keep.log"}
    assert rules(root).may_read(root / "build" / "b.py") is ExclusionReason.IGNORED


def test_ignore_files_above_the_workspace_hold_in_a_repository(root: Path) -> None:
    write(root, ".git/HEAD", "ref: refs/heads/main\n")
    write(root, ".gitignore", "generated.py\n")
    part = root / "part"
    write(part, "generated.py")
    write(part, "own.py")
    assert given(rules(part), part) == {"own.py"}


def test_ignore_files_are_read_again_when_they_change(root: Path) -> None:
    path = write(root, "a.py")
    of = rules(root)
    assert of.may_read(path) is None
    ignore = write(root, ".gitignore", "a.py\n")
    assert of.may_read(path) is ExclusionReason.IGNORED
    ignore.unlink()
    assert of.may_read(path) is None


@pytest.mark.parametrize(
    "ending",
    [
        pytest.param("\n" * 250_000, id="too long"),
        pytest.param("#" * 250_000, id="too long by a comment"),
        pytest.param("a" * 70_000, id="a pattern too long"),
        pytest.param("".join(f"name-{number}\n" for number in range(8_000)), id="too many patterns"),
        pytest.param("[ab]\n" * 600, id="too many sets"),
    ],
)
@pytest.mark.parametrize("name", [".gitignore", "sub/.gitignore", "sub/.fastcoderignore", ".git/info/exclude"])
def test_an_ignore_file_that_is_too_long_ignores_its_folder(root: Path, name: str, ending: str) -> None:
    hidden, near, far = (write(root, one) for one in ("sub/hidden.py", "sub/near.py", "other.py"))
    of, ignore = rules(root), write(root, name, f"*.log\n{ending}\nhidden.py\n")
    assert of.may_read(hidden) is of.may_read(near) is ExclusionReason.UNREAD_RULES
    is_above = not name.startswith("sub/")
    assert of.may_read(far) is (ExclusionReason.UNREAD_RULES if is_above else None)
    assert {path.name for path in of.files()} & {"hidden.py", "near.py", "other.py"} == (
        set() if is_above else {"other.py"}
    )
    by_us = ExclusionReason.UNREAD_RULES if name.endswith(".fastcoderignore") else None
    assert of.may_complete(near, "python") is by_us
    ignore.write_text("*.log\nhidden.py\n")
    assert (of.may_read(hidden), of.may_read(near)) == (ExclusionReason.IGNORED, None)


def test_a_setting_with_too_many_patterns_ignores_all(root: Path) -> None:
    path = write(root, "a.py")
    assert rules(root, read_exclude=(*("a" * 60_000, "b" * 60_000),)).may_read(path) is ExclusionReason.IGNORED


def test_ignore_files_over_their_limit_ignore_the_folder(root: Path) -> None:
    inner = root
    for number in range(8):
        write(inner, ".gitignore", f"{'x' * 60_000}\n{'hidden.py' if number == 7 else ''}\n")
        write(inner, "near.py")
        inner /= "d"
    hidden = write(inner, "hidden.py")
    of = rules(root)
    assert of.may_read(root / "near.py") is None
    assert of.may_read(hidden) is of.may_read(hidden.parent.parent / "near.py") is ExclusionReason.UNREAD_RULES


def test_an_ignore_file_below_too_many_folders_ignores_them(root: Path) -> None:
    deep = root / "/".join(["d"] * 120)
    hidden = write(deep, "hidden.py")
    write(deep, ".gitignore", "hidden.py\n")
    assert rules(root).may_read(hidden) is ExclusionReason.IGNORED


def test_an_ignore_file_that_cannot_be_read_ignores_its_folder(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, ignore = write(root, "sub/a.py"), write(root, "sub/.gitignore", "b.py\n")

    def refuse(file: Path, limit: int, *, inside: Path) -> bytes:
        if file == ignore:
            raise PermissionError
        return read_regular(file, limit, inside=inside)

    monkeypatch.setattr("fastcoder_lsp.workspace.ignore.read_regular", refuse)
    of = rules(root)
    assert of.may_read(path) is ExclusionReason.UNREAD_RULES
    assert of.may_complete(path, "python") is None
    assert of.may_read(write(root, "c.py")) is None


def test_an_ignore_file_in_another_encoding_names_bytes(root: Path) -> None:
    path = Path(os.fsdecode(os.fsencode(root) + b"/\xe9.py"))
    path.write_text("x = 1\n")
    write(root, ".gitignore", b"\xe9.py\n")
    assert rules(root).may_read(path) is ExclusionReason.IGNORED


def test_our_ignore_file_and_setting_hold_for_open_documents(root: Path) -> None:
    """`.fastcoderignore` and `read.exclude` stop suggestions; what only git ignores may be edited with them."""
    write(root, ".gitignore", "scratch.py\n")
    write(root, ".fastcoderignore", "private/\n")
    of = rules(root, read_exclude=("*.gen.py",))
    for name, on_disk, opened in (
        ("scratch.py", ExclusionReason.IGNORED, None),
        ("private/a.py", ExclusionReason.IGNORED, ExclusionReason.EXCLUDED),
        ("b.gen.py", ExclusionReason.IGNORED, ExclusionReason.EXCLUDED),
        ("c.py", None, None),
    ):
        path = write(root, name)
        assert of.may_read(path) is on_disk
        assert of.may_complete(path, "python") is opened


@pytest.mark.parametrize(
    "name",
    [
        *(".env", ".env.local", ".ENV.production", ".envrc", "prod.env", "server.key", "cert.pem", "store.p12"),
        "a.crt",
        *("id_rsa", "id_ed25519.bak", ".npmrc", ".netrc", ".pypirc", ".git-credentials", "credentials"),
        "credentials.json",
        *("secrets.yaml", "token.json", "my-service-account.json", "client_secret_1.json", "prod.tfvars", "x.tfstate"),
        *(".aws/config", ".ssh/known_hosts", "home/.kube/config", "keys.kdbx", ".htpasswd", "kubeconfig.yaml"),
    ],
)
def test_secret_files_are_told_by_their_names(root: Path, name: str) -> None:
    path = write(root, name)
    of = rules(root)
    assert of.may_read(path) is ExclusionReason.SECRET
    assert of.read_text(path) is ExclusionReason.SECRET
    assert of.may_complete(path, "python") is ExclusionReason.SECRET
    assert given(of, root) == set()


@pytest.mark.parametrize("name", ["environment.py", "keys.py", "token.py", "secrets.py", "credentials.ts", "pem.go"])
def test_code_about_secrets_is_code(root: Path, name: str) -> None:
    assert rules(root).may_read(write(root, name)) is None


def test_links_lead_to_nothing_outside_the_folders(root: Path, tmp_path: Path) -> None:
    outside = write(tmp_path, "outside/secret.py")
    secret = write(root, "deploy/server.pem")
    code = write(root, "real.py")
    write(root, ".gitignore", "hidden.py\n")
    hidden = write(root, "hidden.py")
    for name, target in (
        ("to_outside.py", outside),
        ("to_secret.py", secret),
        ("to_hidden.py", hidden),
        (".env.link", code),
        ("to_code.py", code),
    ):
        (root / name).symlink_to(target)
    (root / "folder").symlink_to(outside.parent)
    (root / "loop").symlink_to(root / "loop")
    (root / "around").symlink_to(root)
    of = rules(root)
    assert of.may_read(outside) is ExclusionReason.OUTSIDE
    assert of.may_read(root / "to_outside.py") is ExclusionReason.OUTSIDE
    assert of.may_read(root / "folder" / "secret.py") is ExclusionReason.OUTSIDE
    assert of.may_read(root / ".." / "outside" / "secret.py") is ExclusionReason.OUTSIDE
    assert of.may_read(root / "to_secret.py") is ExclusionReason.SECRET
    assert of.may_read(root / ".env.link") is ExclusionReason.SECRET
    assert of.may_read(root / "to_hidden.py") is ExclusionReason.IGNORED
    assert of.may_read(root / "loop") is not None
    assert of.may_complete(root / "to_secret.py", "python") is ExclusionReason.SECRET
    assert of.may_read(root / "to_code.py") is None
    assert given(of, root) == {".gitignore", "real.py"}


def test_a_link_between_two_folders_of_the_workspace_is_inside(root: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    target = write(other, "shared.py")
    (root / "link.py").symlink_to(target)
    assert rules(root).may_read(root / "link.py") is ExclusionReason.OUTSIDE
    assert rules(root, other).may_read(root / "link.py") is None


def test_caps_and_kinds(root: Path) -> None:
    of = rules(root, read_max_file_bytes=100, read_max_line_length=80, languages_exclude=("sql",))
    os.mkfifo(root / "pipe.py")
    for name, content, reason in (
        ("large.py", "x\n" * 51, ExclusionReason.TOO_LARGE),
        ("minified.js", "x" * 81, ExclusionReason.LONG_LINES),
        ("returns.py", "x\r" * 45, None),
        ("image.py", b"\x89PNG\0\0", ExclusionReason.BINARY),
        ("latin.py", b"\xe9\xe8 = 1", ExclusionReason.BINARY),
        ("query.sql", "select 1", ExclusionReason.LANGUAGE),
        ("fine.py", "\ufeffx = 1\r\n", None),
    ):
        text = of.read_text(write(root, name, content))
        assert text == reason if reason else isinstance(text, str)
    assert of.read_text(root / "fine.py") == "x = 1\r\n"
    assert of.read_text(root) is ExclusionReason.NOT_A_FILE
    assert of.read_text(root / "pipe.py") is ExclusionReason.NOT_A_FILE
    assert of.read_text(root / "absent.py") is ExclusionReason.UNREADABLE
    assert of.may_read(write(root, "node_modules/lib/a.js")) is ExclusionReason.TOOL_FOLDER
    only = rules(root, languages_include=("python",))
    assert only.may_read(root / "fine.py") is None
    assert only.may_read(write(root, "a.ts")) is ExclusionReason.LANGUAGE
    assert only.may_complete(None, "typescript") is ExclusionReason.LANGUAGE


def test_upper_folders_come_first_and_the_cap_holds(root: Path) -> None:
    """With `read.max_files` reached it is the files nearest to the root that were read. No program of git's is run."""
    for name in ("b/deep/c.py", "a/b.py", "z.py"):
        write(root, name)
    trap = root / "ran"
    write(root, ".git/config", f"[core]\nrepositoryformatversion = 0\nfsmonitor = touch {trap}\n")
    for limit, names in ((1, ["z.py"]), (2, ["z.py", "b.py"]), (9, ["z.py", "b.py", "c.py"])):
        assert [path.name for path in rules(root, read_max_files=limit).files()] == names
    assert not trap.exists()


def test_a_tree_that_is_a_trap_is_listed_in_part(root: Path) -> None:
    deep = root
    for _ in range(300):
        deep /= "d"
        deep.mkdir()
        (deep / "up").symlink_to(root)
        os.mkfifo(deep / "pipe.py")
    write(deep, "bottom.py")
    write(root, "d/d/near.py")
    assert given(rules(root), root) == {"d/d/near.py"}


def test_a_changed_ignore_file_of_a_parent_folder_is_read_again(root: Path) -> None:
    path = write(root, "a/b/c.py")
    of = rules(root)
    assert of.may_complete(path, "python") is None
    upper = write(root, "a/.fastcoderignore", "c.py\n")
    assert of.may_complete(path, "python") is ExclusionReason.EXCLUDED
    inner = write(root, "a/b/.fastcoderignore", "!c.py\n")
    assert of.may_complete(path, "python") is None
    upper.write_text("b/\n")
    assert of.may_complete(path, "python") is ExclusionReason.EXCLUDED
    upper.unlink()
    assert of.may_complete(path, "python") is None
    inner.unlink()
    assert of.may_complete(path, "python") is None


def test_an_ignore_file_that_is_none_is_passed_over(root: Path, tmp_path: Path) -> None:
    outside = write(tmp_path, "patterns", "*.py\n")
    path = write(root, "sub/a.py")
    own, of = root / ".fastcoderignore", rules(root)
    traps: tuple[Callable[[], None], ...] = (
        lambda: os.mkfifo(own),
        lambda: own.symlink_to("/dev/zero"),
        lambda: own.symlink_to("/proc/self/fd/0"),
        lambda: own.symlink_to(outside),
        lambda: own.symlink_to(own),
    )
    for make in traps:
        make()
        assert of.may_complete(path, "python") is None
        own.unlink()
    own.mkdir()
    assert of.may_complete(path, "python") is None
    own.rmdir()
    write(root, "sub/patterns", "*.py\n")
    own.symlink_to("sub/patterns")
    assert of.may_complete(path, "python") is ExclusionReason.EXCLUDED


def test_only_folders_that_are_asked_about_are_looked_at(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each folder's rules know all folders: a look at each would be work, and memory, by their square."""
    looked_at: list[Path] = []
    begin = IgnoreFiles.__init__

    def counted(self: IgnoreFiles, folder: Path, patterns: Sequence[str] = ()) -> None:
        looked_at.append(folder)
        begin(self, folder, patterns)

    monkeypatch.setattr(IgnoreFiles, "__init__", counted)
    folders = [root / f"{number}" for number in range(400)]
    file = write(folders[7], "a.py")
    write(folders[7], ".gitignore", "b.py\n")
    every = rules(*folders)
    assert looked_at == []
    assert every.may_read(file) is None
    assert every.may_read(write(folders[7], "b.py")) is ExclusionReason.IGNORED
    assert looked_at == [folders[7].resolve()]


def test_a_listing_holds_what_a_question_for_each_file_allows(tmp_path: Path) -> None:
    root = tmp_path / "work"
    write(root, ".gitignore", "*.log\nbuild/\n/top.py\n")
    write(root, ".fastcoderignore", "mine/\n")
    write(root, "sub/.gitignore", "!keep.log\n/local.py\n")
    inner = root / "inner"
    write(inner, ".gitignore", "own.py\n")
    names = ("top.py", "a.py", "a.log", "local.py", "own.py", "keep.log", "large.py", "a.ts", "token.json", "x.pem")
    folders = ("", "sub", "sub/deep", "build", "mine", "node_modules/lib", ".ssh", "inner", "inner/.aws", "inner/sub")
    for folder in folders:
        for name in names:
            write(root, f"{folder}/{name}", "x" * 5_000 if name == "large.py" else "x = 1\n")
    (root / "link.py").symlink_to(root / "a.py")
    (root / "linked").symlink_to(root / "sub")
    small = Settings(read_max_file_bytes=4_000)
    every = [path for path in root.rglob("*") if path.is_file() and not path.is_symlink()]
    for roots in ((root,), (root, inner), (inner,)):
        for settings in (small, replace(small, languages_exclude=("typescript",), read_exclude=("deep/*.py",))):
            of = ReadingRules(roots, settings)
            listed = set(of.files())
            assert listed == {path for path in every if of.may_read(path) is None}
            assert inner / "a.py" in listed
            assert inner / "large.py" not in listed
