"""`complete FILE:LINE:COL`: places, and what is said of a wrong one."""

import json
import os
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import Mock

import pytest

from fastcoder_lsp import model
from fastcoder_lsp.cli import complete, doctor, once, serve, terminal
from fastcoder_lsp.cli.main import main
from fastcoder_lsp.completion.protocol import HostListener
from fastcoder_lsp.config import Settings
from fastcoder_lsp.core import (
    Completion,
    CompletionRequest,
    Counts,
    DraftTree,
    Progress,
    Snapshot,
    StepTrace,
    TracedToken,
)
from fastcoder_lsp.core.files import write_whole
from fastcoder_lsp.engine.one_slot import OneSlot
from fastcoder_lsp.errors import UsageError
from fastcoder_lsp.host import spawn
from fastcoder_lsp.prompt import PromptOptions
from fastcoder_lsp.runtime.parts import Model, Runtime
from fastcoder_lsp.scheduling.direct import DirectHost
from fastcoder_lsp.workspace.folders import workspace_of
from fastcoder_lsp.workspace.rules import ReadingRules
from tests.completion.toys import QUICK, Letters, ToyPrompts, toy_runtime
from tests.fake_engine import MARK, SayingEngine


def test_places_count_from_one() -> None:
    assert complete.offset_of("ab\ncd", 1, 1) == 0
    assert complete.offset_of("ab\ncd", 2, 3) == 5
    assert complete.offset_of("😀b\nc", 2, 1) == 3


@pytest.mark.parametrize(("line", "column", "says"), [(3, 1, "no line 3"), (2, 4, "no column 4")])
def test_a_place_outside_the_file_is_named(line: int, column: int, says: str) -> None:
    with pytest.raises(UsageError, match=says):
        complete.offset_of("ab\ncd", line, column)


def test_a_file_name_may_hold_colons() -> None:
    assert complete.parse_place("C:/a:b.py:3:4") == (Path("C:/a:b.py"), 3, 4)


@pytest.mark.parametrize("digits", ["9" * 5000, "9" * 50_000, "0" * 5000 + "9", str(2**63), "٩" * 5000])
def test_a_number_of_any_length_is_no_place(digits: str) -> None:
    for place, says in ((f"a.py:{digits}:1", "line"), (f"a.py:1:{digits}", "column|LINE:COL")):
        with pytest.raises(UsageError, match=says):
            complete.offset_of("ab", *complete.parse_place(place)[1:])


@pytest.mark.parametrize("place", ["a.py", "a.py:1", "a.py:0:1", "a.py:1:-1", ":1:1", "a.py:x:y", "a.py:٠:1"])
def test_other_forms_are_refused(place: str) -> None:
    with pytest.raises(UsageError, match="FILE:LINE:COL"):
        complete.parse_place(place)


@pytest.mark.parametrize(
    ("name", "text", "column", "code", "says"),
    [
        ("a.py", "x = 1\n" * 200_000, 1, "large", "This file is too large: 1.2 MB, and the limit is 1 MB."),
        ("a.py", "x" * 6_000, 1, "large", "Raise `read.max_line_length` in your own settings file"),
        (".env", "KEY=1\n", 1, "secret", "holds secrets"),
        ("a.py", 'password = "som"\n', 16, "secret", "The text before the cursor looks like a secret."),
    ],
)
def test_a_place_that_editors_refuse_is_refused(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    text: str,
    column: int,
    code: str,
    says: str,
) -> None:
    """Before a model is loaded, and with the exit code of wrong use."""
    monkeypatch.setattr(terminal, "SILENT_S", 0)
    (tmp_path / name).write_text(text)
    command = ["complete", f"{tmp_path / name}:1:{column}", "--workspace", str(tmp_path), "--model", "nowhere/none"]
    assert main(command) == 2
    err = capsys.readouterr().err
    assert says in err
    assert "loading the model" not in err
    assert main([*command, "--json"]) == 2
    assert json.loads(capsys.readouterr().out)["reason"]["code"] == code


def test_an_option_allows_text_that_looks_like_a_secret(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "a.py").write_text('password = "som"\n')
    command = ["complete", f"{tmp_path / 'a.py'}:1:16", "--model", "nowhere/none"]
    assert main(command) == 2
    assert "add --secrets" in capsys.readouterr().err
    assert main([*command, "--secrets"]) == 3, "it is asked, but there is no such model"


