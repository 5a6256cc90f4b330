"""Where the indentation of a file that shows none comes from: `.editorconfig` and files beside it, in real folders."""

from pathlib import Path

import pytest

from fastcoder_lsp.config import Settings
from fastcoder_lsp.workspace.indentation import IndentationSources
from fastcoder_lsp.workspace.rules import ReadingRules

TABS = "class A {\n\ta() {\n\t\tb();\n\t}\n}\n"


def indentation(root: Path, name: str, language: str, sources: IndentationSources | None = None) -> str:
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch()
    return (sources or IndentationSources()).of(path, language, root, ReadingRules([root], Settings()))


@pytest.mark.parametrize(
    ("config", "name", "expected"),
    [
        ("[*]\nindent_style = tab\n", "a.js", "\t"),
        ("[*]\nindent_style = space\nindent_size = 2\n", "a/b/c.js", "  "),
        ("[*]\nindent_style = SPACE\nindent_size = 3 ; three\n", "a.js", "   "),
        ("[*]\nindent_size = tab\ntab_width = 8\nindent_style = space\n", "a.js", " " * 8),
        ("[*]\nindent_size = 4\n[*.js]\nindent_size = 2\n", "a.js", "  "),
        ("[*]\nindent_size = 4\n[*.js]\nindent_size = 2\n", "a.py", "    "),
        ("[*.{py,js}]\nindent_size = 2\n", "a.js", "  "),
        ("[{a,b}.{py,js}]\nindent_size = 2\n", "b.py", "  "),
        ("[{a,b{1..3}}.js]\nindent_size = 2\n", "b2.js", "  "),
        ("[{a}.js]\nindent_size = 2\n", "{a}.js", "  "),
        ("[src/**.js]\nindent_size = 2\n[/src/*.js]\nindent_size = 3\n", "src/a.js", "   "),
        ("[lib/**/x.js]\nindent_size = 2\n", "lib/a/b/x.js", "  "),
        ("[[ab].js]\nindent_size = 2\n", "b.js", "  "),
        ("[*.ts]\nindent_size = 2\n", "a.js", ""),
        ("[*]\nindent_style = unset\nindent_size = 2\n", "a.js", ""),
        ("[*]\nindent_style = space\n", "a.js", ""),
        ("[*]\nindent_size = 99\n", "a.js", ""),
        ("[*]\nindent_size = ²\n", "a.js", ""),
        ("rubbish\n[*]\nmore rubbish\nindent_style = tab\n", "a.js", "\t"),
        ("[*\nindent_style = tab\n", "a.js", ""),
    ],
)
def test_an_editorconfig_decides(config: str, name: str, expected: str, tmp_path: Path) -> None:
    (tmp_path / ".editorconfig").write_text(config, encoding="utf-8")
    assert indentation(tmp_path, name, "javascript") == expected


def test_the_inner_editorconfig_comes_before_the_outer_one(tmp_path: Path) -> None:
    inner = tmp_path / "a"
    inner.mkdir()
    (tmp_path / ".editorconfig").write_text("[*]\nindent_style = tab\n", encoding="utf-8")
    (inner / ".editorconfig").write_text("[*.js]\nindent_style = space\nindent_size = 2\n", encoding="utf-8")
    assert indentation(tmp_path, "a/x.js", "javascript") == "  "
    assert indentation(tmp_path, "a/x.go", "go") == "\t"
    (inner / ".editorconfig").write_text("root = true\n", encoding="utf-8")
    assert indentation(tmp_path, "a/x.go", "go") == ""


def test_an_editorconfig_outside_of_the_folder_is_not_read(tmp_path: Path) -> None:
    root = tmp_path / "root"
    root.mkdir()
    (tmp_path / ".editorconfig").write_text("[*]\nindent_style = tab\n", encoding="utf-8")
    assert indentation(root, "a.js", "javascript") == ""
    (root / ".editorconfig").symlink_to(tmp_path / ".editorconfig")
    assert indentation(root, "a.js", "javascript") == ""


def test_a_changed_editorconfig_holds_at_once(tmp_path: Path) -> None:
    sources, config = IndentationSources(), tmp_path / ".editorconfig"
    assert indentation(tmp_path, "a.js", "javascript", sources) == ""
    config.write_text("[*]\nindent_style = tab\n", encoding="utf-8")
    assert indentation(tmp_path, "a.js", "javascript", sources) == "\t"
    config.write_text("[*]\nindent_size = 2\n", encoding="utf-8")
    assert indentation(tmp_path, "a.js", "javascript", sources) == "  "
    config.unlink()
    assert indentation(tmp_path, "a.js", "javascript", sources) == ""


@pytest.mark.parametrize(
    "config",
    [
        f"[{'*a' * 200}c]\nindent_style = tab\n" * 50,
        f"[{'{a,b}' * 90}]\nindent_style = tab\n" * 50,
        f"[{'{' * 200}]\nindent_style = tab\n" * 50,
        "[*]\n" + " " * 60_000 + "\n",
        "[*]\na" + " " * 60_000 + "b\n",
        f"[{'[a' * 200}]\n" * 100,
        "[{1..999999}.js]\nindent_style = tab\n",
        "[\\]\n[!]\n[#]\n[{}]\n[{,}]\n[{a,]\n",
    ],
)
def test_a_hostile_editorconfig_costs_little(config: str, tmp_path: Path) -> None:
    (tmp_path / ".editorconfig").write_text(config, encoding="utf-8")
    assert indentation(tmp_path, "a" * 150 + "b", "javascript") == ""  # a pattern that backtracks takes years


def test_files_of_the_language_beside_it_decide_next(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("def f():\n  return 1\n", encoding="utf-8")
    (tmp_path / "b.js").write_text("let a = 1;\n", encoding="utf-8")
    (tmp_path / "c.js").write_text(TABS, encoding="utf-8")
    assert indentation(tmp_path, "new.js", "javascript") == "\t"
    assert indentation(tmp_path, "new.py", "python") == "  "
    assert indentation(tmp_path, "new.go", "go") == ""
    (tmp_path / ".gitignore").write_text("c.js\n", encoding="utf-8")
    (tmp_path / ".git").mkdir()
    assert indentation(tmp_path, "new.js", "javascript") == ""
    (tmp_path / ".editorconfig").write_text("[*.py]\nindent_size = 3\n", encoding="utf-8")
    assert indentation(tmp_path, "new.py", "python") == "   "
