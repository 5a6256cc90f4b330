"""Settings: the order of layers, wrong and hostile values, VS Code's table; where the program's own files lie."""

import os
from dataclasses import fields
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fastcoder_lsp.cli.start import is_path, leave_folder, name_fully, whole_path
from fastcoder_lsp.config import (
    Problem,
    Scope,
    Settings,
    SettingsLayer,
    cache_folder,
    origins,
    own_settings_file,
    resolve,
    specs,
)
from fastcoder_lsp.config.environment import find_program, neutral_folder, python_command
from fastcoder_lsp.config.resolve import MAX_ENTRIES, MAX_PROBLEMS, shown
from fastcoder_lsp.config.settings_text import parse_settings
from fastcoder_lsp.errors import UsageError
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


def test_a_setting_without_values_by_language_is_not_unknown() -> None:
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
def test_a_switch_with_three_values_takes_the_stricter_of_two(mine: bool | str, theirs: bool | str) -> None:
    """`auto` stands between off and on; a word that is neither is refused, and a number is no switch."""
    order = (False, "auto", True)
    settings, problems = resolve([user({"context.enabled": mine}), repository({"context.enabled": theirs})])
    assert settings.context_enabled == order[min(order.index(mine), order.index(theirs))]
    assert [one.name for one in problems] == ["context.enabled"] * (settings.context_enabled != theirs)
    for wrong in ("on", 1, ["auto"]):
        settings, [problem] = resolve([user({"context.enabled": mine}), user({"context.enabled": wrong})])
        assert settings.context_enabled == mine
        assert "true or false or auto" in problem.message


RULES = [
    ("quiet.mode", "invoked", "always"),
    ("quiet.lines", 1, 5),
    ("quiet.lines", 5, 0),
    ("quiet.delay_ms", 900, 1),
    ("quiet.deletions", True, False),
    ("where.prose", "never", "invoked"),
    ("where.rejections", 3, 0),
    ("power", "saver", "auto"),
    ("popup.enabled", False, True),
    ("edits.automatic", False, True),
    ("edits.threshold", 0.9, 0.1),
    ("languages.include", ["c"], ["python"]),
    ("languages.include", ["c"], []),
]


@pytest.mark.parametrize(("name", "strict", "loose"), RULES)
def test_a_repository_loosens_no_rule_of_the_users_file(name: str, strict: Any, loose: Any) -> None:
    """Whichever of the two sets the stricter one; without one of the user's, a repository's counts."""
    spec = specs()[name]
    wanted = tuple(strict) if isinstance(strict, list) else strict
    file = partial(SettingsLayer, "fastcoder.toml", trusted=False, repository=True)
    for values in ([user({name: strict}), file({name: loose})], [user({name: loose}), file({name: strict})]):
        if loose != ["python"] or values[0].values[name] == strict:
            settings, problems = resolve(values)
            assert getattr(settings, spec.attribute) == wanted
            assert [one.name for one in problems] == [name] * (values[1].values[name] != strict)
    assert getattr(resolve([file({name: loose})])[0], spec.attribute) == (tuple(loose) if wanted == ("c",) else loose)
    assert getattr(resolve([user({name: strict}), user({name: loose})])[0], spec.attribute) != wanted


def test_what_a_repository_may_not_loosen_is_told() -> None:
    file = partial(SettingsLayer, "fastcoder.toml", trusted=False, repository=True)
    own = user({"where.secrets": False, "languages.python.quiet.lines": 1, "quiet.lines": 3})
    theirs = file(
        {
            "read.max_file_bytes": 90_000_000,
            "where.secrets": True,
            "read.max_files": 10,
            "languages.python.quiet.lines": 2,
            "languages.c.quiet.lines": 3,
        }
    )
    _, problems = resolve([own, theirs])
    assert [one.name for one in problems] == ["read.max_file_bytes", "where.secrets"]
    assert "stricter than 1000000: use your own settings file" in problems[0].message
    assert "languages.python.quiet.lines" in [one.name for one in resolve([own, theirs], "python")[1]]
    assert "languages.c.quiet.lines" not in [one.name for one in resolve([own, theirs], "c")[1]]


