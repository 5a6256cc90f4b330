"""The words of a folder's files: what is looked at, when it is looked at again, and that the rules hold at each use."""

import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from fastcoder_lsp.config import Settings
from fastcoder_lsp.core import at_once
from fastcoder_lsp.index import word_index
from fastcoder_lsp.index.word_index import StoredWords
from fastcoder_lsp.runtime import folder_words
from fastcoder_lsp.runtime.folder_words import FolderWords
from fastcoder_lsp.workspace.regular import FileStamp
from fastcoder_lsp.workspace.rules import ExclusionReason, ReadingRules


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Two files of code, one that is ignored, one with secrets."""
    for name, text in {
        "src/one.py": "first_thing = 1\n",
        "two.py": "second_thing = 2\r\nmore = 3\r\n",
        "ignored.py": "hidden_thing = 4\n",
        ".env": "PLANTED_THING=5\n",
        ".gitignore": "ignored.py\n",
    }.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(text.encode())
    return tmp_path


@pytest.fixture
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where an index is kept: in a folder that is not there yet."""
    return tmp_path_factory.mktemp("cache") / "words" / "words.bin"


def rules_of(root: Path) -> ReadingRules:
    return ReadingRules((root,), Settings())


def looked(root: Path, clock: Clock | None = None) -> FolderWords:
    words = FolderWords(root, rules_of(root), clock or Clock())
    words.follow(words.rules)
    assert words.wait_idle(60)
    return words


def kept_at(root: Path, kept: Path) -> FolderWords:
    """Another process that begins with what is kept, looked through."""
    words = FolderWords(root, rules_of(root), Clock(), kept)
    words.follow(words.rules)
    assert words.wait_idle(60)
    return words


def holding(words: FolderWords, text: str) -> list[str]:
    return words.index.best(np.unique(words.terms.of(text)), 10)


def test_what_may_be_read_is_indexed(root: Path) -> None:
    words = looked(root)
    assert holding(words, "first_thing") == ["src/one.py", "two.py"], "they share a part"
    assert not any(".env" in key or "ignored" in key for key in holding(words, "hidden_thing PLANTED_THING thing"))
    loaded = at_once(words.load("two.py"))
    assert loaded is not None
    assert loaded.text == "second_thing = 2\nmore = 3\n"
    assert loaded.lines.lines == 3
    for key in ("ignored.py", ".env", "gone.py", "../outside.py"):
        assert at_once(words.load(key)) is None


def test_a_file_is_read_again_when_it_has_changed(root: Path) -> None:
    words = looked(root)
    first = at_once(words.load("two.py"))
    assert at_once(words.load("two.py")) is first
    (root / "two.py").write_text("something_else = 22\n")
    again = at_once(words.load("two.py"))
    assert again is not None
    assert "something_else" in again.text
    (root / ".fastcoderignore").write_text("two.py\n")
    assert at_once(words.load("two.py")) is None, "rules hold when it is used"


def test_changes_are_found_when_they_are_told(root: Path) -> None:
    words = looked(root)
    (root / "two.py").write_text("unheard_of = 1\n")
    (root / "three.py").write_text("unheard_of = 2\n")
    (root / "src/one.py").unlink()
    words.changed([root / "two.py", root / "three.py", root / "src/one.py"])
    assert words.wait_idle(60)
    assert sorted(holding(words, "unheard_of")) == ["three.py", "two.py"]
    assert holding(words, "first_thing") == []


