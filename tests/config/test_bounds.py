"""Settings that a repository wrote to be slow, long or strange; and where this program's own files lie."""

import os
from pathlib import Path

import pytest

from fastcoder_lsp.cli.start import is_path, leave_folder, name_fully, whole_path
from fastcoder_lsp.config import SettingsLayer, cache_folder, resolve
from fastcoder_lsp.config.environment import find_program, neutral_folder, python_command
from fastcoder_lsp.config.resolve import MAX_ENTRIES, MAX_PROBLEMS, shown
from fastcoder_lsp.errors import UsageError


def nested(depth: int) -> dict[str, object]:
    values: dict[str, object] = {"end": 1}
    for _ in range(depth):
        values = {"a": values}
    return values


@pytest.mark.parametrize(
    "values",
    [
        nested(50_000),
        {f"k{number}": number for number in range(30_000)},
        {"x" * 1_000_000: 1},
        {"context_tokens": 16**20_000, "read.max_files": 10**5_000, "threads": float("inf"), "gpu.strict": nested(99)},
        {"read.exclude": ["a"] * (MAX_ENTRIES + 1), "languages.exclude": ["x" * (MAX_ENTRIES + 1)]},
        {"bell\a\x1b[2J\n": "\a", "model": "\x1b[2J" * 99},
    ],
    ids=["nested", "many", "long", "numbers", "lists", "signs"],
)
def test_what_is_said_of_wrong_values_is_short_and_clean(values: dict[str, object]) -> None:
    settings, problems = resolve([SettingsLayer("fastcoder.toml", values, trusted=False)])
    assert settings == resolve([])[0]
    assert 0 < len(problems) <= MAX_PROBLEMS + 1
    assert all(len(str(problem)) < 300 and str(problem).isprintable() for problem in problems)


def test_lists_of_several_places_are_joined_once() -> None:
    layers = [SettingsLayer(str(number), {"read.exclude": ["b", "a", "b"]}, trusted=False) for number in range(9)]
    assert resolve(layers)[0].read_exclude == ("b", "a")


def test_shown_names_are_cut_and_cleaned() -> None:
    assert shown("größe") == "größe"
    assert shown("a\nb\x1b") == "a·b·"
    assert shown("x" * 99, 10) == "x" * 9 + "…"


def test_the_cache_lies_in_no_folder_that_happens_to_be_the_working_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """It holds compiled code: a repository must not supply it."""
    monkeypatch.setenv("FASTCODER_CACHE", ".cache")
    with pytest.raises(UsageError, match="relative"):
        cache_folder()


@pytest.mark.skipif(os.name == "nt", reason="the search of PATH is another one")
def test_programs_are_found_by_whole_paths_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "tool").write_text("#!/bin/sh\n")
    (tmp_path / "tool").chmod(0o755)
    monkeypatch.chdir(tmp_path)
    for path in (".", "", f".{os.pathsep}", "./", f"{tmp_path.name}/.."):
        monkeypatch.setenv("PATH", path)
        assert find_program("tool") is None
    # One that cannot be looked into is passed over, as a shell does.
    monkeypatch.setenv("PATH", os.pathsep.join((".", "/" + "x" * 300, str(tmp_path))))
    assert find_program("tool") == str(tmp_path / "tool")


def test_pythons_of_ours_import_from_nowhere_they_run() -> None:
    """By `-P`; and they run where no repository is."""
    assert "-P" in python_command("module")
    assert neutral_folder().is_dir()


def test_a_process_leaves_its_folder_and_finds_what_was_named_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import argparse
    import sys

    (tmp_path / "sub").mkdir()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(("", "sub", "/absolute")))
    monkeypatch.setattr(sys, "path", [str(tmp_path), str(tmp_path / "sub"), "/absolute", *sys.path])
    here = leave_folder()
    assert here == tmp_path
    assert Path.cwd() == neutral_folder().resolve()
    assert str(tmp_path) not in sys.path
    assert str(tmp_path / "sub") not in sys.path
    assert "/absolute" in sys.path
    arguments = argparse.Namespace(file=Path("a.py"), paths=[Path(), Path("/b")], model="./m.gguf", name="owner/name")
    arguments.draft_model, arguments.student = ["./small", "owner/name"], "./student"
    arguments.boost = ["./one", "two"]
    arguments.drafters = "auto,eagle:weights=a/b,top_k=3,medusa:ranks=false,weights=/c"
    name_fully(arguments, here)
    assert arguments.file == tmp_path / "a.py"
    assert arguments.paths == [tmp_path, Path("/b")]
    assert arguments.model == str(tmp_path / "m.gguf")
    assert arguments.name == "owner/name"
    assert arguments.draft_model == [str(tmp_path / "small"), "owner/name"]
    assert arguments.student == str(tmp_path / "student")
    assert arguments.boost == [str(tmp_path / "one"), "two"]
    assert arguments.drafters == f"auto,eagle:weights={tmp_path / 'a' / 'b'},top_k=3,medusa:ranks=false,weights=/c"


def test_a_folder_that_is_gone_has_no_paths() -> None:
    assert whole_path(Path("/a"), None) == Path("/a")
    with pytest.raises(UsageError, match="no longer exists"):
        whole_path(Path("a"), None)
    assert not any(map(is_path, ("auto", "owner/name", "wheels:smollm2")))
    assert all(map(is_path, ("./x", "../x", "x.gguf", "~/m")))