def test_a_rule_for_one_language_holds_against_a_repository() -> None:
    own = user({"languages.python.quiet.mode": "invoked"})
    theirs = SettingsLayer("fastcoder.toml", {"quiet.mode": "resting"}, trusted=False, repository=True)
    assert resolve([own, theirs], "python")[0].quiet_mode == "invoked"
    assert resolve([own, theirs], "c")[0].quiet_mode == "resting"


def test_origins_name_the_file_and_the_line() -> None:
    own = parsed("/own", 'model = "x/y"\nread.exclude = ["a"]\n\n[quiet]\nlines = 1\n', repository=False)
    theirs = parsed("/theirs", '[read]\nexclude = ["b"]\n[quiet]\nlines = 4\n[completion]\nmax_tokens = 7\n')
    assert origins([own, theirs]) == {
        "model": "/own:1",
        "read.exclude": "/own:2 and /theirs:2",
        "quiet.lines": "/own:5",
        "completion.max_tokens": "/theirs:6",
    }


def parsed(origin: str, text: str, *, repository: bool = True) -> SettingsLayer:
    layer = parse_settings(origin, text.encode(), repository=repository)
    assert isinstance(layer, SettingsLayer)
    return layer


@pytest.mark.parametrize(
    ("content", "place", "says"),
    [
        (b"a = 1\nb = \n", ":2", "not valid TOML: Invalid value in column"),
        (b"a = [1,\n2", ":1", "not valid TOML: Unclosed array"),
        (b"a = 1\na = 2\n", ":2", "not valid TOML: Cannot overwrite a value"),
        ("a = 1".encode("utf-16"), ":1", "not UTF-8"),
        (b"a = 1\nb = '\xff'\n", ":2", "not UTF-8"),
        (b"a" * 200_000, "", "too large"),
        (b"a=" + b"[" * 5_000, "", "nested too deeply"),
    ],
)
def test_an_error_in_a_file_names_the_line(content: bytes, place: str, says: str) -> None:
    problem = parse_settings("/a/fastcoder.toml", content, repository=True)
    assert isinstance(problem, Problem)
    assert str(problem).startswith(f"/a/fastcoder.toml{place}: The file is ")
    assert says in problem.message


def test_a_wrong_value_names_its_line() -> None:
    text = '# x = 1\n[languages.c."quiet"]\nlines = "no"\n[where]\n  comments = "nevr"\n'
    _, problems = resolve([parsed("/a", text)])
    assert [problem.origin for problem in problems] == ["/a:5", "/a:3"]
    assert problems[0].message.endswith("did you mean never?")


def test_the_users_own_file_is_below_the_config_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    assert own_settings_file() == tmp_path / "fastcoder" / "fastcoder.toml"
    monkeypatch.setenv("XDG_CONFIG_HOME", "relative")
    monkeypatch.setenv("HOME", str(tmp_path))
    found = own_settings_file()
    assert found is not None
    assert found.is_absolute()


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


def test_tests_have_a_cache_folder_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """Indexes and counts of their servers stay out of the user's."""
    own = cache_folder()
    monkeypatch.delenv("FASTCODER_CACHE")
    assert own != cache_folder()
    assert not (own / "index").is_symlink()
    assert (own / "models").is_dir()


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


def test_a_workspace_cannot_set_models_and_paths() -> None:
    """From no `.vscode/settings.json` VS Code takes settings of the scope `machine`."""
    declared = {name: schema["scope"] for name, schema in properties().items()}
    for spec in specs().values():
        assert (declared[f"fastcoder.{spec.name}"] == "machine") == (spec.scope is Scope.MACHINE)


def nested(depth: int) -> dict[str, object]:
    values: dict[str, object] = {"end": 1}
    for _ in range(depth):
        values = {"a": values}
    return values


