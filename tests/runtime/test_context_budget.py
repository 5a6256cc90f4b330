"""How much code of other files goes along, and which places count as recent."""

import pytest

from fastcoder_lsp.core import Snapshot
from fastcoder_lsp.prompt import PromptBuilder, PromptOptions
from fastcoder_lsp.runtime.context import RECENT_PLACES, VISITED_PLACES, RecentPlaces
from fastcoder_lsp.runtime.costs import (
    BESIDE_MS,
    CONTEXT_TOKENS,
    LATER_MS,
    LEAST_TOKENS,
    context_tokens,
    prompt_options,
)
from fastcoder_lsp.workspace.documents import MAX_YANK_CHARACTERS
from tests.prompt.toy_tokenizers import of_family


@pytest.mark.parametrize("prefill_ms", [0.01, 1.0, 50.0])
def test_who_says_yes_or_no_is_not_asked_by_the_machine(prefill_ms: float) -> None:
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
        longest = max(longest, len(builder.build(now, at + end).tokens))
    assert 200 < longest + told <= 384 + 20
    assert prompt_options(0, 3968) == PromptOptions(limit=1400)
    assert prompt_options(600, 3968) == PromptOptions(limit=2000, context_tokens=600)


def test_auto_takes_what_is_read_beside_within_a_second_and_a_half() -> None:
    told = [context_tokens("auto", prefill_ms) for prefill_ms in (0.02, 0.56, 0.99, 2.5, 3.0, 4.9, 5.1, 1e9)]
    assert told == [600, 600, 600, 600, 500, 306, 0, 0]
    for tenth in range(1, 60):
        room = context_tokens("auto", tenth / 10)
        assert room == 0 or LEAST_TOKENS <= room <= CONTEXT_TOKENS
        assert room * tenth / 10 <= BESIDE_MS


def test_where_one_cache_goes_round_auto_takes_what_is_read_between_two_keys() -> None:
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
