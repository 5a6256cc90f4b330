"""How much code of other files goes along, which places count as recent, and what somebody copied."""

from dataclasses import replace
from pathlib import Path

import pytest

from fastcoder_lsp.config import Settings
from fastcoder_lsp.core import Snapshot, Yank, at_once
from fastcoder_lsp.prompt import ContextSnippet, PromptBuilder, PromptOptions
from fastcoder_lsp.runtime.context import (
    MOST_AHEAD,
    RECENT_PLACES,
    VISITED_PLACES,
    ReadableFolder,
    RecentPlaces,
    RepositoryContext,
)
from fastcoder_lsp.runtime.costs import (
    BESIDE_MS,
    CONTEXT_TOKENS,
    LATER_MS,
    LEAST_TOKENS,
    context_tokens,
    prompt_options,
)
from fastcoder_lsp.workspace.document import Document
from fastcoder_lsp.workspace.documents import MAX_YANK_CHARACTERS, yank_of
from fastcoder_lsp.workspace.rules import ReadingRules
from tests.prompt.toy_tokenizers import of_family
from tests.runtime.context_folder import USE, edited, finder, found_at, main


@pytest.mark.parametrize("prefill_ms", [0.01, 1.0, 50.0])
def test_yes_and_no_hold_at_any_speed(prefill_ms: float) -> None:
    assert context_tokens(True, prefill_ms) == CONTEXT_TOKENS
    assert context_tokens(False, prefill_ms) == 0


def test_half_of_a_small_memory_is_the_documents() -> None:
    """The least that the setting `context_tokens` allows included: a prompt that does not fit is answered by nobody."""
    for room in (-512, 0, 384, 896, 1200, 4000):
        told = context_tokens(True, 1.0, room)
        assert told <= max(prompt_options(told, room).limit - told, 0)
    assert [context_tokens(True, 1.0, room) for room in (384, 1200, 4000)] == [192, 600, 600]
    assert [context_tokens("auto", 0.1, room) for room in (384, 896, 4000)] == [0, 448, 600]


