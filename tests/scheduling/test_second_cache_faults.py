"""Code prepared beside, whatever happens, and beside a text that takes all the time there is."""

import math
from functools import partial

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from fastcoder_lsp.completion.question import Policy
from fastcoder_lsp.prompt import ContextSnippet
from fastcoder_lsp.runtime.parts import DecodeLimits
from fastcoder_lsp.scheduling.budget import OWED_MS, PREPARING_MS
from tests.completion.simulated import SimulatedEngine
from tests.prompt.test_context import SECOND, SNIPPETS, Given
from tests.scheduling import typists
from tests.scheduling.typists import QWEN, Typist

SURPRISE = "q"
"""The model never says it: what was known before a key of it is good for nothing."""
LONG = ContextSnippet("lib/long.py", "def long():\n" + "    return [1, 2, 3, 4, 5]\n" * 28, 1.0, "/w/long.py")
OTHER = ContextSnippet("lib/other.py", "def other():\n    return 7\n" * 9, 2.0, "/w/other.py")
FOUND = [SNIPPETS, SECOND, (LONG,), (OTHER, LONG), (OTHER, *SNIPPETS), ()]
SOURCES = [frozenset(names) for names in ([], ["/w/long.py"], ["/w/other.py"], ["/w/long.py", "/w/other.py"])]
EVENTS = st.one_of(
    st.tuples(st.just("type"), st.sampled_from(["a", "    value = b(", "\n", "(a)\n\n", "x = 1\ny = 2\n"])),
    st.tuples(st.just("rest"), st.sampled_from([60.0, 400.0, 1500.0, 5000.0])),
    st.tuples(st.just("turns"), st.integers(1, 12)),
    st.tuples(st.just("find"), st.sampled_from(FOUND)),
    st.tuples(st.just("forbid"), st.sampled_from(SOURCES)),
    st.tuples(st.just("search"), st.integers(0, 30)),
    st.tuples(st.just("full"), st.booleans()),
    st.tuples(st.just("lose"), st.booleans()),
    st.tuples(st.just("go"), st.integers(0, 40)),
    st.tuples(st.just("below"), st.sampled_from(["\nz = 1\n", "\nz = 2\nw = 3\n", ")\n", ""])),
    st.tuples(st.just("close"), st.none()),
)


def do(one: Typist, event: str, how: object) -> None:
    """What somebody does at the document."""
    match event, how:
        case "type", str(text):
            one.type(text)
        case "go", int(line):
            whole = one.before + one.after
            at = len("\n".join(whole.split("\n")[:line]))
            one.before, one.after = whole[:at], whole[at:]
        case "below", str(text):
            one.after = text
        case "close", _:
            one.service.document_closed(one.uri)


def happen(one: Typist, event: str, how: object) -> None:
    """What happens otherwise: time, files that change or are forbidden, memory."""
    match event, how:
        case "rest", float(ms):
            one.rest(ms)
        case "turns", int(turns):
            for _ in range(turns):
                one.scheduler.turn()
        case "find", tuple(snippets):
            one.given.snippets = snippets
        case "forbid", frozenset(sources):
            one.given.forbidden = sources
        case "search", int(parts):
            one.given.parts, one.given.works = parts, partial(one.clock.passes, 4.0)
        case "full", bool(full):
            one.caches.full = full
        case "lose", bool(second):
            for slot in list((one.caches.spare if second else one.caches.engines).values()):
                slot.give_up()


@given(st.lists(st.lists(EVENTS, max_size=5), min_size=1, max_size=5))
@example(
    [  # a key would continue a prefill whose code was forbidden meanwhile
        [("type", "a"), ("find", SECOND), ("find", (OTHER, LONG)), ("type", "a"), ("type", "a")],
        [("type", "(a)\n\n")],
        [("close", None)],
        [("close", None), ("type", "a"), ("close", None), ("go", 29), ("turns", 3)],
        [("lose", False), ("turns", 3), ("forbid", frozenset({"/w/other.py"}))],
    ]
)
@settings(max_examples=30, deadline=None)
def test_a_text_is_the_models_answer_to_the_shown_prompt(stretches: list[list[tuple[str, object]]]) -> None:
    one = Typist(whole=True, given=Given(SNIPPETS), budget=600)
    for stretch in stretches:
        for event, how in stretch:
            do(one, event, how)
            happen(one, event, how)
        one.before += SURPRISE
        text = one.answer()
        shown = one.prompt()
        assert one.given.forbidden.isdisjoint(piece.source for piece in shown.found.snippets)
        plain = Typist(
            whole=True, prompts=one.builder, before=one.before, after=one.after, version=one.version, policy=Policy()
        )
        whole = plain.answer()
        assert one.prompt().text == shown.text
        assert whole.text.startswith(text.text)
        assert text.text == whole.text or text.finish == "budget"


CHOSEN = Policy(automatic_ms=260, invoked_ms=900)
LINES = [QWEN.encode(word)[0] for word in ("a", "\n", "    ")]


def talkative(monkeypatch: pytest.MonkeyPatch, words: list[int], slower: float, tokens: int) -> None:
    """The model says `words` over and over, up to so many tokens, on a machine that is so much slower than it was."""
    usual = SimulatedEngine._pass
    monkeypatch.setattr(SimulatedEngine, "_pass", lambda self, ms: usual(self, slower * ms))
    monkeypatch.setattr(typists, "WORDS", words * 5)
    monkeypatch.setattr(typists, "hash", lambda heard: len(heard) % len(words), raising=False)
    monkeypatch.setattr(typists, "DecodeLimits", lambda max_tokens: DecodeLimits(max_tokens=max(tokens, max_tokens)))


@pytest.mark.parametrize("tokens", [24, 200])
def test_finishing_a_text_does_not_take_the_time_for_it(monkeypatch: pytest.MonkeyPatch, tokens: int) -> None:
    talkative(monkeypatch, LINES[:1], 12.0, tokens)
    one = Typist(policy=CHOSEN)
    for _ in range(3):
        one.type("    value\n")
        asked = one.clock.ms
        one.rest(60_000)
        worked = max(max(slot.pieces) for slot in one.caches.engines.values())
        assert worked - asked <= OWED_MS + PREPARING_MS
        assert one.scheduler.turn() == math.inf
    assert one.shown() == ["lib/high.py", "lib/low.py"]


def test_in_a_pause_it_has_its_turn_once_something_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    talkative(monkeypatch, LINES, 2.0, 60)
    one = Typist(policy=CHOSEN)
    one.before += "if x:\n    "
    one.answer()
    one.rest(700)
    assert not one.prepared()
    texts = []
    while not one.prepared():
        assert one.scheduler.turn() <= 0
        texts.append(one.scheduler._clients._clients[0].generation)
    assert texts[-1] is not None
    assert not texts[-1].finished
    one.rest(9000)
    assert texts[-1].finish == "length", "all of it is said"
    assert one.shown()
