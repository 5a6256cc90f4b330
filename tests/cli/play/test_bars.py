"""What the status line and the scripted session say of an answer."""

import pytest

from fastcoder_lsp.cli.play.pane import work_of
from fastcoder_lsp.cli.play.session import AnswerSummary
from fastcoder_lsp.client.rpc import Params

ANSWERED = {
    "finish": "stop",
    "ms": {"queue": 900.0, "prompt": 10.0, "prefill": 1400.0, "draft": 20.0, "verify": 360.0, "post": 10.0},
    "tokens": 12,
    "steps": 3,
    "prefilled": 812,
}


@pytest.mark.parametrize(
    ("ms", "told", "late", "says"),
    [
        (1840.0, {}, False, ["read 812 prompt tokens in 1,400 ms", "12 tokens in 3 steps"]),
        (
            4800.0,
            {},
            False,
            ["read 812 prompt tokens in 1,400 ms", "12 tokens in 3 steps", "waited 3,000 ms for other work"],
        ),
        (120.0, {"ms": {}}, False, ["read 812 prompt tokens", "12 tokens in 3 steps"]),
        (3.0, {"finish": "typed-through"}, False, []),
        (
            5000.0,
            {"finish": "typed-through"},
            True,
            ["read 812 prompt tokens", "12 tokens in 3 steps", "made in the background"],
        ),
    ],
    ids=["its own work", "other work between", "a short one", "known", "late"],
)
def test_an_answers_time_is_accounted_for(ms: float, told: Params, late: bool, says: list[str]) -> None:
    """By its own prompt and steps; the rest of its time was other work's, or the background's."""
    assert work_of(AnswerSummary.of(ms, {**ANSWERED, **told}, shown=True, late=late)) == says


def test_a_server_that_reports_nothing() -> None:
    """Then the time is all there is."""
    assert work_of(AnswerSummary.of(40.0, {}, shown=True, late=False)) == []
