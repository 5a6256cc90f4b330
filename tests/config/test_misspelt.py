"""Which setting the error of an unknown one suggests: one of the same purpose, or none."""

from typing import Any

import pytest

from fastcoder_lsp.config import SettingsLayer, resolve, specs


def suggested(name: str, value: Any = 1) -> str:
    """What the only problem asks the user, "" for nothing."""
    _, [problem] = resolve([SettingsLayer("/a", {name: value}, trusted=True)])
    assert problem.message.startswith("unknown setting")
    return problem.message.removeprefix("unknown setting").removeprefix("; did you mean ").removesuffix("?")


@pytest.mark.parametrize(
    ("wrong", "right"),
    [
        ("completion.enabled", "enabled"),
        ("completions.enable", "enabled"),
        ("completion.model", "model"),
        ("popup.enable", "popup.enabled"),
        ("hosts.enabled", "host.enabled"),
        ("quite.mode", "quiet.mode"),
        ("edit.modle", "edits.model"),
        ("budget.invoked", "budget.invoked_ms"),
        ("remote.key", "remote.key_file or remote.key_env"),
        ("languages.python.quiet.lins", "languages.python.quiet.lines"),
    ],
)
def test_a_misspelt_setting_of_the_table(wrong: str, right: str) -> None:
    assert suggested(wrong) == right


@pytest.mark.parametrize(
    ("wrong", "right"),
    [
        ("popup_enabled", "popup.enabled"),
        ("popup.budgetMs", "popup.budget_ms"),
        ("popup.budget-ms", "popup.budget_ms"),
        ("context.tokens", "context_tokens"),
        ("fastcoder.popup.enabled", "popup.enabled"),
        ("fastcoder.enabled", "enabled"),
    ],
)
def test_another_spelling(wrong: str, right: str) -> None:
    assert suggested(wrong) == right


@pytest.mark.parametrize(
    ("wrong", "right"),
    [
        ("modle", "model"),
        ("max_tokens", "completion.max_tokens"),
        ("maxTokens", "completion.max_tokens"),
        ("comments", "where.comments"),
        ("exclude", "languages.exclude or read.exclude"),
        ("popup", "popup.enabled"),
        ("popup.threads", "threads"),  # below the wrong header
    ],
)
def test_a_missing_or_wrong_header(wrong: str, right: str) -> None:
    assert suggested(wrong) == right


@pytest.mark.parametrize(
    "wrong",
    [
        *("edits.enabled", "suggestions.enabled", "quiet.enabled", "budget_ms", "completion.budget_ms"),
        *("read.include", "where.deletions", "edits.max_tokens", "host.url", "draft.mode_of_work", "quiet", "no_such"),
    ],
)
def test_no_setting_of_another_purpose(wrong: str) -> None:
    """It would have users switch something else off."""
    assert suggested(wrong) == ""


@pytest.mark.parametrize("name", [name for name in specs() if "." in name])
def test_a_true_name_in_another_table_stays_there(name: str) -> None:
    last = name.partition(".")[2]
    for table in {one.partition(".")[0] for one in specs() if "." in one} - {"completion"}:
        if f"{table}.{last}" not in specs():
            assert all(one.startswith(f"{table}.") for one in suggested(f"{table}.{last}").split(" or ") if one)
