"""A rule that keeps suggestions away because a setting says so is nothing to complain about."""

from typing import get_args

from fastcoder_lsp.completion.reasons import CODES, unfit
from fastcoder_lsp.completion.suggestions import Rule
from fastcoder_lsp.lsp.outcomes import _WANTED


def test_every_rule_has_a_reason_of_its_own_that_is_wanted() -> None:
    """The server says once that a minute was silent; not where that was asked for."""
    codes = [unfit(rule).code for rule in get_args(Rule)]
    assert len(set(codes)) == len(codes)
    assert set(codes) <= _WANTED <= set(CODES)