def test_what_is_told_is_only_a_hint(root: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    """The rules hold for it, and it is where it is: no link has a place of its own, and nothing lies elsewhere."""
    outside = tmp_path_factory.mktemp("outside") / "elsewhere.py"
    outside.write_text("unheard_of = 1\n")
    words = looked(root)
    (root / "new.py").write_text("unheard_of = 2\n")
    (root / "link.py").symlink_to(root / "new.py")
    (root / "far.py").symlink_to(outside)
    (root / "folder.py").mkdir()
    names = ("link.py", "far.py", "folder.py", "ignored.py", ".env", "gone.py", "../outside.py")
    words.changed([*(root / name for name in names), outside])
    assert words.wait_idle(60)
    assert sorted(words.index.known()) == [".gitignore", "new.py", "src/one.py", "two.py"]
    (root / "two.py").unlink()
    (root / "two.py").symlink_to(root / "new.py")
    words.changed([root / "two.py"])
    assert words.wait_idle(60)
    assert "two.py" not in words.index


def test_an_unchanged_file_that_is_told_may_be_forbidden_now(root: Path) -> None:
    words = looked(root)
    (root / ".gitignore").write_text("two.py\n")
    words.changed([root / "two.py", root / "ignored.py"])
    assert words.wait_idle(60)
    assert "two.py" not in words.index
    assert "ignored.py" in words.index


def test_a_folder_that_is_a_link_is_told_by_either_name(root: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    link = tmp_path_factory.mktemp("links") / "project"
    link.symlink_to(root, target_is_directory=True)
    words = looked(link)
    for top, name in ((root, "a.py"), (link, "b.py")):
        (root / name).write_text("unheard_of = 1\n")
        words.changed([top / name])
    assert words.wait_idle(60)
    assert sorted(holding(words, "unheard_of")) == ["a.py", "b.py"]


def test_a_file_written_twice_within_a_stamp_is_read_twice(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folder_words, "file_stamp", lambda _path: FileStamp(0, 10, time.time_ns(), 1))
    monkeypatch.setattr(folder_words, "_number", lambda _stamp: 1)
    words = looked(root)
    (root / "two.py").write_text("unheard_of = 1\n")
    words.changed([root / "two.py"])
    assert words.wait_idle(60)
    assert holding(words, "unheard_of") == ["two.py"]


def test_too_much_that_is_told_has_everything_looked_at(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folder_words, "MAX_CHANGES", 3)
    words = looked(root)
    (root / "new.py").write_text("unheard_of = 1\n")
    words.changed(root / f"gone{number}.py" for number in range(4))
    assert words.wait_idle(60)
    assert "new.py" in words.index
    assert not words._files


def test_what_is_told_during_a_look_is_not_lost(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    reading, entered, go = ReadingRules.read_text, threading.Event(), threading.Event()

    def slow(rules: ReadingRules, path: Path) -> str | ExclusionReason:
        text = reading(rules, path)
        entered.set()
        assert go.wait(60)
        return text

    monkeypatch.setattr(ReadingRules, "read_text", slow)
    words = FolderWords(root, rules_of(root), Clock())
    words.follow(words.rules)
    assert entered.wait(60)
    for name in (".gitignore", "src/one.py", "two.py", "new.py"):
        (root / name).write_text("unheard_of = 12345\n")
    words.changed([root / "two.py", root / "src/one.py", root / "new.py", root / ".gitignore"])
    other = rules_of(root)
    words.follow(other)
    go.set()
    assert words.wait_idle(60)
    assert sorted(holding(words, "unheard_of")) == [".gitignore", "new.py", "src/one.py", "two.py"]
    assert words._looked_by is other


def test_a_change_after_a_look_is_waited_for(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    words, has_work, late = looked(root), FolderWords._has_work, root / "late.py"

    def end(self: FolderWords) -> bool:
        more = has_work(self)
        if not more and not late.exists():
            late.write_text("late = 1\n", encoding="utf-8")
            self.changed([late])
        return more

    monkeypatch.setattr(FolderWords, "_has_work", end)
    words.changed([root / "a.py"])
    assert words.wait_idle(60)
    assert holding(words, "late") == ["late.py"]


def test_a_watched_folder_is_rarely_scanned(root: Path) -> None:
    clock = Clock()
    words = looked(root, clock)
    words._spent_s = 0.0
    (root / "new.py").write_text("unheard_of = 1\n")
    for now, reported, known in ((61.0, True, False), (599.0, True, False), (601.0, True, True)):
        clock.now = now
        words.follow(words.rules, reported=reported)
        assert words.wait_idle(60)
        assert ("new.py" in words.index) is known
    (root / "new.py").unlink()
    clock.now += 61.0 + 100 * words._spent_s
    words.follow(words.rules)
    assert words.wait_idle(60)
    assert "new.py" not in words.index


def test_the_folder_is_looked_through_again_after_a_while(root: Path) -> None:
    clock = Clock()
    words = looked(root, clock)
    (root / "new.py").write_text("unheard_of = 1\n")
    (root / "src/one.py").unlink()
    words.follow(words.rules)
    assert words.wait_idle(60)
    assert holding(words, "unheard_of") == []
    clock.now += folder_words.LEAST_BETWEEN_S + 1e6
    words.follow(words.rules)
    assert words.wait_idle(60)
    assert holding(words, "unheard_of") == ["new.py"]
    assert "src/one.py" not in words.index


def test_other_rules_are_followed_at_once(root: Path) -> None:
    words = looked(root)
    words.follow(ReadingRules((root,), Settings(read_exclude=("src/",))))
    assert words.wait_idle(60)
    assert "src/one.py" not in words.index
    assert "two.py" in words.index


def test_texts_held_are_bounded(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folder_words, "MOST_HELD", 60)
    words = looked(root)
    for number in range(5):
        (root / f"more_{number}.py").write_text(f"value_{number} = {number}\n" * 2)
        assert at_once(words.load(f"more_{number}.py")) is not None
    assert sum(len(file.text) for _, file in words._held.values()) <= 60
    assert list(words._held)[-1] == "more_4.py"


def test_a_file_with_a_private_key_is_left_alone(root: Path) -> None:
    """A piece of it, far below the line that begins the key, would not tell what it is."""
    key = "\n".join(["-----BEGIN RSA PRIVATE KEY-----", *["plantedline" * 5] * 40, "-----END RSA PRIVATE KEY-----"])
    (root / "keys.py").write_text(f'before = 1\nKEY = """{key}"""\nafter = 2\n')
    words = looked(root)
    loaded = at_once(words.load("keys.py"))
    assert (loaded and loaded.text) == ""
    assert "keys.py" not in holding(words, "before after KEY")
    (root / "keys.py").write_text("before = 1\n")
    again = at_once(words.load("keys.py"))
    assert (again and again.text) == "before = 1\n"


def test_of_a_long_file_the_beginning_is_looked_at(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folder_words, "MOST_INDEXED", 40)
    (root / "long.py").write_text("".join(f"name_{number} = {number}\n" for number in range(100)))
    words = looked(root)
    loaded = at_once(words.load("long.py"))
    assert (loaded and loaded.text) == "name_0 = 0\nname_1 = 1\nname_2 = 2\n"
    assert holding(words, "name_1") == ["long.py"]
    assert "long.py" not in words.index.best(words.terms.of("name_90")[:1], 9)


def test_a_mistake_ends_the_following_and_no_more(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    words = FolderWords(root, rules_of(root))

    def broken(_key: str, _terms: object) -> bool:
        raise ValueError

    monkeypatch.setattr(words.index, "put", broken)
    words.follow(words.rules)
    assert words.wait_idle(60)
    words.follow(words.rules)
    assert words._thread is None
    assert at_once(words.load("two.py")) is not None


def test_a_start_reads_what_has_changed_alone(root: Path, kept: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kept_at(root, kept)
    if sys.platform != "win32":
        assert kept.stat().st_mode & 0o077 == 0
    read: list[str] = []
    reading = ReadingRules.read_text

    def told(rules: ReadingRules, path: Path) -> str | ExclusionReason:
        read.append(path.name)
        return reading(rules, path)

    monkeypatch.setattr(ReadingRules, "read_text", told)
    again = kept_at(root, kept)
    assert read == []
    assert holding(again, "first_thing") == ["src/one.py", "two.py"]
    (root / "two.py").write_text("unheard_of = 1\n")
    (root / "new.py").write_text("unheard_of = 2\n")
    (root / ".gitignore").write_text("ignored.py\none.py\n")
    third = kept_at(root, kept)
    assert sorted(read) == [".gitignore", "new.py", "two.py"]
    assert sorted(holding(third, "unheard_of")) == ["new.py", "two.py"]
    assert "src/one.py" not in third.index
    assert sorted(kept_at(root, kept).index.known()) == sorted(third.index.known())


def test_little_that_changed_is_not_worth_writing(root: Path, kept: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folder_words, "WORTH_KEEPING", 0.9)
    kept_at(root, kept)
    before = kept.read_bytes()
    (root / "two.py").write_text("unheard_of = 1\n")
    for _ in range(2):
        assert holding(kept_at(root, kept), "unheard_of") == ["two.py"]
        assert kept.read_bytes() == before


def test_a_long_look_is_kept_as_it_goes(root: Path, kept: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monitored = list[int]()
    monkeypatch.setattr(folder_words, "KEPT_AFTER", 1)
    writing = word_index.write

    def told(path: Path, words: StoredWords) -> None:
        monitored.append(len(words.keys))
        writing(path, words)

    monkeypatch.setattr(word_index, "write", told)
    kept_at(root, kept)
    assert monitored == [1, 2, 3], "the ignore file is one of them"


def _cut(content: bytes) -> bytes:
    return content[:-3]


def _altered(content: bytes) -> bytes:
    return content[:70] + bytes([content[70] ^ 1]) + content[71:]


def _older(content: bytes) -> bytes:
    return content[:8] + bytes(8) + content[16:]


@pytest.mark.parametrize("damage", [_cut, _altered, _older, lambda _content: b"", lambda _content: b"FCLSPWRD" * 9])
def test_what_is_damaged_is_made_anew(root: Path, kept: Path, damage: Callable[[bytes], bytes]) -> None:
    kept_at(root, kept)
    whole = kept.read_bytes()
    kept.write_bytes(damage(whole))
    assert holding(kept_at(root, kept), "first_thing") == ["src/one.py", "two.py"]
    assert kept.read_bytes() == whole


def test_a_disk_that_refuses_is_asked_once(root: Path, kept: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Path] = []

    def refused(path: Path, _words: object) -> None:
        asked.append(path)
        raise OSError(28, "no space")

    monkeypatch.setattr(word_index, "write", refused)
    words = kept_at(root, kept)
    (root / "new.py").write_text("unheard_of = 1\n")
    words.follow(rules_of(root))
    assert words.wait_idle(60)
    assert len(asked) == 1
    assert holding(words, "unheard_of") == ["new.py"]
