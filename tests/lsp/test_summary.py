"""The sentences that say whether suggestions work well."""

import pytest

from fastcoder_lsp.completion.status import Statistics
from fastcoder_lsp.lsp.status import Refusals
from fastcoder_lsp.lsp.summary import summary
from fastcoder_lsp.lsp.usage import AcceptCounts

FAST, SLOW = {"total": {"p50": 210.4, "p95": 800.0}}, {"total": {"p50": 1430.0, "p95": 3000.0}}


@pytest.mark.parametrize(
    ("service", "accepts", "says", "advises"),
    [
        (Statistics(), AcceptCounts(), "Too early to tell: 0 requests", "Type on"),
        (Statistics(requests=90, cancelled=50, superseded=40), AcceptCounts(), "Too early to tell: 0 requests", "Type"),
        (Statistics(shown=15, typed_through=4), AcceptCounts(19), "Too early to tell: 19 requests", "later"),
        (Statistics(empty=30, suppressed={"middle_of_word": 29}), AcceptCounts(), "Too early to tell: 1 request ", ""),
        (Statistics(failed=1), AcceptCounts(), "Bad: 1 of 1 request failed", "status"),
        (Statistics(shown=30, failed=4, ms=SLOW), AcceptCounts(), "Bad: 4 of 34 requests failed", "status"),
        (Statistics(shown=40, failed=4, ms=FAST), AcceptCounts(), "Good: 40 of 44 requests", "within 210 ms."),
        (
            Statistics(shown=9, empty=14, suppressed={"comment": 5, "deletion": 8}, ms=SLOW),
            AcceptCounts(9),
            "Your settings held back 13 of 23",
            "`quiet.deletions`",
        ),
        (
            Statistics(empty=20, suppressed={"invoked": 20}),
            AcceptCounts(),
            "Your settings held back 20",
            "`quiet.mode`",
        ),
        (Statistics(shown=14, empty=6, budgeted_empty=6, ms=FAST), AcceptCounts(), "Too slow: 6 of 20", "smaller"),
        (Statistics(shown=20, empty=5, ms=SLOW), AcceptCounts(20, 9), "Too slow: half of the suggestions", "1.4 s"),
        (Statistics(shown=4, empty=26, ms=FAST), AcceptCounts(), "Bad: only 4 of 30 requests", "larger"),
        (
            Statistics(shown=5, typed_through=10, empty=25, suppressed={"secret": 5, "string": 5}, ms=FAST),
            AcceptCounts(5, 0),
            "Good: 15 of 30 requests got a suggestion, half of them within 210 ms",
            "you accepted 0 of 5.",
        ),
        (Statistics(shown=20, ms=FAST), AcceptCounts(20, 1), "Bad: you accepted 1 of 20", "larger"),
        (Statistics(shown=20, ms=FAST), AcceptCounts(20, 2), "Good: 20 of 20", "you accepted 2 of 20."),
        (Statistics(shown=20), AcceptCounts(), "Good: 20 of 20 requests got a suggestion.", ""),
    ],
)
def test_the_counts_in_words(service: Statistics, accepts: AcceptCounts, says: str, advises: str) -> None:
    told = summary(service, accepts, Refusals())
    assert told.startswith(says)
    assert advises in told.removeprefix(says)
    assert told.count(". ") <= 2


def test_a_document_that_refuses_most_requests_is_named() -> None:
    refusals, few = Refusals(31, "No suggestions in a.py: It is too large."), Refusals(30, "No suggestions in a.py.")
    service = Statistics(shown=30, ms=FAST)
    assert summary(service, AcceptCounts(), refusals) == refusals.text
    assert summary(Statistics(), AcceptCounts(), few) == few.text
    assert summary(service, AcceptCounts(), few).startswith("Good")
