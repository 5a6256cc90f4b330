"""How requests are to be treated: what the settings say of budgets, work ahead, alternatives and unfit places.

Owns the reading of the settings, nothing of what follows from them.
"""

import math
from dataclasses import dataclass

from fastcoder_lsp.config import Settings

MOST_ALTERNATIVES = 3
"""Candidates of an invoked request: what a person still cycles through."""


@dataclass(frozen=True, slots=True)
class Policy:
    """What holds for a request; by default it gets one whole answer, however long that takes.

    `automatic_ms`, `invoked_ms`: a request's budget, while typing and when asked for by a key; `background_ms`: for
    work while nobody waits. 0: chosen from the machine's speed; infinite: none. `ahead`: work before anybody asks.
    `alternatives`: so many candidates at most for an invoked request, the first included. `in_words`, `in_secrets`:
    whether there are suggestions in such places; `rejections`: see the setting `where.rejections`.
    """

    automatic_ms: float = math.inf
    invoked_ms: float = math.inf
    background_ms: float = 0
    ahead: bool = True
    alternatives: int = 1
    in_words: bool = True
    in_secrets: bool = True
    rejections: int = 0


def policy_of(settings: Settings) -> Policy:
    """The policy that settings ask for."""
    return Policy(
        automatic_ms=settings.budget_automatic_ms,
        invoked_ms=settings.budget_invoked_ms,
        background_ms=settings.budget_background_ms,
        ahead=settings.power != "saver",
        alternatives=MOST_ALTERNATIVES,
        in_words=settings.where_middle_of_word,
        in_secrets=settings.where_secrets,
        rejections=settings.where_rejections,
    )
