"""What is kept of empty answers, and when a silent minute is told: time is handed in."""

import io
import json
from collections.abc import Callable
from typing import get_args

import pytest
from pygls.lsp.server import LanguageServer

from fastcoder_lsp.completion import reasons
from fastcoder_lsp.completion.reasons import CODES, unfit
from fastcoder_lsp.completion.status import Status
from fastcoder_lsp.completion.suggestions import Rule
from fastcoder_lsp.core import Reason
from fastcoder_lsp.lsp.capabilities import EditorFeatures
from fastcoder_lsp.lsp.endpoint import Endpoint, make_converter
from fastcoder_lsp.lsp.reasons import Reasons, of_rule
from fastcoder_lsp.lsp.status import _INTENDED, PAUSE_S, SILENT_S, Outcomes, Reporter, SilenceWatch
from fastcoder_lsp.lsp.wire import Writer, read_bodies
from fastcoder_lsp.workspace import rules
from fastcoder_lsp.workspace.document import Position

HERE = Position(3, 4)
SLOW = reasons.slow("", 150, 80, invoked=False)


def counting() -> Callable[[], float]:
    """A clock that goes on by a second each time it is read."""
    seconds = iter(range(10_000))
    return lambda: float(next(seconds))


def test_the_last_ones_are_kept_the_latest_first() -> None:
    kept = Reasons(counting())
    for line in range(30):
        kept.keep("file:///a", Position(line, 0), SLOW)
    assert [one.at.line for one in kept.silences("file:///a")] == list(range(29, 9, -1))
    for number in range(60):
        kept.keep(f"file:///{number}", HERE, SLOW)
    assert kept.silences("file:///a") == ()
    assert kept.silences("file:///9") == ()
    assert len(kept.silences("file:///10")) == 1
    assert kept.latest() == "file:///59"


def test_many_keys_do_not_push_out_what_tells_more() -> None:
    kept = Reasons(counting())
    kept.keep("file:///a", HERE, SLOW)
    for column in range(100):
        kept.keep("file:///a", Position(3, column), reasons.superseded())
    for _ in range(3):
        kept.keep("file:///a", HERE, SLOW)
    told = [(one.reason.code, one.times) for one in kept.silences("file:///a")]
    assert told == [("slow", 3), ("superseded", 100), ("slow", 1)]


def test_what_was_too_slow_gets_its_true_reason() -> None:
    kept = Reasons(counting())
    kept.keep("file:///a", HERE, SLOW)
    kept.settle("file:///a", Position(9, 9), reasons.unsure())
    kept.settle("file:///b", HERE, reasons.unsure())
    assert [one.reason for one in kept.silences("file:///a")] == [SLOW]
    for reason in (reasons.unsure(), reasons.models_end()):
        kept.settle("file:///a", HERE, reason)
    assert [one.reason.code for one in kept.silences("file:///a")] == ["unsure"]


def test_they_follow_the_document() -> None:
    kept = Reasons(counting())
    kept.keep("file:///a", HERE, SLOW)
    kept.shown("file:///a", HERE)
    kept.rename("file:///a", "file:///b")
    kept.rename("file:///unknown", "file:///c")
    assert kept.silences("file:///a") == ()
    assert len(kept.silences("file:///b")) == 1
    assert kept.last_shown("file:///b") is not None
    kept.forget("file:///b")
    assert kept.silences("file:///b") == ()
    assert kept.last_shown("file:///b") is None


@pytest.mark.parametrize("rule", rules.ExclusionReason)
def test_every_rule_has_a_reason(rule: rules.ExclusionReason) -> None:
    reason = of_rule(rule)
    assert reason.code in reasons.CODES
    assert reason.text
    assert reason.hint


def told(keys: int, *, every_s: float, reason: Callable[[int], Reason | None]) -> list[Reason]:
    """What is told while keys come at regular times; None as a reason: something is shown."""
    minute, found = SilenceWatch(), []
    for key in range(keys):
        answer = reason(key)
        if answer is None:
            minute.shown()
        elif (one := minute.empty(answer, key * every_s)) is not None:
            found.append(one)
    return found


