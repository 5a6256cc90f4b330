"""How long a question may take that a server answers: what the settings leave open is chosen for a network between."""

import math
from typing import Final

from fastcoder_lsp.completion.question import Policy, Question

AUTOMATIC_MS: Final = 400.0
"""A person has typed on after that, and gets the text when it is made."""
INVOKED_MS: Final = 5_000.0
REST_MS: Final = 30_000.0
"""So long an answer may go on that nobody waits for."""
_KEPT_MS: Final = 12.0
"""Kept back of a budget for the way to the editor."""


def allowed_ms(question: Question, *, patient: bool = False) -> float:
    """What the question has; infinite: it is answered when the answer is whole.

    `patient`: it has to wait until the server has said what it is, and has all the time of one asked by a key.
    """
    policy = question.policy
    invoked, automatic = policy.invoked_ms or INVOKED_MS, policy.automatic_ms or AUTOMATIC_MS
    chosen = max(invoked, automatic) if patient else invoked if question.request.invoked else automatic
    return chosen if math.isinf(chosen) else max(0.0, chosen - _KEPT_MS)


def rest_ms(policy: Policy) -> float:
    """How long what nobody waits for may go on."""
    return policy.background_ms or REST_MS


def by_kind(policy: Policy) -> dict[str, float]:
    """The name of each → milliseconds."""
    return {
        "automatic": policy.automatic_ms or AUTOMATIC_MS,
        "invoked": policy.invoked_ms or INVOKED_MS,
        "background": rest_ms(policy),
    }
