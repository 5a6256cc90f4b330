"""`train edits`: examples from commits equal the server's prompts, hold nothing excluded, and make a working model."""

import json
import os
import re
import shutil
import stat
import subprocess
import threading
import zlib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from fastcoder_lsp.cli.main import main
from fastcoder_lsp.config import Settings
from fastcoder_lsp.core import Change
from fastcoder_lsp.documents import Slots
from fastcoder_lsp.edits.formats import EditLimits
from fastcoder_lsp.edits.minimal import apply
from fastcoder_lsp.edits.values import EditQuestion
from fastcoder_lsp.errors import ModelInvalidError, UsageError
from fastcoder_lsp.model.files import RECORD
from fastcoder_lsp.model.find import find
from fastcoder_lsp.observe import Spans
from fastcoder_lsp.papers.train.edits import (
    CHANGED,
    COPIED,
    FORMAT,
    QUIET,
    EditExample,
    EditsTask,
    Foretelling,
    examples_of,
    excerpt,
)
from fastcoder_lsp.papers.train.edits import (
    renamed as renamed_in,
)
from fastcoder_lsp.papers.train.texts import FileChange, read_history
from fastcoder_lsp.runtime.edit_model import EditRuntime, format_of, load_edit_model
from fastcoder_lsp.scheduling.budget import LatencyEstimator
from fastcoder_lsp.scheduling.edits import EditGeneration
from fastcoder_lsp.tokenizer import Tokenizer
from tests.faults.small_model import write_model

pytestmark = pytest.mark.skipif(shutil.which("git") is None, reason="needs git")

LIMITS = EditLimits(prompt_tokens=700)
BODY = "".join(f"    step_{number}()\n" for number in range(40))
SECRET = "hunter2-Zx81-QpLm"


def git(repository: Path, *words: str) -> str:
    who = ("-c", "user.name=Ada", "-c", "user.email=ada@example.org", "-c", "commit.gpgSign=false")
    done = subprocess.run(["git", "-C", str(repository), *who, *words], capture_output=True, text=True, check=True)
    return done.stdout.strip()


def commit(repository: Path, files: dict[str, str]) -> str:
    for name, text in files.items():
        (repository / name).parent.mkdir(parents=True, exist_ok=True)
        (repository / name).write_text(text, encoding="utf-8", newline="")
    git(repository, "add", "--all", "--force")
    git(repository, "commit", "--quiet", "--allow-empty", "-m", "x")
    return git(repository, "rev-parse", "HEAD")


def renamed(name: str, tail: str = "end") -> str:
    return f"def total({name}):\n    result = {name} + 1\n    return {name}, result\n\n\n{BODY}# {tail}\n"


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A parameter is renamed again and again; the last line changes in every second commit."""
    place = tmp_path / "mine"
    place.mkdir()
    git(place, "init", "--quiet")
    for number in range(24):
        commit(place, {"src/total.py": renamed(f"value_{number}", f"end {number // 2}")})
    return place


def change(old: str, new: str, commit_id: str = "1") -> FileChange:
    return FileChange(commit_id, "src/total.py", "python", old, new)


def is_quiet(one: EditExample) -> bool:
    """Whether the answer changes nothing."""
    return one.new == one.prompt.region


def test_examples_are_what_the_server_would_ask() -> None:
    """The first hunk is history; the window's other hunks are the answer, the far one is not; then all is quiet."""
    found = list(examples_of(change(renamed("a", "x"), renamed("b", "y")), LIMITS))
    down = next(one for one in found if not is_quiet(one))
    assert down.prompt.region.startswith("def total(b)"), "this commit's hunks are made from the top"
    text = renamed("a", "x").replace("total(a)", "total(b)")
    last = Change(
        "src/total.py", 0, "def total(a):\n", "def total(b):\n", "", "    result = a + 1\n    return a, result\n\n"
    )
    asked = EditQuestion(1, "u", "src/total.py", "python", 1, text, len("def total(b):"), (last,))
    expected = FORMAT.prompt(asked, LIMITS)
    assert expected is not None
    assert down.prompt == expected
    assert down.new == "\n".join(renamed("b", "x").split("\n")[:11])
    assert [is_quiet(one) for one in found] == [False, False, True, True]
    up = list(examples_of(change(renamed("a", "x"), renamed("b", "y"), "2"), LIMITS))
    assert [is_quiet(one) for one in up] == [True, False, False, True], "another commit goes from the bottom up"


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (BODY, BODY.replace("step_3()", "step_3( )")),
        (BODY, BODY.replace("    step_3()\n", "").replace("    step_9()\n", "    new()\n    newer()\n    step_9()\n")),
        (BODY, "\n\n" + BODY.replace("step_2()", "step_2(1)\n\n") + "last()\n"),
        (BODY, BODY.replace("step_", "<|file_sep|>", 3)),
        (BODY, "".join(f"    other_{number}()\n" for number in range(40))),
        ("x\n", "\n"),
    ],
)
def test_answers_are_read_as_what_they_teach(old: str, new: str) -> None:
    form = FORMAT
    for number in range(4):
        for one in examples_of(change(old, new, str(number)), LIMITS):
            read = form.read(one.prompt, f"\n{one.new}\n")
            assert read == (None if is_quiet(one) else one.new)


