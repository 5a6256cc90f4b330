"""Whether suggestions work well, in a sentence or two for the user: what the counts of a session mean, and what to do.

One fault is named, the gravest. Requests that the user overtook by typing say nothing about the server, nor do places
where nobody expects a suggestion.
"""

from collections.abc import Mapping
from typing import Final

from fastcoder_lsp.completion.status import Statistics
from fastcoder_lsp.core.controls import counted
from fastcoder_lsp.lsp.status import Refusals
from fastcoder_lsp.lsp.usage import AcceptCounts

_LEAST: Final = 20  # requests, or suggestions on the screen, from which on a share means something
_SLOW_MS: Final = 1000.0  # few people pause that long before they type on
_MOST_FAILED, _MOST_LATE, _MOST_HELD_BACK = 0.1, 0.25, 0.5
_LEAST_WITH_TEXT, _LEAST_ACCEPTED = 0.15, 0.1
_UNEXPECTED: Final = ("middle_of_word", "secret")
_REMEDIES: Final[Mapping[str, str]] = {
    "invoked": "To see suggestions while you type, change `quiet.mode`.",
    "snoozed": "To end the snooze, snooze for 0 minutes.",
    "deletion": "To see suggestions after you delete text, set `quiet.deletions` to false.",
    "comment": "To see suggestions in comments, change `where.comments`.",
    "string": "To see suggestions in strings, change `where.strings`.",
    "prose": "To see suggestions in prose, change `where.prose`.",
    "rejections": "To see more suggestions on one line, raise `where.rejections`.",
}
"""For each rule by which the user's settings hold suggestions back."""
_FASTER: Final = "Set `model` to a smaller one."


def summary(service: Statistics, accepts: AcceptCounts, refusals: Refusals) -> str:
    """One or two sentences, by the counts since the start."""
    with_text = service.shown + service.typed_through
    answered = with_text + service.empty + service.failed
    expected = answered - sum(service.suppressed.get(rule, 0) for rule in _UNEXPECTED)
    if service.failed > _MOST_FAILED * answered:
        return f"Bad: {service.failed} of {counted(answered, 'request')} failed. The server's status says why."
    if refusals.count > expected:
        return refusals.text
    if expected < _LEAST:
        return f"Too early to tell: {counted(expected, 'request')} so far. Type on, and look again later."
    held_back = {rule: service.suppressed.get(rule, 0) for rule in _REMEDIES}
    if sum(held_back.values()) > _MOST_HELD_BACK * expected:
        most = max(held_back, key=held_back.__getitem__)
        return f"Your settings held back {sum(held_back.values())} of {expected} suggestions. {_REMEDIES[most]}"
    asked = expected - sum(held_back.values())  # of the model
    if service.budgeted_empty > _MOST_LATE * asked:
        return f"Too slow: {service.budgeted_empty} of {asked} suggestions were not ready in time. {_FASTER}"
    median_ms = service.ms.get("total", {}).get("p50")
    if median_ms is not None and median_ms > _SLOW_MS:
        return f"Too slow: half of the suggestions took longer than {median_ms / 1e3:.1f} s. {_FASTER}"
    if with_text < _LEAST_WITH_TEXT * asked:
        return (
            f"Bad: only {with_text} of {asked} requests got a suggestion, because the model's text did not fit or was "
            'unsure. Set `model` to a larger one, or `quiet.show` to "eager" to see more.'
        )
    if accepts.shown >= _LEAST and accepts.accepted < _LEAST_ACCEPTED * accepts.shown:
        return (
            f"Bad: you accepted {accepts.accepted} of {accepts.shown} suggestions. Set `model` to a larger one, or "
            '`quiet.mode` to "resting" to see fewer.'
        )
    waiting = "" if median_ms is None else f", half of them within {median_ms:.0f} ms"
    accepted = f"; you accepted {accepts.accepted} of {accepts.shown}" if accepts.shown else ""
    return f"Good: {with_text} of {asked} requests got a suggestion{waiting}{accepted}."