def test_a_silent_minute_is_told_once_with_its_most_frequent_reason() -> None:
    loading = reasons.loading(Status("loading", 40, "weights"))
    mixed = (SLOW, reasons.superseded(), reasons.superseded(), loading, SLOW)
    assert told(600, every_s=1, reason=lambda key: mixed[key % 5]) == [SLOW]
    assert told(int(SILENT_S), every_s=1, reason=lambda _: SLOW) == []
    assert told(int(SILENT_S) + 1, every_s=1, reason=lambda _: SLOW) == [SLOW]


def test_overtaken_by_every_key_is_a_reason_where_there_is_no_other() -> None:
    [only] = told(200, every_s=1, reason=lambda _: reasons.superseded())
    assert only.hint


def test_one_suggestion_in_a_minute_is_no_silence() -> None:
    assert told(600, every_s=1, reason=lambda key: None if key % 50 == 49 else SLOW) == []
    assert told(100, every_s=PAUSE_S + 1, reason=lambda _: SLOW) == []


@pytest.mark.parametrize("wanted", ["off", "ignored", "secret", "rejected", "in-word"])
def test_silence_that_the_user_wants_is_not_told(wanted: str) -> None:
    assert told(600, every_s=1, reason=lambda _: Reason(wanted, "text", "hint")) == []


def test_every_rule_has_a_reason_of_its_own_that_is_wanted() -> None:
    codes = [unfit(rule).code for rule in get_args(Rule)]
    assert len(set(codes)) == len(codes)
    assert set(codes) <= _INTENDED <= set(CODES)


URI = "file:///project/a.py"
PLACE = Position(0, 4)
MISSING = Status("error", message="the model is missing", hint="fastcoder-lsp model pull")


class Typing:
    """A session in which nothing is shown, a key a second."""

    def __init__(self) -> None:
        self._wire = io.BytesIO()
        server = LanguageServer("test", "0", protocol_cls=Endpoint, converter_factory=make_converter)
        endpoint = server.protocol
        assert isinstance(endpoint, Endpoint)
        endpoint.set_writer(Writer(self._wire, lambda: None), include_headers=False)
        self.reporter = Reporter(endpoint)
        self.reporter.open(EditorFeatures())
        self._now_s = 1000.0
        self.outcomes = Outcomes(self.reporter, lambda: self._now_s)

    def silent(self, seconds: int, reason: Reason) -> None:
        for _ in range(seconds):
            self._now_s += 1
            self.outcomes.empty(URI, PLACE, reason)

    def notices(self) -> list[str]:
        told = [json.loads(body) for body in read_bodies(io.BytesIO(self._wire.getvalue()))]
        return [message["params"]["message"] for message in told if message["method"] == "window/showMessage"]


@pytest.fixture
def typing() -> Typing:
    return Typing()


def test_it_is_told_once_with_what_to_do(typing: Typing) -> None:
    slow = reasons.slow("", 150, 80, invoked=False)
    typing.silent(300, slow)
    [notice] = typing.notices()
    assert slow.text in notice
    assert slow.hint in notice


def test_a_suggestion_begins_the_minute_anew(typing: Typing) -> None:
    for _ in range(5):
        typing.silent(50, reasons.models_end())
        typing.outcomes.shown(URI, PLACE)
    assert typing.notices() == []


def test_what_was_said_when_it_broke_is_not_said_again(typing: Typing) -> None:
    typing.reporter.status(MISSING)
    typing.silent(300, reasons.failed(MISSING))
    assert len(typing.notices()) == 1


def test_why_knows_them_all(typing: Typing) -> None:
    typing.silent(5, reasons.models_end())
    [kept] = typing.outcomes.reasons.silences(URI)
    assert (kept.reason.code, kept.times) == ("end", 5)