@pytest.mark.parametrize(
    ("compiled", "traced", "named", "drafter"),
    [
        (False, False, "auto", "none"),
        (False, True, "auto", "auto"),
        (False, False, "lookup", "lookup"),
        (True, False, "auto", "auto"),
    ],
)
def test_the_first_answer_on_a_machine_waits_for_no_drafter(
    monkeypatch: pytest.MonkeyPatch, compiled: bool, traced: bool, named: str, drafter: str
) -> None:
    """Unless its user asks for one, or where tokens come from; and progress is told from the first word on."""
    loaded, told, later = list[tuple[str, bool]](), list[str](), list[bool]()

    def load(settings: Settings, tell: Progress, _around: object, *, drafts: bool) -> Runtime:
        loaded.append((settings.drafter, drafts))
        tell(0.5, "reading weights")
        raise UsageError("stop", "here")

    monkeypatch.setattr(once, "load_runtime", load)
    monkeypatch.setattr(once, "needed", lambda: not compiled)
    monkeypatch.setattr(once, "compile_later", lambda: later.append(True))
    asked = CompletionRequest(Snapshot("file:///a.py", "/a.py", "python", 0, ""), 0)
    with pytest.raises(UsageError, match="stop"):
        once.complete_once(Settings(drafter=named), asked, lambda _share, what: told.append(what), traced=traced)
    assert loaded[0] == (drafter, compiled or traced or named != "auto")
    assert told[0] == "reading weights"
    assert not later, "nothing is compiled for a model that cannot be loaded"


