"""What a tuned model guesses, as sources of the merged tree."""

from typing import Any, cast

import numpy as np

from fastcoder_lsp.core import DraftContext, DraftTree, Verified
from fastcoder_lsp.draft.auto.sources import JacobiSource


def test_a_first_step_without_room_for_guesses_leaves_no_state() -> None:
    """Nothing was asked for before it, so nothing is moved on."""
    source = JacobiSource(block=4)
    source.begin(DraftContext([1, 2, 3], 3), cast("Any", None))
    verified = Verified((), (6,), np.array([[6]], np.int64), np.array([[1.0]], np.float32))
    source.observe(DraftTree.chain((3,)), verified, [], 3)
    assert source._state == []
