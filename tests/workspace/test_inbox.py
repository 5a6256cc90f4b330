"""What is told of changes: nothing that was told is left lying."""

import threading
from itertools import count
from pathlib import Path

import pytest

from fastcoder_lsp.workspace.inbox import Inbox, Told


def test_a_rest_that_ends_while_it_is_looked_at_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a busy machine time passes between any two looks at the clock; nobody tells of what was told already."""
    seconds = count()
    monkeypatch.setattr("fastcoder_lsp.workspace.inbox.time.monotonic", lambda: float(next(seconds)))
    held = Inbox()
    held.rest(1.5)
    held.changed([Path("a.py")])
    taken: list[Told] = []
    thread = threading.Thread(target=lambda: taken.append(held.take()), daemon=True)
    thread.start()
    thread.join(20)
    assert [told.paths for told in taken] == [(Path("a.py"),)]