@pytest.mark.parametrize(
    "values",
    [
        nested(50_000),
        {f"k{number}": number for number in range(30_000)},
        {"x" * 1_000_000: 1},
        {"context_tokens": 16**20_000, "read.max_files": 10**5_000, "threads": float("inf"), "gpu.strict": nested(99)},
        {"read.exclude": ["a"] * (MAX_ENTRIES + 1), "languages.exclude": ["x" * (MAX_ENTRIES + 1)]},
        {"bell\a\x1b[2J\n": "\a", "model": "\x1b[2J" * 99},
    ],
    ids=["nested", "many", "long", "numbers", "lists", "signs"],
)
def test_what_is_said_of_wrong_values_is_short_and_clean(values: dict[str, object]) -> None:
    settings, problems = resolve([SettingsLayer("fastcoder.toml", values, trusted=False)])
    assert settings == resolve([])[0]
    assert 0 < len(problems) <= MAX_PROBLEMS + 1
    assert all(len(str(problem)) < 300 and str(problem).isprintable() for problem in problems)


def test_lists_of_several_places_are_joined_once() -> None:
    layers = [SettingsLayer(str(number), {"read.exclude": ["b", "a", "b"]}, trusted=False) for number in range(9)]
    assert resolve(layers)[0].read_exclude == ("b", "a")


def test_shown_names_are_cut_and_cleaned() -> None:
    assert shown("größe") == "größe"
    assert shown("a\nb\x1b") == "a·b·"
    assert shown("x" * 99, 10) == "x" * 9 + "…"


def test_the_cache_never_lies_in_the_working_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    """It holds compiled code: a repository must not supply it."""
    monkeypatch.setenv("FASTCODER_CACHE", ".cache")
    with pytest.raises(UsageError, match="relative"):
        cache_folder()


@pytest.mark.skipif(os.name == "nt", reason="the search of PATH is another one")
def test_programs_are_found_by_whole_paths_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "tool").write_text("#!/bin/sh\n")
    (tmp_path / "tool").chmod(0o755)
    monkeypatch.chdir(tmp_path)
    for path in (".", "", f".{os.pathsep}", "./", f"{tmp_path.name}/.."):
        monkeypatch.setenv("PATH", path)
        assert find_program("tool") is None
    # One that cannot be looked into is passed over, as a shell does.
    monkeypatch.setenv("PATH", os.pathsep.join((".", "/" + "x" * 300, str(tmp_path))))
    assert find_program("tool") == str(tmp_path / "tool")


def test_pythons_of_ours_import_from_nowhere_they_run() -> None:
    """By `-P`; and they run where no repository is."""
    assert "-P" in python_command("module")
    assert neutral_folder().is_dir()


def test_a_process_leaves_its_folder_and_finds_named_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import argparse
    import sys

    (tmp_path / "sub").mkdir()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(("", "sub", "/absolute")))
    monkeypatch.setattr(sys, "path", [str(tmp_path), str(tmp_path / "sub"), "/absolute", *sys.path])
    here = leave_folder()
    assert here == tmp_path
    assert Path.cwd() == neutral_folder().resolve()
    assert str(tmp_path) not in sys.path
    assert str(tmp_path / "sub") not in sys.path
    assert "/absolute" in sys.path
    arguments = argparse.Namespace(file=Path("a.py"), paths=[Path(), Path("/b")], model="./m.gguf", name="owner/name")
    arguments.draft_model, arguments.student = ["./small", "owner/name"], "./student"
    arguments.boost = ["./one", "two"]
    arguments.drafters = "auto,eagle:weights=a/b,top_k=3,medusa:ranks=false,weights=/c"
    name_fully(arguments, here)
    assert arguments.file == tmp_path / "a.py"
    assert arguments.paths == [tmp_path, Path("/b")]
    assert arguments.model == str(tmp_path / "m.gguf")
    assert arguments.name == "owner/name"
    assert arguments.draft_model == [str(tmp_path / "small"), "owner/name"]
    assert arguments.student == str(tmp_path / "student")
    assert arguments.boost == [str(tmp_path / "one"), "two"]
    assert arguments.drafters == f"auto,eagle:weights={tmp_path / 'a' / 'b'},top_k=3,medusa:ranks=false,weights=/c"


def test_a_folder_that_is_gone_has_no_paths() -> None:
    assert whole_path(Path("/a"), None) == Path("/a")
    with pytest.raises(UsageError, match="no longer exists"):
        whole_path(Path("a"), None)
    assert not any(map(is_path, ("auto", "owner/name", "wheels:smollm2")))
    assert all(map(is_path, ("./x", "../x", "x.gguf", "~/m")))
