"""The ablation: `auto` with one mechanism switched off at a time.

Owns which setting or drafter switches off what.
"""

from collections.abc import Mapping
from typing import Any

from fastcoder_lsp.bench.keystroke.session import Arm

WITHOUT: Mapping[str, tuple[str, Mapping[str, Any]]] = {
    "all on": ("auto", {}),
    "no drafting": ("none", {}),
    "no work ahead": ("auto", {"power": "saver"}),
    "no budget": ("auto", {"budget.automatic_ms": 60_000}),
}
"""What is off → the drafter and the settings that make it so."""


def arms(speed: float, settings: Mapping[str, Any]) -> list[Arm]:
    """One session for each mechanism, and one with all of them."""
    return [
        Arm(name, drafter, speed, {**settings, **off}, is_ablation=True) for name, (drafter, off) in WITHOUT.items()
    ]
