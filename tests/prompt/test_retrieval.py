"""Which pieces of files are like the code at a cursor, and what a document imports above its window."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fastcoder_lsp.core import Snapshot, at_once, bounded, ready
from fastcoder_lsp.index.terms import Terms
from fastcoder_lsp.index.word_index import WordIndex
from fastcoder_lsp.prompt import ContextSnippet
from fastcoder_lsp.prompt.retrieval import (
    MAX_IMPORT_CHARACTERS,
    MAX_IMPORT_LINES,
    MAX_PIECES,
    MOST_OF_A_FILE,
    PIECE,
    STEP,
    FileWords,
    Load,
    WordQuery,
    around,
    best_pieces,
    imports_above,
    query_at,
    retrieve,
    worth,
)

CURSOR = "‸"
FILLER = "".join(f"line_{number} = {number}\n" for number in range(60))
OTHER = FILLER.replace("line", "other")
USE = "    store = open_store(path)\n    store.put_all(rows, commit=True)\n"


def loading(files: Mapping[str, FileWords]) -> Load:
    return lambda key: ready(files.get(key))


def ask(files: Mapping[str, str], code: str, window: int = 300) -> tuple[ContextSnippet, ...]:
    """The snippets at the cursor in `code`, the document `main.py`, of which so many characters each side are shown."""
    terms, index = Terms(), WordIndex()
    words = {path: FileWords(text, terms.of_lines(text)) for path, text in files.items()}
    for path, file in words.items():
        index.put(path, file.lines.terms_W)
    before, _, after = code.partition(CURSOR)
    text, offset = before + after, len(before)
    document = Snapshot("u", "main.py", "python", 0, text)
    shown = (max(0, offset - window), offset + window)
    query = query_at(text, offset, index, terms)
    return at_once(retrieve(query, document, offset, shown, index, terms, loading(words)))


def test_a_use_of_the_names_at_hand_comes_first() -> None:
    files = {
        "lib.py": f"{FILLER}\ndef job():\n{USE}\n{FILLER}",
        "far.py": f"path = 1\n{FILLER}",
        "main.py": f"\n{USE}\n{USE}",
    }
    found = ask(files, f"def mine(path, rows):\n    store = open_store(path)\n    {CURSOR}\n")
    assert (found[0].path, found[0].source) == ("lib.py", "lib.py")
    assert "store.put_all(rows" in found[0].text
    assert len(found[0].text.split("\n")) <= PIECE
    assert "main.py" not in {snippet.source for snippet in found}
    assert [one.score for one in found] == sorted((one.score for one in found), reverse=True)


def test_the_document_itself_outside_its_window() -> None:
    code = f"def first():\n{USE}\n{FILLER}\n{FILLER}def second(path):\n    store = open_store(path)\n    {CURSOR}\n"
    found = ask({"other.py": FILLER}, code, window=300)
    assert (found[0].path, found[0].source) == ("main.py", "")
    assert "put_all" in found[0].text
    everything = ask({"other.py": FILLER}, code, window=100_000)
    assert all(snippet.source for snippet in everything)


def test_a_piece_is_told_by_its_first_line() -> None:
    files = {"lib.py": f"{FILLER}\n\n\n\n\ndef job():\n{USE}\n{OTHER}"}
    around_it = f"{FILLER}\n{USE}{FILLER}"
    code = f"{around_it}def mine(path, rows):\n    store = open_store(path)\n    {CURSOR}\n{around_it}"
    texts = files | {"main.py": code.replace(CURSOR, "")}
    found = ask(files, code, window=200)
    assert {one.path for one in found} == {"lib.py", "main.py"}
    for one in found:
        lines = texts[one.path].split("\n")
        assert "\n".join(lines[one.line - 1 :]).startswith(one.text)
    assert len({one.line for one in found if not one.source}) > 1


def test_what_is_imported_stands_nearest() -> None:
    code = (
        f"from lib import open_store\n{FILLER}\n{FILLER}def second(path):\n    store = open_store(path)\n    {CURSOR}\n"
    )
    files = {"lib.py": f"{FILLER}\ndef job():\n{USE}"}
    first, *rest = ask(files, code)
    assert (first.path, first.source, first.text) == ("main.py", "", "from lib import open_store")
    assert rest
    assert all(first.score > one.score for one in rest)
    assert all(one.text != first.text for one in ask(files, code, window=100_000))


def test_an_unreadable_file_takes_no_place() -> None:
    terms, index = Terms(), WordIndex()
    for number in range(40):
        index.put(f"file_{number:02}.py", terms.of(USE))
    texts = {
        f"file_{number:02}.py": f"{USE}    store.close_{number}()\n    path.unlink_{number}()\n" for number in (38, 39)
    }
    allowed = {key: FileWords(text, terms.of_lines(text)) for key, text in texts.items()}
    asked = "store, path = open_store(), rows"
    question = query_at(asked, 5, index, terms)
    here = Snapshot("u", "m.py", "python", 0, asked)
    found = at_once(retrieve(question, here, 5, (0, 999), index, terms, loading(allowed)))
    assert {snippet.source for snippet in found} == set(allowed)


def test_what_is_shown_already_takes_no_place() -> None:
    helper = f"def job(store, rows):\n{USE}{OTHER[:120]}"
    deeper = "\n".join(f"    {line}" for line in helper.split("\n"))
    code = f"{FILLER}def mine(path, rows):\n    store = open_store(path)\n    {CURSOR}\n"
    copies = {f"copy_{number}.py": code.replace(CURSOR, "") + f"a_{number} = path\n" for number in range(20)}
    twins = {f"twin_{number}.py": helper for number in range(20)} | {"wrapped.py": f"class Jobs:\n{deeper}"}
    found = ask(copies | twins, code, window=100_000)
    assert len(found) == 1


def test_each_piece_of_a_repetitive_file_is_scored_once() -> None:
    """A long one in which a hundred pieces are like the window's took a hundred times as long to cut."""

    class Counted(str):
        __slots__ = ()
        cuts = 0

        def split(self, *arguments: Any, **named: Any) -> list[str]:
            Counted.cuts += 1
            return super().split(*arguments, **named)

    code = "".join(f"    value_{number} = open_store({number})\n" for number in range(16))
    text = Counted(code * 100 + OTHER)
    terms, index = Terms(), WordIndex()
    index.put("long.py", terms.of(text))
    files = {"long.py": FileWords(text, terms.of_lines(text))}
    before = Counted.cuts
    shown = Snapshot("u", "m.py", "python", 0, code)
    query = query_at(code, 5, index, terms)
    assert not at_once(retrieve(query, shown, 5, (0, 9999), index, terms, loading(files)))
    assert 0 < Counted.cuts - before <= 2  # for its own judgement, and for all of its pieces


