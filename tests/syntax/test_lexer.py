"""What is a bracket and what only looks like one: tables over languages, and walks that are taken up in the middle."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fastcoder_lsp.syntax import lex
from tests.examples import examples


@pytest.mark.parametrize(
    ("language", "code"),
    [
        ("javascript", "if (/\\)/.test(a)) { b(); }"),
        ("javascript", "const a = s.split(/[/(]/);"),
        ("javascript", "return /{/;"),
        ("typescript", "const a = (b / c) / d; // ("),
        ("typescript", "const a = `(${f(`${b}`, {c: `)`})}(`;"),
        ("typescriptreact", "return <p>Don't {a} / {b}</p>;\n"),
        ("rust", "fn f<'a>(x: &'a str) -> char { '(' }"),
        ("rust", 'let a = r#"(" )"#; /* ( /* ( */ ( */ let b = b"(";'),
        ("go", 'a := `("` + string(\'(\') + "`("'),
        ("c", "int a[] = { '(', '\\'', '\"' };"),
        ("c", "#if A\nif (a) {\n#else\nif (b) {\n#endif\n}"),
        ("cpp", 'auto a = R"x(()" ()x"; int n = 1\'000\'000;'),
        ("java", 'String a = """\n  (" {\n  """;'),
        ("python", "a = r'\\(' + f\"{b['(']}\" + '''(''' # ("),
        ("python", 'a = "it\'s (" \\\n  "("'),
        ("lua", "a = [==[ ( ]] ]==] --[[ ( ]] --( "),
        ("css", "a { background: url(//b.c/d); }"),
        ("ruby", "a = b =~ /\\(/ ? '(' : <<~E\n  (\nE\n"),
        ("ruby", "a = %(b #{c}) + `d #{e(1)} (`"),
        ("perl", "f($#{$a}); print <<E; # (\n(\nE\n"),
        ("php", "f(<<<'E'\n  it's (\n  E\n);"),
        ("shellscript", "a=${#b} # (\ncat <<E\n(\nE\necho '('"),
    ],
)
def test_brackets_in_strings_and_comments_do_not_count(language: str, code: str) -> None:
    found = lex(code, language)
    assert not found.closers
    assert not found.stack
    assert not found.quote


@pytest.mark.parametrize(
    ("language", "code", "quote", "comment"),
    [
        ("python", 'a = """(', '"""', ""),
        ("python", "a  # it's", "", "\n"),
        ("typescript", "a = `b ${c} d", "`", ""),
        ("typescript", "/* (", "", "*/"),
        ("typescript", "a.replace(/[(", "/", ""),
        ("go", "a := `(", "`", ""),
        ("rust", 'let a = r##"("#', '"##', ""),
        ("typescript", "don't\nf(", "", ""),
    ],
)
def test_where_a_text_ends(language: str, code: str, quote: str, comment: str) -> None:
    found = lex(code, language)
    assert (found.quote, found.comment) == (quote, comment)


PARTS = st.sampled_from(
    [
        *"()[]{}\"'`/\n\n #\\ab",
        *("${", "//", "/*", "*/", '"""', "#if\n", "#else\n", "#endif\n", 'r#"', "<<E\n", "--[[", "]]"),
    ]
)
LANGUAGE = st.sampled_from(["python", "typescript", "rust", "go", "cpp", "lua", "ruby", "shellscript", "html", "yaml"])


@given(st.lists(PARTS, max_size=30).map("".join), st.lists(PARTS, max_size=12).map("".join), LANGUAGE)
def test_a_walk_taken_up_is_the_whole_walk(head: str, more: str, language: str) -> None:
    start = lex(head, language).last_line
    whole, resumed = lex(head + more, language), lex(head + more, language, start)
    if more.startswith("\n") or not head or head.endswith("\n") or "<<" in head + more:
        return  # what stands on the last line may have been a string that its end would have closed
    assert 0 <= start.at <= len(head)
    assert (resumed.quote, resumed.comment) == (whole.quote, whole.comment)
    assert [sign for _, sign in resumed.stack] == [sign for _, sign in whole.stack]


@pytest.mark.parametrize("language", ["python", "typescript", "rust", "go", "c", "ruby", "lua", "html", "yaml"])
@pytest.mark.parametrize(
    "unit", ['\\"', "it's ", "=/[", "(", ")", 'r#"', "#if\n", "`${", "/*", '"""', "<<~A ", "[=[", " \n"]
)
def test_the_walk_is_linear(unit: str, language: str) -> None:
    signs = examples(300_000)
    assert lex(unit * (signs // len(unit)), language).last_line.at <= signs
