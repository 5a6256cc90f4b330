"""Settings: later layers are stronger, wrong values are reported; the VS Code extension declares the same table."""

from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fastcoder_lsp.config import Scope, Settings, SettingsLayer, cache_folder, resolve, specs
from scripts.settings_files import outputs, properties


def user(values: dict[str, Any]) -> SettingsLayer:
    return SettingsLayer("editor", values, trusted=True)


def repository(values: dict[str, Any]) -> SettingsLayer:
    return SettingsLayer("fastcoder.toml", values, trusted=False)


def test_later_layers_are_stronger() -> None:
    settings, problems = resolve(
        [
            repository({"popup": {"budget_ms": 100, "enabled": True}}),
            user({"popup.budget_ms": 200}),
            user({"popup": {"budget_ms": None}, "model": "some/model"}),
        ]
    )
    assert not problems
    assert (settings.popup_budget_ms, settings.popup_enabled, settings.model) == (200, True, "some/model")


def test_a_language_has_values_of_its_own() -> None:
    """Within a layer they are stronger than those for all languages; a later layer is stronger than both."""
    layers = [
        repository({"languages": {"c": {"quiet": {"lines": 3}, "where.strings": "never"}}, "quiet": {"lines": 2}}),
        user({"languages.python.quiet.lines": 1, "where": {"strings": "invoked"}}),
    ]

    def lines_and_strings(language: str) -> tuple[int, str]:
        settings, problems = resolve(layers, language)
        assert not problems
        return settings.quiet_lines, settings.where_strings

    assert {one: lines_and_strings(one) for one in ("", "go", "c", "python")} == {
        "": (2, "invoked"),
        "go": (2, "invoked"),
        "c": (3, "invoked"),
        "python": (1, "invoked"),
    }


def test_a_setting_that_no_language_has_of_its_own_is_not_called_unknown() -> None:
    _, problems = resolve([user({"languages": {"python": {"index": {"enabled": False}}}})])
    assert [one.message for one in problems] == ["cannot be set for one language; for all of them it is index.enabled"]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("languages.python.quiet.lines", "few"),
        ("languages.python.quiet.line", 1),
        ("languages.python.model", "some/model"),
        ("languages.python", 1),
        ("popup.budget_ms", "fast"),
        ("popup.budget_ms", 3),
        ("popup.budget_ms", 100.5),
        ("popup.budget_ms", True),
        ("popup.budget_ms", float("nan")),
        ("popup.budget_ms", float("inf")),
        ("edits.threshold", "high"),
        ("edits.threshold", 1.01),
        ("edits.threshold", float("nan")),
        ("edits.threshold", True),
        ("popup.enabled", 1),
        ("popup", 5),
        ("engine", "abacus"),
        ("model", 7),
        ("model", {"name": "x"}),
        ("read.exclude", "*.py"),
        ("read.exclude", [1]),
        ("popup.budget", 100),
        ("", 1),
    ],
)
def test_what_is_wrong_is_reported_and_defaulted(name: str, value: object) -> None:
    settings, problems = resolve([user({name: value})])
    assert settings == Settings()
    assert [problem.name for problem in problems] == [name]
    assert problems[0].message


@pytest.mark.parametrize("value", [1, 0.25, 0])
def test_a_share_may_be_written_as_a_whole_number(value: float) -> None:
    settings, problems = resolve([user({"edits.threshold": value})])
    assert (settings.edits_threshold, type(settings.edits_threshold), problems) == (value, float, ())


def test_a_misspelt_name_is_told_the_right_one() -> None:
    _, problems = resolve([user({"popup.enable": True})])
    assert "popup.enabled" in str(problems[0])


@pytest.mark.parametrize("spec", [spec for spec in specs().values() if spec.scope is Scope.MACHINE])
def test_a_repository_sets_nothing_of_the_machine(spec: Any) -> None:
    by_kind = {int: spec.low + 1 if spec.low is not None else 1, bool: not spec.default, tuple: ("/evil",)}
    value = spec.choices[-1] if spec.choices else by_kind.get(spec.kind, "/evil")
    settings, problems = resolve([repository({spec.name: value})])
    assert settings == Settings()
    assert [problem.name for problem in problems] == [spec.name]
    assert getattr(resolve([user({spec.name: value})])[0], spec.attribute) == value


def test_a_repository_only_narrows_what_is_read() -> None:
    mine = {"read.max_file_bytes": 1000, "read.exclude": ["a"], "languages.exclude": ["sql"]}
    settings, _ = resolve(
        [user(mine), repository({"read.max_file_bytes": 2000, "read.exclude": ["b"], "enabled": False})]
    )
    assert settings.read_max_file_bytes == 1000
    assert settings.read_exclude == ("a", "b")
    assert not settings.enabled
    settings, _ = resolve([user({"enabled": False}), repository({"read.max_file_bytes": 500, "enabled": True})])
    assert settings.read_max_file_bytes == 500
    assert not settings.enabled


@pytest.mark.parametrize("mine", [False, "auto", True])
@pytest.mark.parametrize("theirs", [False, "auto", True])
def test_a_switch_with_a_middle_is_narrowed_to_the_stricter_of_two(mine: bool | str, theirs: bool | str) -> None:
    """`auto` stands between off and on; a word that is neither is refused, and a number is no switch."""
    order = (False, "auto", True)
    settings, problems = resolve([user({"context.enabled": mine}), repository({"context.enabled": theirs})])
    assert settings.context_enabled == order[min(order.index(mine), order.index(theirs))]
    assert problems == ()
    for wrong in ("on", 1, ["auto"]):
        settings, [problem] = resolve([user({"context.enabled": mine}), user({"context.enabled": wrong})])
        assert settings.context_enabled == mine
        assert "true or false or auto" in problem.message


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(st.sampled_from(list(specs())) | st.text(max_size=8), JSON, max_size=6), st.booleans())
def test_no_values_can_hurt(values: dict[str, Any], trusted: bool) -> None:
    settings, _ = resolve([SettingsLayer("anywhere", values, trusted)])
    for spec in specs().values():
        value: Any = getattr(settings, spec.attribute)
        switch = (False, *spec.choices, True) if spec.kind is bool else None
        assert type(value) is spec.kind or (switch is not None and value in switch)
        if spec.kind in {int, float}:
            assert spec.low is not None
            assert spec.high is not None
            assert spec.low <= value <= spec.high
        if spec.choices:
            assert value in (switch or spec.choices)


def test_the_table_and_the_settings_are_one() -> None:
    assert [spec.attribute for spec in specs().values()] == [entry.name for entry in fields(Settings)]
    assert all(spec.description.endswith((".", "`.")) for spec in specs().values())


def test_the_cache_folder_can_be_moved(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("FASTCODER_CACHE", str(tmp_path))
    assert cache_folder() == tmp_path
    monkeypatch.delenv("FASTCODER_CACHE")
    assert cache_folder().is_absolute()
    assert "fastcoder-lsp" in str(cache_folder())


def test_the_generated_files_are_current() -> None:
    """They are what scripts/settings_files.py makes of the table."""
    for path, content in outputs().items():
        assert path.read_text(encoding="utf-8") == content


def test_what_names_models_and_paths_is_out_of_a_workspaces_reach() -> None:
    """From no `.vscode/settings.json` VS Code takes settings of the scope `machine`."""
    declared = {name: schema["scope"] for name, schema in properties().items()}
    for spec in specs().values():
        assert (declared[f"fastcoder.{spec.name}"] == "machine") == (spec.scope is Scope.MACHINE)