LINES = st.lists(st.sampled_from(["", "alpha beta", "alpha", "gamma_delta beta", "other words"]), max_size=70)


@given(st.lists(LINES, min_size=1, max_size=4), st.sampled_from(["alpha", "beta gamma", "delta alpha beta"]))
@settings(max_examples=60, deadline=None)
def test_pieces_are_within_bounds(texts: list[list[str]], words: str) -> None:
    terms = Terms()
    files = {f"f{number}": terms.of_lines("\n".join(lines)) for number, lines in enumerate(texts)}
    question = WordQuery(np.unique(terms.of(words)), np.ones(len(np.unique(terms.of(words))), np.float32))
    found = best_pieces(question, {key: file for key, file in files.items() if len(file.terms_W)})
    assert len(found) <= MAX_PIECES
    assert [piece.score for piece in found] == sorted((piece.score for piece in found), reverse=True)
    for piece in found:
        file = files[piece.key]
        assert 0 <= piece.begin < piece.end <= file.lines
        assert piece.begin % STEP == 0
        held = file.terms_W[file.starts_L[piece.begin] : file.starts_L[piece.end]]
        assert np.isin(held, question.terms_Q).any()
        same = [other for other in found if other.key == piece.key and other != piece]
        assert len(same) < MOST_OF_A_FILE
        assert all(other.end <= piece.begin or piece.end <= other.begin for other in same)


def test_lines_around_a_cursor() -> None:
    text = "a\nb\nc\nd\ne"
    assert around(text, 4, 1, 1) == "b\nc\nd"
    assert around(text, 5, 0, 0) == "c"
    assert around(text, 0, 5, 0) == "a"
    assert around(text, len(text), 1, 9) == "d\ne"
    assert around("", 0, 3, 3) == ""
    assert len(around("x = 1\n" + "token(1)," * 100_000, 400_000, 5, 5)) <= 2 * bounded.NEAR


def test_worth_of_what_is_shown() -> None:
    terms = Terms()
    numbers = terms.of("alpha beta")
    order = np.argsort(numbers)
    question = WordQuery(numbers[order], np.array([2.0, 1.0], np.float32)[order])
    assert at_once(worth(question, ["alpha alpha", "other"], terms)) == 2.0
    assert at_once(worth(question, ["alpha", "beta"], terms)) == 3.0
    assert at_once(worth(question, [], terms)) == 0.0


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
