"""The replay of a history against a made-up server in simulated time: keys, rhythm, Tab, and every edit and request."""

import asyncio
import contextlib
import random
import tempfile
from collections.abc import Coroutine, Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks import typist as hands
from benchmarks.datasets.histories import RecordedEdit, Save, Step, apply
from benchmarks.typist import TAB, Accepter, Subset, keys_of
from benchmarks.typist.replay import Editor, Replay
from fastcoder_lsp.client.client import LanguageClient, ReceivedSuggestion

COUNTS = ("steps", "tokens", "prefilled", "adopted", "background", "ahead", "budgeted", "budgeted_empty")
STATS: Mapping[str, Any] = {"requests": dict.fromkeys(COUNTS, 0), "accepted_by_source": {}, "suppressed": {}}


class MadeUpTime(asyncio.SelectorEventLoop):
    """An event loop that never waits: when nothing is to do, it is later."""

    def __init__(self) -> None:
        super().__init__()
        self._is = 0.0

    def time(self) -> float:
        return self._is

    def _run_once(self) -> None:
        if not self._ready and self._scheduled:  # type: ignore[attr-defined]
            self._is = max(self._is, self._scheduled[0]._when)  # type: ignore[attr-defined]
        super()._run_once()  # type: ignore[misc]


class MadeUpServer(LanguageClient):
    """Keeps its own copies; suggests what `says` does for (text, offset), `seconds` after it was asked."""

    def __init__(self, says: Any, seconds: float) -> None:
        super().__init__(lambda _: None, lambda _: None, lambda _: None)
        self.says, self.seconds = says, seconds
        self.copies: dict[str, str] = {}
        self.versions: list[int] = []
        self.cancelled = self.answered = self.told_accepts = self.asked_edits = 0

    def open(self, uri: str, language: str, version: int, text: str) -> None:
        self.copies[uri] = text
        self.versions.append(version)

    def edit(self, uri: str, version: int, before: str, start: int, end: int, text: str) -> None:
        assert self.copies[uri] == before
        self.copies[uri] = before[:start] + text + before[end:]
        self.versions.append(version)

    def save(self, uri: str) -> None:
        assert uri in self.copies

    def close(self, uri: str) -> None:
        del self.copies[uri]

    async def suggest(self, uri: str, text: str, offset: int, *, invoked: bool) -> ReceivedSuggestion | None:
        assert not invoked
        assert self.copies[uri] == text
        try:
            await asyncio.sleep(self.seconds)
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        self.answered += 1
        said = self.says(text, offset)
        return ReceivedSuggestion(said, offset, offset) if said else None

    async def next_edits(self, uri: str, version: int, text: str, offset: int) -> list[Mapping[str, Any]]:
        assert (self.copies[uri], self.versions[-1]) == (text, version)
        self.asked_edits += 1
        return [{}]

    async def accepted(self, suggestion: ReceivedSuggestion) -> None:
        self.told_accepts += 1

    async def stats(self) -> Mapping[str, Any]:
        return STATS


def replayed(
    server: MadeUpServer,
    files: dict[str, str],
    subset: Subset,
    speed: float = 5.0,
    taker: Accepter = TAB,
    *,
    edits: bool = False,
) -> Replay:
    """Type `subset`; afterwards the server's copies and, where saved, the disk hold what the history has."""

    async def type_() -> Replay:
        editor = Editor(server, root, dict(files))
        typist = Replay(server, editor, {}, speed=speed, seed=1, taker=taker, edits=edits)
        await typist.type(subset)
        expected = dict(files)
        for step in subset.steps:
            apply(expected, step)
        for path, text in expected.items():
            assert editor.text(path) == text
            assert server.copies.get(editor.uri(path), text) == text
        assert {server_path(uri) for uri in server.copies} <= expected.keys()
        return typist

    def server_path(uri: str) -> str:
        return uri.removeprefix(root.as_uri() + "/")

    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder).resolve()
        return run(type_())


def run(doing: Coroutine[Any, Any, Replay]) -> Replay:
    with contextlib.closing(MadeUpTime()) as loop:
        return loop.run_until_complete(doing)


