"""The history of edits: grouping, undone changes, secrets, bounds."""

import time
from collections.abc import Callable, Sequence

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from fastcoder_lsp.core import Change
from fastcoder_lsp.core.bounds import MOST_CHANGES
from fastcoder_lsp.edits.history import MOST_AGE_MS, MOST_CHARACTERS, EditHistory
from fastcoder_lsp.workspace.secret_lines import judge_unfinished

URI = "file:///w/a.py"


def _python(_uri: str, above: str, lines: Sequence[str]) -> Sequence[bool]:
    return judge_unfinished(above, lines, "python")


class Typist:
    """Changes documents and notes it; each change comes `gap_ms` after the last one."""

    def __init__(self, may_read: Callable[[str], bool] = lambda _uri: True) -> None:
        self.history = EditHistory(may_read, _python)
        self.texts: dict[str, str] = {}
        self.now_ms = 0.0

    def put(self, after: str, *, uri: str = URI, gap_ms: float = 100, accepted: bool = False, folder: str = "") -> None:
        self.now_ms += gap_ms
        before, self.texts[uri] = self.texts.get(uri, ""), after
        path = uri.rpartition("/")[2]
        self.history.note(uri, path, before, after, self.now_ms, accepted=accepted, folder=folder)

    def change(self, old: str, new: str, *, gap_ms: float = 100, accepted: bool = False) -> None:
        assert self.texts[URI].count(old) == 1
        self.put(self.texts[URI].replace(old, new), gap_ms=gap_ms, accepted=accepted)

    def changes(self, folder: str = "") -> tuple[Change, ...]:
        return self.history.changes(self.now_ms, folder)


@pytest.fixture
def typist() -> Typist:
    typist = Typist()
    typist.texts[URI] = "".join(f"line {number};\n" for number in range(60))
    return typist


def test_keys_of_one_place_are_one_entry_of_whole_lines(typist: Typist) -> None:
    for key in "abc":
        typist.change("line 20;" + "abc"[: "abc".index(key)], "line 20;" + "abc"[: "abc".index(key) + 1])
    typist.change("line 27;", "line twenty-seven;")
    assert typist.changes() == (
        Change(
            "a.py",
            20,
            "".join(f"line {number};\n" for number in range(20, 28)),
            "line 20;abc\n" + "".join(f"line {number};\n" for number in range(21, 27)) + "line twenty-seven;\n",
            "line 17;\nline 18;\nline 19;\n",
            "line 28;\nline 29;\nline 30;\n",
        ),
    )


@pytest.mark.parametrize(
    ("second", "gap_ms", "accepted"),
    [("line 30;", 100, False), ("line 10;", 100, False), ("line 20x;", 1_000, False), ("line 21;", 100, True)],
    ids=["below", "above", "pause", "accepted"],
)
def test_what_begins_an_entry(typist: Typist, second: str, gap_ms: float, accepted: bool) -> None:
    typist.change("line 20;", "line 20x;")
    typist.change(second, "changed;", gap_ms=gap_ms, accepted=accepted)
    first, last = typist.changes()
    assert (first.old, first.new, first.accepted) == ("line 20;\n", "line 20x;\n", False)
    assert (last.old, last.new, last.accepted) == (f"{second}\n", "changed;\n", accepted)
    if not accepted:
        typist.put("other\n", uri="file:///w/b.py", gap_ms=100)
        typist.change("changed;", "again;")
        assert [change.path for change in typist.changes()] == ["a.py", "a.py", "b.py", "a.py"]


def test_one_change_of_many_places_is_an_entry_for_each(typist: Typist) -> None:
    typist.put(typist.texts[URI].replace("line 5;", "x\ny").replace("line 12;", "").replace("line 40;\n", ""))
    assert [(change.line, change.old, change.new) for change in typist.changes()] == [
        (
            5,
            "".join(f"line {n};\n" for n in range(5, 13)),
            "x\ny\n" + "".join(f"line {n};\n" for n in range(6, 12)) + "\n",
        ),
        (41, "line 40;\n", ""),
    ]


