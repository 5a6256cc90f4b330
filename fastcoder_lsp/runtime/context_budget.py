"""The length of a prompt and its share of code from other files, chosen from the measured cost of a prefill.

Owns the numbers and the rule of `context.enabled`; `context` chooses the code.
"""

from typing import Final, Literal

from fastcoder_lsp.prompt import PromptOptions

PROMPT_TOKENS: Final = 1400
"""Longest prompt: a CPU prefills it once in a few seconds, and keeps it from then on."""
READ_MS: Final = 10_000.0
"""A larger model gets the prompt that it prefills in this time: users give up on a first suggestion after half a
minute."""
LEAST_PROMPT: Final = 512
"""The prompt never gets shorter: with fewer tokens it does not hold the function around the cursor."""
CONTEXT_TOKENS: Final = 600
"""Tokens for code of other files, on top of the longest prompt; the value that `bench quality` measured."""
_TYPED_SHARE: Final = 0.24
"""Share of a prompt without that code which is left for text typed later."""
LEAST_TOKENS: Final = 300
"""With fewer tokens there is no room for the imports and two or three pieces."""
LATER_MS: Final = 200.0
"""The first suggestion in a document may come this much later: a typical pause between two keys."""
BESIDE_MS: Final = 1500.0
"""Longest background prefill, between keys, for code of other files: it is then of use within about ten keys. With a
longer one, a minute's work in a document would gain little."""


def context_tokens(
    wanted: bool | Literal["auto"],
    prefill_ms: float,
    room: int = PROMPT_TOKENS + CONTEXT_TOKENS,
    *,
    beside: bool = True,
) -> int:
    """Tokens for code of other files; 0: no such code.

    With `auto`, and a second KV cache, as many as a background prefill reads in `BESIDE_MS`, because no key waits for
    it; otherwise as many as are read between two keys. When the first suggestion waited 600 ms for 600 tokens, fewer
    suggestions came in time than without them (`bench typing`), although whole lines gained.

    Args:
        wanted: the setting `context.enabled`.
        prefill_ms: the time of one more prompt token on this machine (`core.StepCosts`).
        room: tokens of a prompt; the document gets at least half of them.
        beside: whether the engine has a second KV cache (`core.Engines.beside`).
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
        room: tokens that the model's memory has for a prompt; a longer one gets no answer.
        prefill_ms: the time of one more prompt token on this machine; a first prompt waits only for code whose prefill
            goes unnoticed.
    """
    own = PROMPT_TOKENS if prefill_ms * PROMPT_TOKENS <= READ_MS else max(LEAST_PROMPT, int(READ_MS / prefill_ms))
    limit = min(own + told, room)
    typed = min(PromptOptions().typed_tokens, max(1, int((limit - told) * _TYPED_SHARE)))
    later = told * prefill_ms > LATER_MS
    return PromptOptions(limit=limit, context_tokens=told, context_later=later, typed_tokens=typed)
