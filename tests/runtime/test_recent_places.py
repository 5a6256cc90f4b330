"""What is remembered of where somebody was."""

from fastcoder_lsp.runtime.context import RECENT_PLACES, VISITED_PLACES, RecentPlaces
from fastcoder_lsp.workspace.documents import MOST_LETTERS

TEXT = "".join(f"line_{number} = {number}\n" for number in range(200))


def at(line: int) -> int:
    return TEXT.index(f"line_{line} =")


def test_edits_come_first_and_no_place_twice() -> None:
    """Where somebody only was follows; what is edited there is told as an edit."""
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
    """However many there were."""
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
    for text in ("x = 1\n-----BEGIN PRIVATE KEY-----\n", "\n" * 40, "x" * (MOST_LETTERS + 1)):
        recent.visit("a", "/a.py", text, 0)
        recent.observe("b", "/b.py", text)
        recent.observe("b", "/b.py", f"y{text}" if text.strip() else f"\n{text}")
    assert recent.places("") == ()
