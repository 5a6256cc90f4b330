"""The ablation: `auto` with one mechanism switched off at a time.

Owns which setting or drafter switches off what. A mechanism that no setting switches off cannot be taken away here:
the KV cache between keystrokes (`bench prompt` has its worth) and the answers from memory.
"""

from collections.abc import Mapping
from typing import Any

from benchmarks.keystroke.session import Arm

ALL_ON = "all on"
WITHOUT: Mapping[str, tuple[str, Mapping[str, Any]]] = {
    ALL_ON: ("auto", {}),
    "no drafting": ("none", {}),
    "every step 64 wide": ("auto:width=fixed", {}),
    "nothing learnt": ("auto:learns=false", {}),
    "no search skipped": ("auto:skips=false", {}),
    "no outdated suggestion": ("auto:without=outdated", {}),
    "no recycling": ("auto:without=recycling/recycling-pairs", {}),
    "no datastore": ("auto", {"index.enabled": False}),
    "no background": ("auto", {"budget.background_ms": 1}),
    "no work ahead": ("auto", {"power": "saver"}),
    "no budget": ("auto", {"budget.automatic_ms": 60_000}),
}
"""What is off → the drafter and the settings that make it so."""


def arms(speed: float, settings: Mapping[str, Any]) -> list[Arm]:
    """One session for each mechanism, and one with all of them."""
    return [
        Arm(name, drafter, speed, {**settings, **off}, is_ablation=True) for name, (drafter, off) in WITHOUT.items()
    ]
