"""`bench trained` runs programs that a model wrote, and lets them do nothing else than compute."""

import pytest

from benchmarks.trained import passes


@pytest.mark.parametrize(
    ("program", "passed"),
    [
        ("assert sorted([2, 1]) == [1, 2]", True),
        ("assert False", False),
        ("raise SystemExit(0)", False),
        ("import socket; socket.socket()", False),
        ("import os; os.system('true')", False),
        ("open('written', 'w')", False),
        ("bytes(1 << 30)", False),
    ],
)
def test_a_program_passes_only_if_it_ends_within_its_limits(program: str, passed: bool) -> None:
    assert passes(program) is passed