@pytest.mark.parametrize("gap_ms", [100, 2_000])
def test_undone_changes_are_forgotten(typist: Typist, gap_ms: float) -> None:
    typist.change("line 3;", "kept;")
    steps = ["line 20;d", "line 20;de", "line 20;def", "", "line 20;def\nx"]
    text = typist.texts[URI]
    states = [text] + [text.replace("line 20;", step) for step in steps]
    for state in (*states[1:], *states[-2::-1]):
        typist.put(state, gap_ms=gap_ms)
    assert [change.new for change in typist.changes()] == ["kept;\n"]


GAPS = st.lists(st.sampled_from([100.0, 2_000.0]), min_size=16, max_size=16)
REPEATED = st.lists(st.sampled_from(["a", "b", "", "c;"]), max_size=14).map("\n".join)
DISTINCT = st.lists(st.integers(0, 30).map(str), max_size=14, unique=True).map("\n".join)


@example(["a\n\na", "a\n", ""], [100.0] * 2)
@given(st.lists(REPEATED, min_size=2, max_size=8), GAPS)
def test_entries_lead_from_the_first_text_to_the_last(texts: list[str], gaps: list[float]) -> None:
    typist = Typist()
    typist.texts[URI] = texts[0]
    for text, gap_ms in zip(texts[1:], gaps, strict=False):
        typist.put(text, gap_ms=gap_ms)
    lines = texts[0].split("\n")
    for change in typist.changes():
        old, new = change.old.splitlines(), change.new.splitlines()
        assert lines[change.line : change.line + len(old)] == old
        lines[change.line : change.line + len(old)] = new
    assert "\n".join(lines) == texts[-1]


@given(st.lists(DISTINCT, min_size=2, max_size=8), GAPS)
def test_undoing_everything_leaves_nothing(texts: list[str], gaps: list[float]) -> None:
    typist = Typist()
    typist.texts[URI] = texts[0]
    for text, gap_ms in zip((*texts[1:], *texts[-2::-1]), gaps, strict=False):
        typist.put(text, gap_ms=gap_ms)
    assert typist.changes() == ()


SECRET = 'PASSWORD = "hunter2-Xk99q"'


def test_secret_lines_never_leave(typist: Typist) -> None:
    typist.put("import os\n\nx = 1\n")
    for end in range(1, len(SECRET) + 1):
        typist.put(f"import os\n{SECRET[:end]}\nx = 1\n", gap_ms=[100, 2_000][end % 5 == 0])
        assert not any(part in repr(typist.changes()) for part in ("hun", "Xk9")), SECRET[:end]
    typist.put(f"import os\n{SECRET}\nx = 2\ny = 3\n", gap_ms=2_000)
    assert (typist.changes()[-1].above, typist.changes()[-1].new) == ("import os\n", "x = 2\ny = 3\n")
    typist.put("import os\nPASSWORD = os.environ['P']\nx = 2\ny = 3\n", gap_ms=2_000)
    assert typist.changes()[-1].new == "x = 2\ny = 3\n"  # a replaced secret is no change of code


@pytest.mark.parametrize("length", [70, 100])
def test_lines_of_a_key_that_begins_above(typist: Typist, length: int) -> None:
    begins, ends = "KEY = '''-----BEGIN PRIVATE KEY-----", "-----END PRIVATE KEY-----'''"
    lines = ["x = 1", begins, *("A" * 64 for _ in range(length)), ends, "y = 1"]
    typist.texts[URI] = "\n".join(lines)
    for typed in range(1, 60):
        lines[length - 50] = "B" * typed
        typist.put("\n".join(lines))
    del lines[length - 40 : length - 20]
    typist.put("\n".join(lines), gap_ms=2_000)
    assert typist.changes() == ()
    typist.put("\n".join((*lines[:-1], "y = 2")), gap_ms=2_000)
    assert [(change.new, change.above, change.below) for change in typist.changes()[-1:]] == [("y = 2\n", "", "")]


