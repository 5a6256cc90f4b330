"""Time as arithmetic: how long a request may take.

Owns no clock and nothing that is learnt: what work takes is `pace`'s. Milliseconds throughout.
"""

from dataclasses import dataclass

from fastcoder_lsp.completion.policy import Policy
from fastcoder_lsp.core import StepCosts

LINE_STEPS = 16
"""Steps without drafts that say a line, as a rule."""
_LINE_PREFILL = 256
"""Tokens of a prompt that are new after a change of place in the same file."""
_MOST_INVOKED_MS = 60_000.0
"""Nobody who asked by a key still waits for it then; more than the settings allow to be asked for."""


@dataclass(frozen=True, slots=True)
class Budgets:
    """What a request may take from its arrival, and what is spent on a suggestion while nobody waits."""

    automatic_ms: float
    invoked_ms: float
    background_ms: float

    @classmethod
    def of(cls, policy: Policy, costs: StepCosts) -> "Budgets":
        """What `policy` says; what it leaves open is chosen by the time that a line takes, its prompt included.

        Between 200 ms, the pause between two keys of an ordinary typist, and 400 ms: after that a person has typed on,
        and gets the rest when it is made. Who asks by a key waits at least five times as long, and for two lines
        however slow the machine is. `costs` are believable (`costs.believable`).
        """
        line = LINE_STEPS * costs.step_ms(1) + _LINE_PREFILL * costs.prefill_ms
        automatic = min(max(200.0, line), 400.0)
        return cls(
            policy.automatic_ms or automatic,
            policy.invoked_ms or min(max(5 * automatic, 2 * line), _MOST_INVOKED_MS),
            policy.background_ms or min(10 * automatic, 4000.0),
        )
