"""What a run's requests say: times, refusals, fairness, where prefixes were found, how long a disturbance was felt."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from benchmarks.team.asking import Asked
from benchmarks.team.typists import GIVEN_UP

WINDOW_S = 5.0
_FELT = 1.5
"""A disturbance is over once the 95th percentile of a window is below so many times that before it."""


def figures(asked: Sequence[Asked], seconds: float, typists: int) -> dict[str, Any]:
    """The figures of a run."""
    taken = [one for one in asked if one.code == 200]
    found, again = prefixes(taken)
    prompt = sum(one.prefilled + one.reused for one in taken)
    minutes = max(seconds * typists / 60.0, 1e-9)
    return {
        "requests": len(asked),
        "answered": len(taken),
        "refused": sum(one.code == 429 for one in asked),
        "given_up": sum(one.code == GIVEN_UP for one in asked),
        "failed": sum(one.code not in (200, 429, GIVEN_UP) for one in asked),
        "failures": dict(Counter(f"{one.code} {one.why}" for one in asked if one.why and one.code != 429)),
        "by_another's_text": sum(one.right is False for one in taken),
        "without_text": share(sum(not one.text for one in taken), len(taken)),
        "ms": percentiles([one.ms for one in taken]),
        "text_ms": percentiles([one.ms for one in taken if one.text]),
        "added_ms": percentiles([one.ms - one.host_ms for one in taken if one.host_ms]),
        "same_replica": share(found, again),
        "prompt_reused": share(sum(one.reused for one in taken), prompt),
        "fairness": fairness(taken),
        "a_person_and_minute": {
            "requests": len(asked) / minutes,
            "prompt_tokens": sum(one.prefilled for one in taken) / minutes,
            "tokens": sum(one.tokens for one in taken) / minutes,
        },
        "windows": windows(taken),
    }


def prefixes(taken: Sequence[Asked]) -> tuple[int, int]:
    """Of documents that were asked for before: how often the same replica answered, and how often they were."""
    last: dict[str, str] = {}
    found = again = 0
    for one in sorted(taken, key=lambda one: one.at_s):
        if one.replica and one.document in last:
            again += 1
            found += last[one.document] == one.replica
        last[one.document] = one.replica
    return found, again


def fairness(taken: Sequence[Asked]) -> float | None:
    """Jain's index of people's median times: 1 where all wait alike, 1/n where one waits for all."""
    by: dict[int, list[float]] = {}
    for one in taken:
        by.setdefault(one.typist, []).append(one.ms)
    medians = np.array([np.median(ms) for ms in by.values()])
    return float(medians.sum() ** 2 / (len(medians) * (medians**2).sum())) if len(medians) else None


def windows(taken: Sequence[Asked]) -> list[dict[str, float]]:
    """Of every few seconds: when they begin, how many were answered, the 95th percentile of their times."""
    by: dict[int, list[float]] = {}
    for one in taken:
        by.setdefault(int(one.at_s // WINDOW_S), []).append(one.ms)
    return [
        {"at_s": at * WINDOW_S, "answered": len(ms), "p95_ms": float(np.percentile(ms, 95))}
        for at, ms in sorted(by.items())
    ]


def felt_s(taken: Sequence[Asked], at_s: float, until_s: float) -> float:
    """For how many seconds after `at_s` times were longer than before it, by windows of one second each."""
    before = [one.ms for one in taken if at_s - 2 * WINDOW_S <= one.at_s < at_s]
    if not before:
        return 0.0
    most, felt = _FELT * float(np.percentile(before, 95)), 0.0
    for second in range(int(until_s - at_s)):
        begins = at_s + second
        within = [one.ms for one in taken if begins <= one.at_s < begins + 1.0]
        if within and float(np.percentile(within, 95)) > most:
            felt = second + 1.0
    return felt


def percentiles(ms: Sequence[float]) -> Mapping[str, float | None]:
    """The median and the 95th and 99th percentile."""
    names = ("p50", "p95", "p99")
    if not ms:
        return dict.fromkeys(names)
    return dict(zip(names, map(float, np.percentile(ms, (50, 95, 99))), strict=True))


def share(part: float, whole: float) -> float | None:
    """A part of a whole; None of nothing."""
    return part / whole if whole else None