def whole(steps: list[Step]) -> Subset:
    typed = frozenset(place for place, step in enumerate(steps) if isinstance(step, RecordedEdit) and step.typed)
    return Subset(tuple(steps), typed, len(typed), 0)


@st.composite
def histories(draw: st.DrawFn) -> Subset:
    tree, steps = {"a.py": "x = 1\ny = 2\n", "b.py": ""}, list[Step]()
    for _ in range(draw(st.integers(1, 5))):
        path = draw(st.sampled_from(["a.py", "b.py"]))
        lines = draw(st.lists(st.text("ab =(\t ", max_size=8), min_size=1, max_size=3))
        ends = [0, *(place + 1 for place, letter in enumerate(tree[path]) if letter == "\n")]
        at = draw(st.sampled_from(ends))
        delete = draw(st.sampled_from([end for end in ends if end >= at])) - at
        steps.append(RecordedEdit(path, at, delete, "".join(line + "\n" for line in lines), typed=draw(st.booleans())))
        apply(tree, steps[-1])
        if draw(st.booleans()):
            steps.append(Save(path))
    return whole(steps)


@given(histories(), st.sampled_from([0.01, 0.15, 3.0]), st.sampled_from([5.0, 10.0]), st.integers())
def test_a_replay_gives_exactly_the_histories_text(subset: Subset, seconds: float, speed: float, seed: int) -> None:
    chance = random.Random(seed)

    def says(text: str, offset: int) -> str:
        return chance.choice(["", "a", "ab = (", "a b\n  ", "b", text[:5]])

    server = MadeUpServer(says, seconds)
    account = replayed(server, {"a.py": "x = 1\ny = 2\n", "b.py": ""}, subset, speed)
    strokes = sum(len(keys_of(step)) for step in subset.typed_steps().values())
    assert account.typed + account.saved == strokes
    assert server.versions == sorted(set(server.versions))
    assert server.told_accepts == account.accepts
    outcomes = [request.outcome for request in account.requests]
    assert outcomes.count("cancelled") == server.cancelled
    assert len(outcomes) - outcomes.count("cancelled") == server.answered


@pytest.mark.parametrize(
    ("suggestion", "coming", "taken"),
    [
        ("value", "value", "value"),
        ("value)", "value)", "value)"),
        ("value = 1", "value = 2", "value = "),
        ("value", "values", ""),
        ("values", "value", ""),
        ("value, other", "value, another", "value, "),
        ("urn x", "urn y", "urn "),
        ("):", "):", ""),
        ("):\n    return", "):\n    return", "):\n    return"),
        ("x\n  y", "x\n    y", "x"),
        ("x\n    y", "x\n", "x\n"),
        ("", "x", ""),
        ("x", "", ""),
        ("x = 1\n\nmore", "x = 1", "x = 1"),
    ],
)
def test_what_tab_brings_in(suggestion: str, coming: str, taken: str) -> None:
    """Whole words and whole keys that agree with what comes next, and at least one word; else it is not pressed."""
    keys = hands.keys("#" + coming)[1:]
    count = hands.accepted_keys(suggestion, keys)
    assert "".join(keys[:count]) == taken


@pytest.mark.parametrize(
    ("suggestion", "coming", "taken"),
    [
        ("value", "value", "value"),
        ("value + wrong", "value + 1", ""),
        ("value)", "value", ""),
        ("value", "value + 1", "value"),
        ("value \nwrong", "value\nother", "value"),
        ("value\nmore\n", "value\nmore\nlast", "value\nmore"),
        ("a\n    bc", "a\n    bcd", "a\n    bc"),
        ("abc\n  ", "abc\n    d", "abc"),
        ("):", "):", ""),
        ("", "value", ""),
        ("value", "", ""),
    ],
)
def test_what_a_strict_taker_takes(suggestion: str, coming: str, taken: str) -> None:
    keys = hands.keys("#" + coming)[1:]
    assert "".join(keys[: hands.strictly_accepted_keys(suggestion, keys)]) == taken