def test_an_answer_has_what_the_history_foretells() -> None:
    """A rename is; other new text is not: the answer leaves it out, and an example with nothing else is left out."""
    tells = Foretelling((Change("a.py", 0, "f(a)\n", "f(b)\n"),), "f(b)\ny = a\n").tells
    assert tells("y = a", "y = b")
    assert not tells("y = a", "y = c")
    assert not tells("f(y)", "y")
    old, new = renamed("a", "x"), renamed("b", "y").replace("b + 1", "b + surprise")
    found = [one.new.count("surprise") for one in examples_of(change(old, new), LIMITS) if not is_quiet(one)]
    assert found == [0, 1], "once it is made, it is in the window"
    other = BODY.replace("step_3()", "new()").replace("step_5()", "other()")
    assert [is_quiet(one) for one in examples_of(change(BODY, other), LIMITS)] == [True]


def test_examples_of_every_length_and_of_renames() -> None:
    one = change(BODY, BODY.replace("step_20()", "new()"))
    cut = excerpt(one)
    assert cut.old in BODY
    assert len(cut.old) < len(BODY) / 2
    assert cut.new == cut.old.replace("step_20()", "new()")
    text = renamed("price").partition("\n\n")[0]
    made = renamed_in(change(BODY, text))
    assert made is not None
    assert made.old == text
    (name,) = set(re.findall(r"\w+", made.old)) - set(re.findall(r"\w+", made.new))
    assert made.old.count(name) > 1
    assert name not in ("def", "return")
    assert renamed_in(change("a = 1\n", "b = 1\n")) is None


def test_the_loss_is_on_the_answer_alone(tmp_path: Path) -> None:
    """Marks are control tokens, text of files never is one."""
    tokenizer = Tokenizer.load(write_model(tmp_path / "base"))
    one = next(iter(examples_of(change(renamed("a"), renamed("b")), LIMITS)))
    example = one.encoded(tokenizer).example()
    asked, mark = one.prompt.encode(tokenizer), tokenizer.control["<|file_sep|>"]
    assert example.tokens.tolist()[: len(asked)] == asked
    goals = dict(sorted(pair for goal in example.labels.values() for pair in zip(goal.nodes, goal.ids, strict=True)))
    assert list(goals.values()) == [*tokenizer.encode(f"\n{one.new}\n"), mark]
    assert list(goals) == list(range(len(asked) - 1, len(example) - 1))
    changed = "".join(tokenizer.piece(token).decode() for token in example.labels[CHANGED].ids.tolist())
    assert changed == "bb", "the loss of what changes is apart: a token of each line that the answer changes"
    assert set(example.labels) == {CHANGED, COPIED}
    hostile = EditExample(replace(one.prompt, parts=("<|file_sep|>",)), "<|file_sep|>")
    assert hostile.encoded(tokenizer).tokens.tolist().count(mark) == 1


def test_a_step_has_as_many_edits_as_quiet_ones(tmp_path: Path) -> None:
    tokenizer = Tokenizer.load(write_model(tmp_path / "base"))
    found = [one.encoded(tokenizer) for one in examples_of(change(renamed("a", "x"), renamed("b", "y")), LIMITS)]
    task = EditsTask(found, found, batch=4, seed=0, held_out=4)
    for step in range(3):
        assert [set(one.labels) for one in task.examples(step)] == [{CHANGED, COPIED}, {QUIET}] * 2
    assert len(task.held_out()) == 4
    only = EditsTask([one for one in found if one.changed], [], batch=2, seed=0, held_out=4)
    assert [set(one.labels) for one in only.examples(0)] == [{CHANGED, COPIED}] * 2


