"""Ignore patterns beside git itself, and beside a repository that wants the matcher to be busy for ever."""

import itertools
import os
import random
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from fastcoder_lsp.workspace.patterns import MAX_ELEMENTS, MAX_SETS, Patterns

PIECES = (
    *("a", "b", "ab", "*", "*", "**", "?", "/", "/", "**/", "/**", "***", "[ab]", "[!a]", "[^b]", "[a-c]", "[]a]"),
    *("[a-]", "[\\]]", "[z-a]", "[", "[[:alpha:]]", "[[:x:]]", "!", "#", "\\", "\\\\", "\\ ", " ", "-", "."),
)
NAMES = ("a", "b", "ab", "aa", "abc", "aab", "a b", "a ", ".a", "-", "#a", "!a", "A", "]", "a]", "\\", "^", "*")


def ignores(lines: Sequence[str], path: str) -> bool:
    """Whether the file at `path`, or a folder that it lies in, is ignored."""
    patterns = Patterns(lines, ignores_case=False)
    state, parts = patterns.start, path.split("/")
    for number, name in enumerate(parts, 1):
        verdict = patterns.match(state, name, is_folder=number < len(parts))
        if verdict.ignored:
            return True
        state = verdict.below
    return False


@pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")
def test_patterns_mean_what_git_takes_them_for(tmp_path: Path) -> None:
    chance = random.Random(7)
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    subprocess.run(["git", "-C", str(tmp_path), "config", "core.ignorecase", "false"], check=True)
    asked: list[tuple[list[str], str, str]] = []
    for number in range(600):
        lines = ["".join(chance.choices(PIECES, k=chance.randint(1, 8))) for _ in range(chance.choice((1, 1, 2, 3)))]
        folder = tmp_path / f"f{number}"
        folder.mkdir()
        (folder / ".gitignore").write_text("\n".join(lines) + "\n")
        paths = {"/".join(chance.choices(NAMES, k=chance.randint(1, 4))) for _ in range(20)}
        asked += [(lines, path, f"f{number}/{path}") for path in sorted(paths)]
    done = subprocess.run(
        ["git", "-C", str(tmp_path), "check-ignore", "--no-index", "-z", "--stdin"],
        input=b"\0".join(os.fsencode(full) for _, _, full in asked),
        capture_output=True,
        check=True,
    )
    by_git = set(os.fsdecode(done.stdout).split("\0"))
    assert len(by_git) > len(asked) // 20
    wrong = [(lines, path) for lines, path, full in asked if ignores(lines, path) != (full in by_git)]
    assert wrong == []


def test_case_is_ignored_where_the_system_ignores_it() -> None:
    for pattern in ("Secret.PY", "/sub/secret.py", "*.Py", "[S]ecret.*"):
        folded = Patterns([pattern], ignores_case=True)
        state = folded.match(folded.start, "SUB", is_folder=True).below if "/" in pattern else folded.start
        assert folded.match(state, "SECRET.py", is_folder=False).ignored


def test_names_that_are_no_text_are_matched() -> None:
    name = os.fsdecode(b"caf\xe9.py")
    assert Patterns([name]).match(0, name, is_folder=False).ignored
    assert Patterns(["caf?.py"]).match(0, name, is_folder=False).ignored


STARS = "*a" * 20 + "b"


@pytest.mark.parametrize(
    ("lines", "name"),
    [
        ([STARS], "a" * 100),
        ([f"x{STARS}/**/{STARS}"], "a" * 250),
        (["**/" * 20_000 + "b"], "a" * 250),
        (["/**/" + "*a" * 30_000], "a" * 250),
        (["*" + "a" * 120 + f"b{number}" for number in range(2_000)], "a" * 250),
        ([f"[{chr(number)}-{chr(number + 9)}]*" for number in range(300, 9_000)], "".join(map(chr, range(300, 550)))),
        (["[" + "a-b" * 100_000 + "]"], "c" * 250),
        (["a"] * 1_000_000, "a"),
        (["[" * 500_000, "\\" * 500_001, "!" * 500_000, "[[:" * 100_000, "a" * 10_000_000], "a" * 250),
    ],
)
def test_no_pattern_keeps_the_matcher_busy(lines: list[str], name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    patterns = Patterns(lines)
    assert len(patterns) <= 2 * MAX_ELEMENTS
    looked = itertools.count()
    patterns.match(patterns.start, Counted.of(name, looked), is_folder=False)
    assert next(looked) <= 2 * (len(name) + 1)
    for automaton in (patterns._of_names, patterns._of_paths):
        assert sum(map(len, automaton._sets)) <= MAX_SETS


class Counted(str):
    """A name that counts how often one of its letters is taken."""

    __slots__ = ("looked",)
    looked: "itertools.count[int]"

    @classmethod
    def of(cls, text: str, looked: "itertools.count[int]") -> "Counted":
        counted = cls(text)
        counted.looked = looked
        return counted

    def __iter__(self) -> Iterator[str]:
        for letter in str.__iter__(self):
            next(self.looked)
            yield letter

    def lower(self) -> "Counted":
        return Counted.of(super().lower(), self.looked)
