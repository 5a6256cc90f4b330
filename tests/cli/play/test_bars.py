"""What the status line and the scripted session say of an answer."""

import pytest

from fastcoder_lsp.cli.play.pane import work_of
from fastcoder_lsp.cli.play.session import AnswerSummary


@pytest.mark.parametrize(
    ("ms", "says"), [(1840.0, "read 812 prompt tokens in 1,620 ms"), (120.0, "read 812 prompt tokens")]
)
def test_a_long_answer_says_how_much_of_it_was_the_prompt(ms: float, says: str) -> None:
    """The steps beside it explain a fraction of its time."""
    answer = AnswerSummary(ms, shown=True, tokens=12, steps=3, prefilled=812, prefill_ms=1620.0)
    assert work_of(answer) == [says, "12 tokens in 3 steps"]
