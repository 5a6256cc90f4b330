"""What a document imports above its window."""

import pytest

from fastcoder_lsp.prompt.retrieval import MAX_IMPORT_CHARACTERS, MAX_IMPORT_LINES, imports_above


@pytest.mark.parametrize(
    ("language", "text", "expect"),
    [
        (
            "python",
            '"""Text."""\n\nimport os\nfrom a.b import (\n    one,\n    two,\n)\n\ndef f():\n    import late\n',
            "import os\nfrom a.b import ( one, two, )",
        ),
        (
            "typescriptreact",
            'import {\n  A,\n  type B,\n} from "./a";\nimport "./side";\nconst x = {\n};\nconst fs = require("fs");\n',
            'import { A, type B, } from "./a";\nimport "./side";\nconst fs = require("fs");',
        ),
        ("go", 'package a\n\nimport (\n\t"fmt"\n\n\t"os"\n)\n', 'import ( "fmt" "os" )'),
        ("rust", "use std::{\n    fs,\n    io,\n};\nuser(1);\n", "use std::{ fs, io, };"),
        ("rust", "pub(crate) use a::b;\npub mod c;\nuse d;\n", "pub(crate) use a::b;\nuse d;"),
        ("cpp", "#include <a>\n#define B 1\nint c;\n", "#include <a>"),
        ("plaintext", "import nothing\n", ""),
        ("python", "", ""),
    ],
)
def test_each_statement_on_a_line(language: str, text: str, expect: str) -> None:
    assert imports_above(text, len(text), language) == expect


def test_what_the_window_shows_is_not_repeated() -> None:
    text = "import one\nimport two\nimport three\n"
    assert imports_above(text, text.index("two"), "python") == "import one"
    assert imports_above(text, 0, "python") == ""


def test_it_is_bounded() -> None:
    many = "".join(f"import module_{number}\n" for number in range(500))
    found = imports_above(many, len(many), "python")
    assert MAX_IMPORT_CHARACTERS - 20 < len(found) <= MAX_IMPORT_CHARACTERS
    assert many.startswith(found)
    broken = "from a import (\n" + "    name,\n" * (MAX_IMPORT_LINES + 5) + "import after\n"
    assert imports_above(broken, len(broken), "python") == "import after"
