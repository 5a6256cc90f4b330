"""`bench leisure`: where is asked, and what the places come to; on made-up values."""

import contextlib
from pathlib import Path

import pytest

from benchmarks.datasets import histories
from benchmarks.leisure import PlaceResult, ShownTexts, ask, choose, summed
from benchmarks.server import SERVER, server_command
from fastcoder_lsp.client.client import LanguageClient, ReceivedSuggestion
from fastcoder_lsp.errors import UsageError
from tests.bench.keystroke.test_typist import MadeUpTime

TREE = {
    "a.py": "".join(f"value_{number} = compute(first, second_{number})\n" for number in range(80)),
    "short.py": "x = 1\n",
    "notes.md": "words " * 1000,
}


def test_a_place_is_a_line_without_its_rest() -> None:
    """The rest put back gives the file; the same seed asks at the same places."""
    places = choose(TREE, 20, 5)
    assert places == choose(TREE, 20, 5) != choose(TREE, 20, 6)
    for place in places:
        assert (place.path, place.language) == ("a.py", "python")
        assert place.text[: place.offset] + place.rest + place.text[place.offset :] == TREE["a.py"]
        assert place.text[place.offset - 1] == " "
        assert place.rest.startswith("second_")
        assert place.text[place.offset] == "\n"
    with pytest.raises(UsageError):
        choose({"notes.md": TREE["notes.md"]}, 1, 5)


def test_the_figures_of_some_places() -> None:
    """First lines count, without blanks at their end; nothing agrees with nothing."""
    right = PlaceResult("a.py", 3, "foo()", "foo() \nmore", 1.0, "foo()", "foo()\nother")
    wrong = PlaceResult("a.py", 3, "foo()", "bar", 3.0, "bar", "foo()")
    empty = PlaceResult("a.py", 3, "foo()", "", 6.0, "", "")
    assert summed([right, wrong, empty, wrong]) == {"places": 4, "exact": 1, "empty": 1, "median_s": 3.0, "parity": 0.5}
    assert right.to_json()["exact"] is True


@pytest.mark.parametrize(
    ("texts", "found"),
    [
        (["one", "two"], ShownTexts("one", 0.0, "two")),
        (["", "", "late", "two"], ShownTexts("late", 2.0, "two")),
        ([""] * 8, ShownTexts("", 6.0, "")),
    ],
)
def test_a_place_is_asked_until_it_shows_a_text_and_after_a_rest(texts: list[str], found: ShownTexts) -> None:
    """In a time that is made up: once a second, and no longer than six; the file is closed again."""
    said = iter(texts)
    told: list[str] = []

    class Server(LanguageClient):
        def open(self, uri: str, language: str, version: int, text: str) -> None:
            told.append("open")

        def close(self, uri: str) -> None:
            told.append("close")

        async def suggest(self, uri: str, text: str, offset: int, *, invoked: bool) -> ReceivedSuggestion | None:
            assert invoked
            answer = next(said)
            return ReceivedSuggestion(answer, offset, offset) if answer else None

    client = Server(lambda _: None, lambda _: None, lambda _: None)
    with contextlib.closing(MadeUpTime()) as loop:
        assert loop.run_until_complete(ask(client, "file:///a.py", choose(TREE, 1, 5)[0], 1, 2.0)) == found
    assert next(said, None) is None
    assert told == ["open", "close"]


def test_another_server_and_an_archive_are_named() -> None:
    """A program by its path is looked for where the command was typed; an archive names its history."""
    here = Path("/work")
    assert server_command(None, here) == SERVER
    assert server_command("old/bin/fastcoder-lsp serve", here) == ("/work/old/bin/fastcoder-lsp", "serve")
    assert server_command("'/a b/server' -x", here) == ("/a b/server", "-x")
    assert server_command("fastcoder-lsp serve", here) == ("fastcoder-lsp", "serve")
    with pytest.raises(UsageError):
        server_command(" ", here)
    assert histories.named(here / "svcs.base.tar.gz") == histories.named(here / "svcs") == (here, "svcs")