@pytest.mark.parametrize("told", [0, 192])
def test_a_prompt_fits_a_small_memory_however_much_is_typed(told: int) -> None:
    """Without a pause: the anchor moves before it is full. In a large memory what is typed has the room it had."""
    builder = PromptBuilder(of_family("Qwen2.5-Coder"), prompt_options(told, 384))
    text, typed = "def shared(left, right):\n    return left + right\n" * 100, "    value = compute(left, right)\n" * 30
    at, longest = text.index("\n", len(text) // 2) + 1, 0
    for end in range(1, len(typed), 7):
        now = Snapshot("file:///a.py", "/a.py", "python", end, text[:at] + typed[:end] + "\n" + text[at:])
        longest = max(longest, len(at_once(builder.build(now, at + end)).tokens))
    assert 200 < longest + told <= 384 + 20
    assert prompt_options(0, 3968) == PromptOptions(limit=1400)
    assert prompt_options(600, 3968) == PromptOptions(limit=2000, context_tokens=600)


def test_auto_takes_context_that_is_read_in_1_5_seconds() -> None:
    told = [context_tokens("auto", prefill_ms) for prefill_ms in (0.02, 0.56, 0.99, 2.5, 3.0, 4.9, 5.1, 1e9)]
    assert told == [600, 600, 600, 600, 500, 306, 0, 0]
    for tenth in range(1, 60):
        room = context_tokens("auto", tenth / 10)
        assert room == 0 or LEAST_TOKENS <= room <= CONTEXT_TOKENS
        assert room * tenth / 10 <= BESIDE_MS


def test_with_one_cache_auto_takes_what_is_read_between_two_keys() -> None:
    told = [context_tokens("auto", prefill_ms, within_ms=LATER_MS) for prefill_ms in (0.02, 0.3, 0.5, 0.56, 0.67, 2.0)]
    assert told == [600, 600, 400, 357, 0, 0]


def test_a_first_prompt_waits_for_what_is_read_between_two_keys() -> None:
    """As it always did on a GPU; elsewhere who types on gets a first text without other code."""
    assert [prompt_options(600, 3968, prefill_ms).context_later for prefill_ms in (0.0, 0.3, 0.4)] == [
        False,
        False,
        True,
    ]
    assert not prompt_options(0, 3968, 5.0).context_later


TEXT = "".join(f"line_{number} = {number}\n" for number in range(200))


def at(line: int) -> int:
    return TEXT.index(f"line_{line} =")


def test_edits_come_first_and_no_place_twice() -> None:
    recent = RecentPlaces()
    recent.visit("b", "/b.py", TEXT, at(100))
    recent.visit("a", "/a.py", TEXT, at(30))
    recent.visit("a", "/a.py", TEXT, at(90))
    recent.observe("a", "/a.py", TEXT)
    recent.observe("a", "/a.py", TEXT.replace("line_30 = 30", "line_30 = 0"))
    found = recent.places("c")
    assert [one.source for one in found] == ["/a.py", "/a.py", "/b.py"]
    assert "line_30 = 0" in found[0].text
    assert "line_90 =" in found[1].text
    assert "line_100 =" in found[2].text
    assert found[2].line == 95
    assert [one.source for one in recent.places("a")] == ["/b.py"]
    assert all(one.score == 0 for one in found), "what is like the code at the cursor goes before"


def test_the_latest_ones_are_kept() -> None:
    recent = RecentPlaces()
    for number in range(100):
        recent.visit(f"v{number}", f"/v{number}.py", TEXT, at(50))
        for version in range(2):
            recent.observe(f"e{number}", f"/e{number}.py", f"x = {version}\n{TEXT}")
    names = [one.path for one in recent.places("")]
    assert names == [*(f"e{99 - number}.py" for number in range(RECENT_PLACES)), "v99.py", "v98.py"]
    assert len(recent._visited) == 2 * VISITED_PLACES
    assert len(recent._edited) == 2 * RECENT_PLACES


def test_keys_blanks_and_data_are_no_places() -> None:
    recent = RecentPlaces()
    for text in ("x = 1\n-----BEGIN PRIVATE KEY-----\n", "\n" * 40, "x" * (MAX_YANK_CHARACTERS + 1)):
        recent.visit("a", "/a.py", text, 0)
        recent.observe("b", "/b.py", text)
        recent.observe("b", "/b.py", f"y{text}" if text.strip() else f"\n{text}")
    assert recent.places("") == ()


def test_larger_models_get_what_this_machine_reads_in_time() -> None:
    rows = [(limit, told, later) for ms in (0.7, 2.5, 4.0, 12.5) for limit, told, later in [budgets(ms)]]
    assert rows == [(2000, 600, True), (2000, 600, True), (1775, 375, True), (800, 0, False)]


def budgets(prefill_ms: float) -> tuple[int, int, bool]:
    options = prompt_options(context_tokens("auto", prefill_ms), 3968, prefill_ms)
    return options.limit, options.context_tokens, options.context_later


PLANTED = "planted_9f3a"
CODE = "def helper(count):\n    total = count + 1\n    return total"


def with_yanks(root: Path, *yanks: Yank, text: str = USE) -> Snapshot:
    """The document that is typed in, after these were copied, the newest first."""
    return replace(main(root, text), yanks=yanks)


def found(context: RepositoryContext, here: Snapshot) -> list[ContextSnippet]:
    return list(found_at(context, here, len(here.text)))


def shown(context: RepositoryContext, here: Snapshot) -> str:
    return "\n".join(one.text for one in found(context, here))


def test_the_newest_first_before_other_places(root: Path) -> None:
    context, other = finder(root), root / "src/app/other.py"
    edited(other, context, "edited_there = 1")
    yanks = Yank(str(other), 70, CODE), Yank(str(other), 90, "older = 1")
    pieces = found(context, with_yanks(root, *yanks))
    assert pieces[0].path == "src/app/store.py"
    assert [one.text for one in pieces[1:3]] == [CODE, "older = 1"]
    assert (pieces[1].path, pieces[1].source, pieces[1].line) == ("other.py", str(other), 71)
    assert "edited_there" in pieces[3].text


def crowded(root: Path) -> None:
    """So many files that are like the code at the cursor that there is no room left."""
    for number in range(9):
        (root / f"src/app/like_{number}.py").write_text(f"store = Store()\nstore.put({number})\n" * 8)


def test_a_short_one_that_was_just_copied_stands_behind_the_best(root: Path) -> None:
    """Not behind all that is like the code at the cursor: little of that has room in a prompt."""
    crowded(root)
    other = str(root / "src/app/other.py")
    long = "\n".join(f"value_{number} = {number}" for number in range(60))
    assert len(long) > MOST_AHEAD
    pieces = found(finder(root), with_yanks(root, Yank(other, 70, CODE), Yank(other, 90, "older = 1")))
    texts = [one.text for one in sorted(pieces, key=lambda one: -one.score)]
    assert texts.index(CODE) == 1
    assert texts.index("older = 1") > 5
    pieces = found(finder(root), with_yanks(root, Yank(other, 0, long), Yank(other, 90, "older = 1")))
    assert [one.text for one in pieces].index(long) > 5
    assert found(finder(root), with_yanks(root, Yank(other, 70, CODE), text="zzzz = "))[0].text == CODE


def test_a_piece_that_holds_the_copied_text_moves_up(root: Path) -> None:
    crowded(root)
    before = found(finder(root), main(root))
    last = before[-1]
    yank = Yank(last.source, last.line, last.text.split("\n")[1])
    after = found(finder(root), with_yanks(root, yank))
    assert [one.text for one in after] == [one.text for one in (before[0], last, *before[1:-1])]
    best = Yank(before[0].source, 0, before[0].text.split("\n")[0])
    assert found(finder(root), with_yanks(root, best)) == before


def test_what_was_just_copied_is_worth_an_exchange_once(root: Path) -> None:
    other = root / "src/app/other.py"
    context, plain, end = finder(root), main(root), (0, len(USE))
    kept = at_once(context.find(plain, len(USE), end))
    assert at_once(context.find(plain, len(USE), end, kept)) is kept
    here = with_yanks(root, Yank(str(other), 70, CODE))
    new = at_once(context.find(here, len(USE), end, kept))
    assert CODE in [one.text for one in new.snippets]
    without = replace(new, snippets=tuple(one for one in new.snippets if one.text != CODE))
    for shown in (new, without):
        assert at_once(context.find(here, len(USE), end, shown)) is shown
        assert at_once(context.find(plain, len(USE), end, shown)) is shown
    put_in = with_yanks(root, Yank(str(other), 70, CODE), text=f"{CODE}\n\n{USE}")
    assert at_once(context.find(put_in, len(put_in.text), (0, len(put_in.text)), kept)) is kept
    (root / ".fastcoderignore").write_text("other.py\n")
    assert at_once(context.find(here, len(USE), end, kept)) is kept


def test_not_beside_code_that_holds_it(root: Path) -> None:
    other, store = root / "src/app/other.py", root / "src/app/store.py"
    deeper = "\n".join(f"    {line}" for line in CODE.split("\n"))
    for text in (f"{CODE}\n\nhelper(", f"class Of:\n{deeper}\n\n    x = helper("):
        assert "total = count" not in shown(finder(root), with_yanks(root, Yank(str(other), 0, CODE), text=text))
    own = with_yanks(root, Yank(str(root / "src/app/main.py"), 0, CODE))
    assert CODE not in shown(finder(root), own)
    same = found(finder(root), with_yanks(root, Yank(str(store), 1, "    def put(self, key: str) -> None:")))
    assert sum("def put" in one.text for one in same) == 1


def test_rules_hold_when_it_is_shown(root: Path) -> None:
    other = root / "src/app/other.py"
    context, here = finder(root), with_yanks(root, Yank(str(other), 0, CODE))
    pieces = found(context, here)
    assert CODE in [one.text for one in pieces]
    (root / ".fastcoderignore").write_text("other.py\n")
    assert not context.may_show([one.source for one in pieces])
    assert "def helper" not in shown(context, here)
    (root / ".fastcoderignore").unlink()
    assert "def helper" in shown(finder(root), here)
    other.rename(root / "src/app/renamed.py")
    assert "def helper" not in shown(finder(root), here)


def test_a_folder_within_the_folder_has_its_own_say(root: Path) -> None:
    inner = root / "inner"
    inner.mkdir()
    (inner / "a.py").write_text(CODE)
    outer = ReadableFolder(root, ReadingRules((root, inner), Settings()))
    here = with_yanks(root, Yank(str(inner / "a.py"), 0, CODE))
    for settings in (None, Settings(read_exclude=("a.py",)), Settings()):
        own = None if settings is None else ReadableFolder(inner, ReadingRules((root, inner), settings))
        of = lambda path, own=own: own if path.is_relative_to(inner) else outer  # noqa: E731
        assert (CODE in shown(RepositoryContext(of, dict, 60.0), here)) == (settings == Settings())


SECRET = f"def vault():\n    return '{PLANTED}'"


@pytest.mark.parametrize(
    "name",
    [
        *("src/app/hidden.py", ".env", ".env.py", "secrets.py", ".git/vault.py", "node_modules/a.py", "none.py"),
        *("../outside.py", "src/../../outside.py", "src/app/link.py", "src/app/up/outside.py", "src/app", "."),
    ],
)
def test_a_copy_from_an_unreadable_file_is_not_shown(root: Path, name: str) -> None:
    outside = root.parent / "outside.py"
    for path in (outside, root / ".env", root / ".env.py", root / "secrets.py", root / ".git/vault.py"):
        path.parent.mkdir(exist_ok=True)
        path.write_text(SECRET)
    (root / "node_modules").mkdir()
    (root / "node_modules/a.py").write_text(SECRET)
    (root / ".fastcoderignore").write_text("secrets.py\n")
    (root / "src/app/link.py").symlink_to(outside)
    (root / "src/app/up").symlink_to(root.parent)
    assert PLANTED not in shown(finder(root), with_yanks(root, Yank(f"{root}/{name}", 0, SECRET)))


@pytest.mark.parametrize("path", ["", "relative.py", "/etc/passwd", "/proc/self/environ", "/"])
def test_paths_outside_all_folders_show_nothing(root: Path, path: str) -> None:
    assert PLANTED not in shown(finder(root), with_yanks(root, Yank(path, 0, SECRET)))


def test_no_part_of_a_secret_is_shown(root: Path) -> None:
    """Whichever letters of a document are copied: a line is judged whole, and a key's document shows nothing."""
    other = root / "src/app/other.py"
    key = "\n".join(["-----BEGIN PRIVATE KEY-----", *[f"{PLANTED}store"] * 8, "-----END PRIVATE KEY-----"])
    lines = f'size = 1\nDB_PASSWORD = "{PLANTED}"\nTOKENS = {{"api_token": "{PLANTED}"}}\nlast = 2\n'
    for text in (lines, f'{lines}KEY = """{key}"""\n', f"def of():\n    x = 1\n{key}\n"):
        document = Document(other.as_uri(), other, "python", 1, text)
        for first in range(text.count("\n") + 1):
            for last in range(first, text.count("\n") + 1):
                yank = yank_of(document, first, last)
                if yank is not None:
                    assert PLANTED not in shown(finder(root), with_yanks(root, yank))
    pasted = Document(other.as_uri(), other, "python", 1, lines)
    whole = yank_of(pasted, 0, 3)
    assert whole is not None
    text = shown(finder(root), with_yanks(root, whole))
    assert "size = 1\nlast = 2" in text
    assert PLANTED not in text


def test_a_host_believes_no_front(root: Path) -> None:
    """What is longer than a place may be, or a key, shows nothing though it was told."""
    other = str(root / "src/app/other.py")
    for text in (f"{PLANTED} = 1\n" * MAX_YANK_CHARACTERS, f"-----BEGIN PRIVATE KEY-----\n{PLANTED}", "\n \n", ""):
        pieces = found(finder(root), with_yanks(root, Yank(other, 0, text)))
        assert all(PLANTED not in one.text and one.text.strip() for one in pieces)
