"""What a file imports; and that no file is slow to look at."""

import pytest

from benchmarks.quality.by_names import related
from benchmarks.quality.imports import MOST_IMPORTS, MOST_NAMES, Import, imports_of, tails
from fastcoder_lsp.core import Snapshot


def found(text: str, language: str = "python") -> list[Import]:
    return imports_of(Snapshot("u", "app/main.py", language, 0, text))


def test_python() -> None:
    """Modules with the names taken from them, over several lines too; names of two letters tell nothing."""
    text = (
        "import os.path\nfrom app.store import Store, open_store as opened  # as ever\n\tfrom . import (\n    first,\n"
        "    second,\n)\nfrom ..up import *\nx = 'import nothing'\nimportant = 1\nfrom nowhere\n"
    )
    assert found(text) == [
        Import("os.path", ()),
        Import("app.store", ("Store", "open_store", "opened")),
        Import(".", ("first", "second")),
        Import("..up", ()),
    ]


def test_scripts() -> None:
    """Default, named and type imports, over several lines; one without names brings none."""
    text = (
        "import React from 'react';\nimport type { User } from \"./user\"\nimport {\n  load,\n  save as store,\n}\n"
        "from '../lib/io';\nimport './style.css';\nimport('late');\nconst from = 'x'\n"
    )
    assert found(text, "typescript") == [
        Import("react", ("React",)),
        Import("./user", ("User",)),
        Import("../lib/io", ("load", "save", "store")),
    ]


def test_where_a_module_may_lie() -> None:
    """Relative to the importing file, or from any folder of modules; a package's name is not looked for."""
    assert tails("app.store", "app/main.py", "python") == ("app/store.py", "app/store/__init__.py")
    assert tails(".store", "app/main.py", "python") == ("app/store.py", "app/store/__init__.py")
    assert tails("..up", "app/inner/main.py", "python") == ("app/up.py", "app/up/__init__.py")
    assert tails("....far", "app/main.py", "python") == ("far.py", "far/__init__.py")
    assert tails("../lib/io", "src/app/main.ts", "typescript")[:2] == ("src/lib/io", "src/lib/io.ts")
    assert tails("../../../etc/passwd", "app/main.ts", "typescript")[0] == "etc/passwd"
    assert tails("react", "app/main.ts", "typescript") == ()


@pytest.mark.parametrize("language", ["python", "typescript"])
@pytest.mark.parametrize(
    "text",
    [
        "\n" * 400_000,
        " \n" * 200_000,
        "import \n" * 60_000,
        "from a import (\n" * 30_000,
        "from " + "." * 400_000,
        ("from " + "." * 4_900 + "\n") * 80,
        ("from" + " " * 4_900 + "\n") * 80,
        "import " + "\n" * 400_000,
        "import {" + "a, " * 130_000,
        "import a from\n" * 30_000,
        ("import a " + " " * 1_900 + "from\n") * 200,
        "async\n" * 70_000,
        "async " * 70_000,
        "export " * 60_000,
        ("class" + " " * 4_900 + "\n") * 80,
        "from x import " + ",".join(f"name_{number}" for number in range(40_000)),
    ],
)
def test_no_text_is_slow_to_look_at(text: str, language: str) -> None:
    """Some 400,000 characters take milliseconds; work that grew with their square would run into the time limit."""
    imports = found(text, language)
    assert len(imports) <= MOST_IMPORTS
    assert all(len(one.names) <= MOST_NAMES for one in imports)
    names = " ".join(sorted({name for one in imports for name in one.names})[:50])
    related(Snapshot("u", "app/main.py", language, 0, f"{text}\n{names}"), len(text), {"x.py": text, "app/a.ts": text})
