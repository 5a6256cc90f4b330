"""How long a prompt may be, and how many tokens of code of other files are in it, by what reading them costs here.

Owns the numbers and the rule of `context.enabled`; which code that is, is not decided here.
"""

from typing import Final, Literal

from fastcoder_lsp.prompt import PromptOptions

PROMPT_TOKENS: Final = 1400
"""Longest prompt: what a CPU reads in a few seconds once, and keeps from then on…"""
READ_MS: Final = 10_000.0
"""…of a larger model what is read in so long, for a first text that nobody sees within half a minute is given up…"""
LEAST_PROMPT: Final = 512
"""…but so many tokens at least: with fewer there is no function around the cursor."""
CONTEXT_TOKENS: Final = 600
"""For code of other files, where it is wanted; on top of the longest prompt. What `bench quality` measured."""
_TYPED_SHARE: Final = 0.24
"""Of a prompt without that code, what its text before and after the cursor leaves for what is typed since."""
LEAST_TOKENS: Final = 300
"""With fewer there is no room for the imports and two or three pieces."""
LATER_MS: Final = 200.0
"""By so much the first text at a document may come later: the pause between two keys of an ordinary typist."""
BESIDE_MS: Final = 1500.0
"""Of work beside, between keys, for the code that goes along: it is of use within some ten keys then. Where it takes
longer, who works in a document for a minute would have little of it."""


def context_tokens(
    wanted: bool | Literal["auto"],
    prefill_ms: float,
    room: int = PROMPT_TOKENS + CONTEXT_TOKENS,
    *,
    beside: bool = True,
) -> int:
    """Tokens for code of other files; 0: none goes along.

    By `auto` as many as are read in a while where that is done beside, which no key waits for; else as many as are read
    between two keys: where a first text waited 600 ms for 600 of them, people had fewer texts in time to accept than
    without (`bench typing`), whatever whole lines gained.

    Args:
        wanted: the setting `context.enabled`.
        prefill_ms: what one more token of a prompt takes on this machine (`core.StepCosts`).
        room: of a prompt; half of it at least is the document's.
        beside: whether there is a second KV cache for what is prepared (`core.Engines.beside`).
    """
    most = min(CONTEXT_TOKENS, max(room, 0) // 2)
    if wanted != "auto":
        return most if wanted else 0
    quick = min(most, int((BESIDE_MS if beside else LATER_MS) / prefill_ms))
    return quick if quick >= LEAST_TOKENS else 0


def prompt_options(told: int, room: int, prefill_ms: float = 0.0) -> PromptOptions:
    """The budgets of a prompt.

    Args:
        told: tokens of other files' code (`context_tokens`).
        room: of a prompt in the model's memory; what does not fit is answered by nobody.
        prefill_ms: what one more token of a prompt takes on this machine; a first prompt waits for no code that takes
            longer than is noticed.
    """
    own = PROMPT_TOKENS if prefill_ms * PROMPT_TOKENS <= READ_MS else max(LEAST_PROMPT, int(READ_MS / prefill_ms))
    limit = min(own + told, room)
    typed = min(PromptOptions().typed_tokens, max(1, int((limit - told) * _TYPED_SHARE)))
    later = told * prefill_ms > LATER_MS
    return PromptOptions(limit=limit, context_tokens=told, context_later=later, typed_tokens=typed)