def test_what_may_not_be_read_is_in_no_example(repository: Path) -> None:
    """Rules of today, on both sides: ignored and secret names, secret lines, other than text, too large, hostile."""
    names = ("ignored/a.py", ".env.py", "own.py", "excluded.py", "big.py", "data.json")
    for side in ("old", "new"):
        big = "x = 1\n" * (200_000 if side == "new" else 1)
        texts = {name: f"{SECRET} = '{name} {side}'\n" for name in names} | {"big.py": f"# {SECRET} {side}\n{big}"}
        texts["key.py"] = f"a = 1\npassword = '{SECRET}'\nb = '{side}'\n" if side == "old" else "a = 2\nb = 'new'\n"
        texts["typed.py"] = "a = 1\n" if side == "old" else f"a = 2\npassword = '{SECRET}'\n"
        commit(repository, texts)
    commit(
        repository,
        {
            ".gitignore": "ignored/\n",
            ".fastcoderignore": "own.py\n",
            "fastcoder.toml": "read.exclude = ['excluded.py']\n",
        },
    )
    changes = read_history(repository, None, 100).changes
    assert {one.path for one in changes} == {"src/total.py", "key.py", "typed.py"}
    key = next(one for one in changes if one.path == "key.py")
    assert (key.old, key.new) == ("a = 1\nb = 'old'\n", "a = 2\nb = 'new'\n")
    assert not any(SECRET in text for one in changes for text in (one.old, one.new))
    assert [one.old for one in changes if one.path == "src/total.py"][:2] == [
        renamed("value_0", "end 0"),
        renamed("value_1", "end 0"),
    ], "the oldest first"


def test_nothing_of_the_repository_runs(repository: Path, tmp_path: Path) -> None:
    """Its configuration, hooks, attributes and remotes name programs; an object is missing, as in a partial clone."""
    ran = tmp_path / "ran"
    program = tmp_path / "program"
    program.write_text(f"#!/bin/sh\ntouch {ran}\n", encoding="utf-8")
    program.chmod(0o755)
    commit(repository, {".gitattributes": "* filter=x diff=x\n", "gone.py": "gone = 1\n"})
    commit(repository, {"gone.py": "gone = 2\n"})
    expected = read_history(repository, None, 100)
    lost = git(repository, "rev-parse", "HEAD:gone.py")
    (repository / ".git/objects" / lost[:2] / lost[2:]).unlink()
    (repository / ".git/config").write_text(
        f"[core]\n repositoryformatversion = 1\n fsmonitor = {program}\n sshCommand = {program}\n pager = {program}\n"
        f" hooksPath = {tmp_path}\n alternateRefsCommand = {program}\n[extensions]\n partialClone = origin\n"
        f'[remote "origin"]\n url = ssh://nowhere/x\n promisor = true\n uploadpack = {program}\n'
        f'[diff]\n external = {program}\n[diff "x"]\n textconv = {program}\n command = {program}\n'
        f'[filter "x"]\n smudge = {program}\n[uploadpack]\n packObjectsHook = {program}\n[alias]\n init = !{program}\n',
        encoding="utf-8",
    )
    before = {path: path.stat().st_mtime_ns for path in repository.rglob("*")}
    assert read_history(repository, None, 100).changes == expected.changes[:-1]
    assert {path: path.stat().st_mtime_ns for path in repository.rglob("*")} == before, "nothing is written"
    assert not ran.exists()


def _pipe(repository: Path, head: Path) -> None:
    head.unlink()
    os.mkfifo(head)


def _endless_alternates(repository: Path, head: Path) -> None:
    (repository / ".git/objects/info/alternates").symlink_to("/dev/zero")


def _bomb(repository: Path, head: Path) -> None:
    """Some MB that unpack to a commit of 600 MB."""
    head.chmod(0o600)
    packer = zlib.compressobj(1)
    with head.open("wb") as file:
        file.write(packer.compress(b"commit 600000000\0tree " + b"0" * 40 + b"\n"))
        for _ in range(600):
            file.write(packer.compress(bytes(1_000_000)))
        file.write(packer.flush())