def test_judging_changes_reads_little_of_a_large_document() -> None:
    """Whatever stands in it, and wherever the change is: at most the lines above it within reach."""
    read = list[int]()

    def counting(_uri: str, above: str, lines: Sequence[str]) -> Sequence[bool]:
        read.append(len(above) + sum(map(len, lines)))
        return judge_unfinished(above, lines, "python")

    history = EditHistory(lambda _uri: True, counting)
    for line in ("token(a, b)\n", "\n", "A" * 64 + "\n"):
        text = line * (900_000 // len(line))
        for place in (0, len(text) // 2, len(text)):
            history.note(URI, "a.py", text, f"{text[:place]}x = 1\n{text[place:]}", 0.0)
            history.changes(0.0)
            history.clear()
    assert max(read) <= 2 * MOST_CHARACTERS


def test_unreadable_files_and_changed_rules() -> None:
    allowed = {URI: True, "file:///w/.env": False}
    typist = Typist(allowed.__getitem__)
    typist.put("A=1\n", uri="file:///w/.env")
    typist.put("a = 1\n")
    assert [change.path for change in typist.changes()] == ["a.py"]
    allowed[URI] = False  # by an ignore file, of which nothing is told
    assert typist.changes() == ()
    typist.put("a = 2\n")
    allowed[URI] = True
    assert typist.changes() == ()
    typist.put("a = 3\n")
    assert [change.old for change in typist.changes()] == ["a = 2\n"]
    allowed[URI] = False
    typist.history.rules_changed()
    allowed[URI] = True
    assert typist.changes() == ()


def test_documents_and_folders() -> None:
    typist = Typist(lambda uri: not uri.endswith(".env"))
    for number, folder in enumerate(["one", "two", "two"]):
        typist.put("x\n", uri=f"file:///w/{number}.py", folder=folder)
    assert [change.path for change in typist.changes("two")] == ["1.py", "2.py"]
    typist.history.rename("file:///w/1.py", "file:///w/new.py", "new.py", "two")
    typist.history.forget("file:///w/2.py")
    assert [change.path for change in typist.changes("two")] == ["new.py"]
    assert typist.history.facts("file:///w/new.py", 0).modified
    assert not typist.history.facts("file:///w/2.py", 0).modified
    typist.history.rename("file:///w/new.py", "file:///w/.env", ".env", "two")
    assert typist.changes("two") == ()
    typist.now_ms += MOST_AGE_MS + 1
    assert typist.changes("one") == ()
    typist.history.clear()
    assert not typist.history.facts("file:///w/0.py", 0).modified


def test_hostile_changes_are_bounded() -> None:
    typist = Typist()
    for number in range(300):
        typist.put("x" * number + "\n" * number, uri=f"file:///w/{number}.py")
    for size in (MOST_CHARACTERS, 1_000_000, 5_000_000, 10):
        typist.put("y" * size)
    for number in range(300):  # places far apart
        typist.put("\n".join("z" if line == number * 10 else "" for line in range(3_000)), gap_ms=1)
    changes = typist.changes()
    assert len(changes) <= MOST_CHANGES
    assert all(len(change.old) + len(change.new) <= MOST_CHARACTERS for change in changes)
    assert all(len(change.above) + len(change.below) <= 5_000 for change in changes)


def test_a_key_in_a_long_file_costs_less_than_a_millisecond() -> None:
    """In CPU time: 100 copies of the text, 400 KB, take most of a millisecond."""
    typist = Typist()
    before = "".join(f"    value_{number} = compute({number})  # ok\n" for number in range(10_000))
    typist.texts[URI] = before
    states = [before.replace("value_5000 ", f"value_5000{'x' * count} ") for count in range(1, 201)]
    started = time.process_time()
    for state in states:
        typist.put(state)
    noted = time.process_time() - started
    started = time.process_time()
    for state in states:
        for _ in range(100):
            state.encode()
    assert noted < time.process_time() - started
