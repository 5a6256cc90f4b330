"""Code of other files beside a text that takes all the time there is: it gets its share, and that ends."""

import math

import pytest

from fastcoder_lsp.completion.question import Policy
from fastcoder_lsp.runtime.parts import DecodeLimits
from fastcoder_lsp.scheduling.budget import OWED_MS, PREPARING_MS
from tests.completion.simulated import SimulatedEngine
from tests.scheduling import typists
from tests.scheduling.typists import QWEN, Typist

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


def test_where_a_limit_is_set_it_holds_for_all(monkeypatch: pytest.MonkeyPatch) -> None:
    talkative(monkeypatch, LINES[:1], 12.0, 24)
    one = Typist(policy=Policy(automatic_ms=260, invoked_ms=900, background_ms=2000))
    one.type("    value\n")
    asked = one.clock.ms
    one.rest(60_000)
    assert max(max(slot.pieces) for slot in one.caches.engines.values()) - asked <= 2000 + 12 * 61
    assert (one.shown(), one.prepared()) == ([], 0)