def test_reading_a_folder_ends_in_time_and_resumes_later(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The user is told how much was left out; the files read so far are stored."""
    for name in ("a.py", "b.py", "c.py"):
        (tmp_path / name).write_text("x = 1\n")
    told, read, noticed = threading.Event(), list[Path](), list[str]()

    def slow(self: ReadingRules) -> Iterator[Path]:
        first, *others = files(self)
        yield first
        assert told.wait(60)
        yield from others

    def notice(text: str) -> None:
        noticed.append(text)
        told.set()

    def load(_settings: Settings, _tell: Progress, _around: object, *, drafts: bool) -> Runtime:
        model = Model(OneSlot(SayingEngine("ok", lambda: None, "scripted")), Letters(), QUICK)
        return toy_runtime(model, ToyPrompts(lambda _: (MARK,), PromptOptions(context_tokens=9)), "", max_tokens=9)

    def read_text(self: ReadingRules, path: Path) -> object:
        read.append(path)
        return reads(self, path)

    files, reads = ReadingRules.files, ReadingRules.read_text
    monkeypatch.setattr(ReadingRules, "files", slow)
    monkeypatch.setattr(ReadingRules, "read_text", read_text)
    monkeypatch.setattr(once, "load_runtime", load)
    monkeypatch.setattr(once, "_CONTEXT_S", 0.2)
    path = tmp_path / "a.py"
    asked = CompletionRequest(Snapshot(path.as_uri(), str(path), "python", 0, "x"), 1, invoked=True)
    for _ in range(2):
        once.complete_once(Settings(drafter="lookup"), asked, lambda *_: None, {tmp_path: Settings()}, notice=notice)
    assert [text.partition(" could")[0] for text in noticed] == [f"1 file of {tmp_path}"]
    assert sorted(read) == [tmp_path / name for name in ("a.py", "b.py", "c.py")], "no file twice"


def test_ranges_of_the_json_are_places_too() -> None:
    answer = complete.as_json(Completion("x", 3, 4, ms={"total": 1.0}), "here", "ab\ncd")
    assert answer["range"] == {"start": {"line": 2, "column": 1}, "end": {"line": 2, "column": 2}}
    assert json.loads(json.dumps(answer))["ms"] == {"total": 1.0}


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (["complete", "absent.py:1:1"], 2, "absent.py: No such file"),
        (["complete", "binary.py:1:1"], 2, "not UTF-8 text"),
        (["complete", "folder:1:1"], 2, "folder is a directory"),
        (["complete", "a.py:1:1", "--trace-html", "absent/page.html"], 2, "absent: no such folder"),
        (["complete", "a.py:1:1", "--workspace", "a.py"], 2, "a.py is a file, not a folder"),
        (["http", "--key-file", "absent"], 2, "absent cannot be read: No such file or directory\n"),
        (["model", "remove", "nowhere/none"], 3, "fastcoder-lsp model list"),
        (["doctor", "--report", "a.py"], 2, "a.py exists"),
        (["doctor", "--report", "absent/report.json"], 2, "absent: no such folder"),
        (["bench", "engine", "--json", "absent/engine.json"], 2, "absent: no such folder"),
        (["corpus", "build", "absent"], 2, "absent: no such file or folder"),
        (["corpus", "build", "a.py", "--name", "a b"], 2, "'a b' is not a valid corpus name"),
        (["corpus", "build", "--name", "web"], 2, "--name needs a PATH"),
        (["complete", "a.py:1:1", "--engine", "steam"], 2, "engine: must be one of"),
        (["complete", "a.py:1:1", "--max-tokens", "0"], 2, "between 1 and"),
        (["complete", "a.py:1:1", "--model", "nowhere/none"], 3, "fastcoder-lsp model pull"),
    ],
)
def test_bad_input_gets_a_line_of_what_to_do(
    arguments: list[str],
    code: int,
    says: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(terminal, "SILENT_S", 3600)
    monkeypatch.setenv("FASTCODER_CACHE", str(tmp_path / "cache"))
    Path("a.py").write_text("x = 1\n", encoding="utf-8")
    Path("folder").mkdir()
    Path("binary.py").write_bytes(b"\xff\xfe\x00")
    assert main(arguments) == code
    out, err = capsys.readouterr()
    assert out == ""
    assert says in err
    assert len(err.strip().splitlines()) == 2


def test_an_unusable_cache_is_named_before_the_download(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "a.py"
    file.write_text("x = 1\n", encoding="utf-8")
    monkeypatch.setenv("FASTCODER_CACHE", str(file / "cache"))
    assert main(["complete", f"{file}:1:1", "--model", "nowhere/none"]) == 6
    err = capsys.readouterr().err
    assert str(file / "cache") in err
    assert "model pull" not in err


def test_the_trace_names_every_tokens_origin() -> None:
    tree = DraftTree((0, 1, 2), (-1, 0, 1), 1, ("", "repository", "cache"), (0, 5, 5))
    step = StepTrace((TracedToken(b" x", "repository", 5), TracedToken(b"\n")), tree, (b"", b" x", b"y"), (1,))
    completion = Completion(" x", 0, 0, counts=Counts(1, 2, by_source={"repository": 1}), trace=(step,))
    assert [" ".join(line.split()) for line in complete.trace_lines(completion)] == [
        "step 1: 1 of 2 drafts accepted",
        '" x" repository, match of 5',
        '"\\n" the model\'s own',
        "2 tokens in 1 step; accepted drafts: repository 1",
    ]


def test_a_page_that_cannot_be_written_is_said(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot be written"):
        complete.write_page(tmp_path / "absent" / "trace.html", "a.py:1:1", Completion("", 0, 0), "", 0)
    circle = tmp_path / "circle"
    circle.symlink_to(circle)
    with pytest.raises(UsageError, match="cannot be written"):
        complete.write_page(circle, "a.py:1:1", Completion("", 0, 0), "", 0)


def test_a_page_of_any_name_and_text_is_written(tmp_path: Path) -> None:
    page = tmp_path / "trace.html"
    name = os.fsdecode(b"caf\xe9\xff.py:1:1")
    complete.write_page(page, name, Completion("", 0, 0), "x = '\ud800\u202e'", 0, [name])
    html = page.read_text(encoding="utf-8")
    assert html.endswith("</html>\n")
    assert r"caf\udce9\udcff.py" in html
    assert r"\ud800\u202e" in html


def test_a_page_is_written_whole_or_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page, link, pipe = tmp_path / "page", tmp_path / "link", tmp_path / "pipe"
    page.write_text("before")
    page.chmod(0o640)
    link.symlink_to(page)
    with monkeypatch.context() as full:
        full.setattr(os, "fsync", Mock(side_effect=OSError(28, "full")))
        with pytest.raises(OSError, match="full"):
            write_whole(page, "after")
    assert page.read_text() == "before"
    write_whole(link, "after")
    assert (page.read_text(), page.stat().st_mode & 0o777, link.is_symlink()) == ("after", 0o640, True)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["link", "page"]
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    write_whole(pipe, "said")
    assert os.read(reader, 9) == b"said"
    os.close(reader)
    assert pipe.is_fifo()


def test_the_workspace_is_the_repository_that_holds_the_file(tmp_path: Path) -> None:
    home = tmp_path / "home"
    inner = home / "src" / "project" / "package"
    inner.mkdir(parents=True)
    (home / ".git").mkdir()
    assert workspace_of(inner / "a.py", home) is None
    (home / "src" / "project" / ".git").touch()  # a worktree's is a file
    assert workspace_of(inner / "a.py", home) == home / "src" / "project"
    (inner / "fastcoder.toml").touch()
    assert workspace_of(inner / "a.py", home) == inner


def test_a_named_workspace_must_exist(tmp_path: Path) -> None:
    assert complete.workspace(tmp_path, tmp_path / "a.py") == tmp_path
    with pytest.raises(UsageError, match="no such folder"):
        complete.workspace(tmp_path / "absent", tmp_path / "a.py")


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "a.py").write_text("x = \n")
    (tmp_path / "fastcoder.toml").write_text("completion.max_tokens = 6\nno_such = 1\n")
    return tmp_path


def scripted(project: Path, monkeypatch: pytest.MonkeyPatch, asked: list[Settings]) -> list[str]:
    """A command whose model is at work elsewhere and says more than three letters; any other one is a failure."""

    def load(_tell: Progress) -> Runtime:
        said = Model(OneSlot(SayingEngine("aa bb cc dd", lambda: None, "scripted")), Letters(), QUICK)
        return toy_runtime(said, ToyPrompts(lambda _: (MARK,), PromptOptions()), "", max_tokens=9)

    def open_host(listener: HostListener, settings: Settings, folders: object, _texts: object) -> DirectHost:
        asked.append(settings)
        assert list(dict.fromkeys(folders)) == [project]  # type: ignore[call-overload]
        return DirectHost(listener, load)

    def elsewhere(*_: object, **__: object) -> object:
        raise UsageError("loaded here", "")

    monkeypatch.setattr(serve, "open_host", open_host)
    monkeypatch.setattr(spawn, "is_running", lambda _: True)
    monkeypatch.setattr(once, "complete_once", elsewhere)
    monkeypatch.setattr(model, "find", lambda _: SimpleNamespace(source="here"))
    return ["complete", f"{project / 'a.py'}:1:5"]


def test_the_shared_process_completes_if_it_runs(
    project: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """With the limits of the folder's file, whose error is said; an option loads a model of its own."""
    asked: list[Settings] = []
    command = scripted(project, monkeypatch, asked)
    assert main(command) == 0
    out, err = capsys.readouterr()
    assert out == "aa bb\n"
    assert f"{project / 'fastcoder.toml'}:2: no_such: unknown setting" in err
    assert main([*command, "--max-tokens", "9"]) == 0
    assert capsys.readouterr().out == "aa bb cc\n"
    for alone in ("--own-process", "--trace", "--show-prompt"):
        assert main([*command, alone]) == 2
        assert "loaded here" in capsys.readouterr().err
    assert len(asked) == 2


def test_commands_read_the_users_own_file(
    project: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    own = project / "config" / "fastcoder" / "fastcoder.toml"
    own.parent.mkdir(parents=True)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(project / "config"))
    command = scripted(project, monkeypatch, [])
    own.write_text("host.enabled = false\n")
    assert main(command) == 2
    assert "loaded here" in capsys.readouterr().err
    own.write_text("enabled = false\n")
    assert main(command) == 2
    assert "Suggestions are off" in capsys.readouterr().err
    own.write_text("model = ")
    assert main(command) == 0
    assert f"{own}:1: The file is not valid TOML" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["compelte"], "did you mean complete?"),
        (["complete", "a.py:1:1", "--modle", "x"], "did you mean --model?"),
        (["serve", "--log-level", "debgu"], "did you mean debug?"),
        (["model", "pul"], "did you mean pull?"),
        (["serve", "--engine", "cpu-int88"], "did you mean cpu-int8?"),
    ],
)
def test_a_misspelt_word_is_told_the_nearest(
    words: list[str], says: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(serve, "take_wire", lambda: (None, None))
    with suppress(SystemExit):
        main(words)
    assert says in capsys.readouterr().err


def test_an_unknown_drafter_is_told_before_a_model_loads(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["complete", f"{project / 'a.py'}:1:5", "--model", "nowhere/none", "--drafter", "lokup"]
    assert main(command) == 2
    assert "Did you mean lookup?" in capsys.readouterr().err


@pytest.mark.parametrize("named", [("--model", "nosuch"), ("--draft-model", "no/such")])
def test_a_missing_model_is_told_before_anything_loads(
    named: tuple[str, str], project: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(terminal, "SILENT_S", 0)
    assert main(["complete", f"{project / 'a.py'}:1:5", *named]) == 3
    err = capsys.readouterr().err
    assert f"fastcoder-lsp model pull {named[1]}" in err
    assert "loading" not in err


def test_doctor_names_the_source_of_each_setting(
    project: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    own = project / "config" / "fastcoder" / "fastcoder.toml"
    own.parent.mkdir(parents=True)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(project / "config"))
    monkeypatch.setattr(doctor, "examine", lambda _: ())
    own.write_text("threads = 2\n[languages.python.quiet]\nlines = 1\n")
    monkeypatch.chdir(project)
    assert main(["doctor", "--engine", "cpu-int8"]) == 1
    out = capsys.readouterr().out
    assert f"threads = 2  ({own}:1)" in out
    assert f"languages.python.quiet.lines = 1  ({own}:3)" in out
    assert f"completion.max_tokens = 6  ({project / 'fastcoder.toml'}:1)" in out
    assert 'engine = "cpu-int8"  (command line)' in out
    assert f"{project / 'fastcoder.toml'}:2: no_such: unknown setting" in out
