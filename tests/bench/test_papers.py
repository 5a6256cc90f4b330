"""`bench papers`: figures of made-up rows."""

import pytest

from benchmarks.papers import MethodRow, figures, tables


def row(group: str, task: str, ms: float, plain_ms: float, tokens: int = 100, *, identical: bool = True) -> MethodRow:
    return MethodRow(group, task, tokens, tokens // 2, ms, plain_ms, identical)


def test_figures_are_pooled_and_name_the_worst_long_task() -> None:
    rows = [
        row("a", "a/1", 500.0, 1000.0),
        row("a", "a/2", 1000.0, 900.0),
        row("b", "b/1", 900.0, 100.0, tokens=10),
        row("b", "b/2", 100.0, 2000.0),
    ]
    found = figures(rows)
    assert found["speedup"] == pytest.approx(4000 / 2500)
    assert found["ms_per_token"] == pytest.approx(2500 / 310)
    assert found["tokens_a_pass"] == pytest.approx(2.0)
    assert (found["worst_task"], found["worst_speedup"]) == ("a/2", pytest.approx(0.9))
    assert found["groups"]["a"]["speedup"] == pytest.approx(1900 / 1500)
    assert found["groups"]["b"]["tasks"] == 2
    assert found["identical"]
    assert not figures([*rows, row("b", "b/3", 1.0, 1.0, identical=False)])["identical"]


def test_methods_with_other_tasks_stand_in_one_table() -> None:
    results = {"suffix": figures([row("a", "a/1", 500.0, 1000.0)]), "rest": figures([row("b", "b/1", 1.0, 1.0, 9)])}
    (_, every), (columns, by_group) = tables(results)
    assert [line[0] for line in every] == ["suffix", "rest"]
    assert every[1][6:8] == ["–", "–"] or every[1][6:8] == ("–", "–")
    assert columns[1:] == ("a", "b")
    assert by_group[0][1:] == ("2.00 / 2.00", "–")
