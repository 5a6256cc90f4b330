"""How many tokens of code of other files a prompt has room for, by what reading them costs on this machine.

Owns the numbers and the rule of `context.enabled`; which code that is, is not decided here.
"""

from typing import Final, Literal

PROMPT_TOKENS: Final = 1400
"""Longest prompt: what a CPU reads in a few seconds once, and keeps from then on."""
CONTEXT_TOKENS: Final = 600
"""For code of other files, where it is wanted; on top of the longest prompt. What `bench quality` measured."""
LEAST_TOKENS: Final = 300
"""With fewer there is no room for the imports and two or three pieces."""
PAUSE_MS: Final = 4000.0
"""Of work while nobody types: what the scheduler grants a question on machines that this is a matter for."""


def context_tokens(wanted: bool | Literal["auto"], prefill_ms: float) -> int:
    """Tokens for code of other files; 0: none goes along.

    By `auto` as many as are read beside the longest prompt in one pause: then the exchange of pieces, which has the
    whole prompt read anew, is done before the next key as a rule, and a key computes what it does without them.

    Args:
        wanted: the setting `context.enabled`.
        prefill_ms: what one more token of a prompt takes on this machine (`core.StepCosts`).
    """
    if wanted != "auto":
        return CONTEXT_TOKENS if wanted else 0
    room = min(CONTEXT_TOKENS, int(PAUSE_MS / prefill_ms) - PROMPT_TOKENS)
    return room if room >= LEAST_TOKENS else 0