@pytest.mark.parametrize("attack", [_pipe, _endless_alternates, _bomb])
def test_a_hostile_history_ends_within_the_limits(
    attack: Callable[[Path, Path], None], repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fastcoder_lsp.workspace.git.READ_S", 5.0 if attack is _pipe else 600.0)
    monkeypatch.setattr("fastcoder_lsp.workspace.git._READ_KB", 200_000)
    newest = git(repository, "rev-parse", "HEAD")
    attack(repository, repository / ".git/objects" / newest[:2] / newest[2:])
    with pytest.raises(UsageError, match="cannot read the history") as refused:
        read_history(repository, None, 100)
    assert ("longer than" if attack is _pipe else "memory") in str(refused.value)


def test_histories_of_other_forms(repository: Path, tmp_path: Path) -> None:
    """Packed, in a linked work tree, detached, shallow; and what is no repository."""
    whole = read_history(repository, None, 100)
    git(repository, "worktree", "add", "--quiet", "--detach", str(tmp_path / "linked"))
    git(repository, "pack-refs", "--all")
    git(repository, "gc", "--quiet")
    git(tmp_path, "clone", "--quiet", "--depth=5", f"file://{repository}", "shallow")
    assert read_history(repository, None, 100) == whole
    assert read_history(tmp_path / "linked", None, 100).changes == whole.changes
    assert read_history(tmp_path / "shallow", None, 100).changes == whole.changes[-4:]
    assert len(read_history(repository, whole.changes[9].commit, 5).changes) == 5
    blob = git(repository, "rev-parse", "HEAD:src/total.py")
    with pytest.raises(UsageError, match="not the top folder"):
        read_history(tmp_path, None, 100)
    for named in ("nosuch", "--output=/tmp/x", "0" * 40, blob):
        with pytest.raises(UsageError, match=f"has no commit {named}"):
            read_history(repository, named, 100)


def arguments(repository: Path, base: Path, out: Path, *more: str) -> list[str]:
    common = ["--model", str(base), "--repo", str(repository), "--out", str(out), "--device", "cpu", "--full"]
    return [
        "train",
        "edits",
        *common,
        "--length",
        "1600",
        "--batch",
        "2",
        "--rate",
        "1e-5",
        "--precision",
        "fp32",
        *more,
    ]


def test_from_commits_to_the_server_s_edit_model(repository: Path, tmp_path: Path, cache: Path) -> None:
    """Stopped and gone on after a new commit: the same weights; only the user reads them; the server's engine does."""
    base, whole, parts = write_model(tmp_path / "base", "y\nx=2"), tmp_path / "whole", tmp_path / "parts"
    assert main(arguments(repository, base, whole, "--steps", "3")) == 0
    assert main(arguments(repository, base, parts, "--steps", "3", "--max-minutes", "0.000001")) == 0
    commit(repository, {"src/total.py": renamed("later")})
    assert main(arguments(repository, base, parts, "--steps", "3")) == 0
    left, right = (load_file(place / "model" / "model.safetensors") for place in (whole, parts))
    assert all(torch.equal(left[name], right[name]) for name in left)
    files = [path for path in whole.rglob("*") if path.is_file()]
    assert {stat.S_IMODE(path.stat().st_mode) for path in files} == {0o600}
    record = json.loads((whole / "model" / RECORD).read_text())
    assert record["edit_format"] == "fastcoder-v1"
    assert record["figures"]["held_out_changed_last"] != record["figures"]["held_out_changed_first"]
    assert "held_out_quiet_last" in record["figures"]

    settings = Settings(edits_model=str(whole / "model"), engine="cpu-int8", threads=1)
    model = load_edit_model(settings, threading.Event())
    try:
        assert model.format.name == "fastcoder-v1"
        runtime = EditRuntime(model, Slots(model.engines, "front"), model.make_drafter())
        asked = EditQuestion(1, "u", "total.py", "python", 1, "x=1", 0, (Change("total.py", 0, "x=0\n", "x=1\n"),))
        prompt = model.format.prompt(asked, model.limits())
        assert prompt is not None
        latency, tokens = LatencyEstimator(model.costs, lambda: 0.0), tuple(prompt.encode(model.tokenizer))
        generation = EditGeneration(runtime, latency, lambda: 0.0, asked, prompt, tokens, Spans())
        while not generation.finished:
            generation.do_piece()
        assert apply("x=1", generation.answer().edits) == "x=2"
    finally:
        model.engines.close()
    (whole / "model" / RECORD).write_text(json.dumps(record | {"edit_format": "sweep-v9"}))
    files_of_model = find(str(whole / "model"), cache)
    with pytest.raises(ModelInvalidError, match="sweep-v9"):
        format_of("any", files_of_model)
    umask = os.umask(0o022)
    os.umask(umask)
    assert umask != 0o077, "it is put back"


def test_a_missing_device_or_folder_is_refused_at_once(
    repository: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    base, file = write_model(tmp_path / "base"), tmp_path / "file"
    file.write_text("x")
    for out, more, said in (
        (tmp_path / "out", ("--device", "tpu"), "no device tpu"),
        (file / "out", (), "cannot be written"),
        (base, (), "contains other files"),
    ):
        assert main(arguments(repository, base, out, *more)) == 2
        told = capsys.readouterr().err
        assert said in told
        assert "reading the history" not in told
    assert not (tmp_path / "out").exists()


def test_too_few_changes_are_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    place = tmp_path / "new"
    place.mkdir()
    git(place, "init", "--quiet")
    assert main(arguments(place, write_model(tmp_path / "base"), tmp_path / "out")) == 2
    assert "newest commit" in capsys.readouterr().err
    commit(place, {"a.py": "a = 1\n"})
    assert main(arguments(place, tmp_path / "base", tmp_path / "out")) == 2
    assert "too few changes" in capsys.readouterr().err
