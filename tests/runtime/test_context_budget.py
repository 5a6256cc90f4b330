"""How much code of other files goes along: as the setting says, or as much as this machine reads in a pause."""

import pytest

from fastcoder_lsp.runtime.context_budget import CONTEXT_TOKENS, LEAST_TOKENS, PAUSE_MS, PROMPT_TOKENS, context_tokens


@pytest.mark.parametrize("prefill_ms", [0.01, 1.0, 50.0])
def test_who_says_yes_or_no_is_not_asked_by_the_machine(prefill_ms: float) -> None:
    assert context_tokens(True, prefill_ms) == CONTEXT_TOKENS
    assert context_tokens(False, prefill_ms) == 0


def test_auto_takes_what_is_read_beside_the_prompt_in_a_pause() -> None:
    """All of it on a GPU and on the CPUs that were measured, less on slower ones, and none where little would fit."""
    for prefill_ms in (0.02, 0.56, 0.99, PAUSE_MS / (PROMPT_TOKENS + CONTEXT_TOKENS)):
        assert context_tokens("auto", prefill_ms) == CONTEXT_TOKENS
    rooms = [context_tokens("auto", PAUSE_MS / (PROMPT_TOKENS + room)) for room in (500, 301, 250, 0)]
    assert rooms[:2] == pytest.approx([500, 301], abs=1)
    assert rooms[2:] == [0, 0]
    assert context_tokens("auto", 1e9) == 0
    for tenth in range(1, 60):
        room = context_tokens("auto", tenth / 10)
        assert room == 0 or LEAST_TOKENS <= room <= CONTEXT_TOKENS
        assert room == 0 or (PROMPT_TOKENS + room) * tenth / 10 <= PAUSE_MS
