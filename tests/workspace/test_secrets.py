"""Which lines look like secrets: how many of 236 forms go along, and how many ordinary lines are left out."""

import inspect
import random
import re
from collections.abc import Callable
from importlib import import_module
from pathlib import Path

import pytest

from fastcoder_lsp.workspace import secret_lines
from fastcoder_lsp.workspace.secret_lines import (
    MAX_LINE,
    REACH,
    in_file,
    in_secret,
    judge,
    judge_unfinished,
    without_secrets,
)
from fastcoder_lsp.workspace.typed_secrets import types_secret

FORMS = Path(__file__).with_name("secret_forms.txt").read_text(encoding="utf-8").splitlines()
"""Language and form; `⏎` ends a line, `@@` is a password, `@20@` are random letters, `@h20@` hexadecimal digits."""
LETTERS = "abcdefghijkmnopqrstuvwxyzABCDEFGHJKLMNPQRSTUVWXYZ23456789"
KINDS = {None: LETTERS, "h": "0123456789abcdef", "u": LETTERS.upper()}
ORDINARY = (
    *("argparse", "ast", "asyncio.base_events", "collections", "dataclasses", "difflib", "http.client", "inspect"),
    *("json.decoder", "logging", "pathlib", "random", "shutil", "smtplib", "ssl", "tokenize", "typing", "zipfile"),
)


@pytest.mark.parametrize("password", ["hunter2", "swordfish", "PLANTED", "Tr0ub4dor&3"])
def test_few_forms_of_secrets_go_along(password: str) -> None:
    missed, draw = [], random.Random(7)
    for language, form in (row.split("\t") for row in FORMS):
        held = list[str]()

        def value(match: re.Match[str], held: list[str] = held) -> str:
            held.append("".join(draw.choices(KINDS[match[1]], k=int(match[2]))) if match[2] else password)
            return held[-1]

        text = re.sub(r"@(?:([hu])?(\d+)@|@)", value, form.replace("⏎", "\n"))
        left = without_secrets(f"above = 1\n{text}\nbelow = 2", language)
        assert left.startswith("above = 1"), form
        assert left.endswith("below = 2"), form
        if any(secret in left for secret in held):
            missed.append(form)
    assert len(FORMS) >= 236
    assert len(missed) <= 25, missed


def test_few_ordinary_lines_are_left_out() -> None:
    lines = [inspect.getsource(import_module(name)).split("\n") for name in ORDINARY]
    left_out = sum(sum(judge(file, "python")) for file in lines)
    assert left_out <= 0.006 * sum(map(len, lines))


@pytest.mark.parametrize(
    ("left", "language"),
    [
        ('password = "', "python"),
        ("db_password: 'hun", "python"),
        ('connect(user="me", password="', "python"),
        ('{"api_key": "', "json"),
        ("const apiKey: string = `ab", "typescript"),
        ('"clientSecret" => "', "ruby"),
        ("const API_KEY: &'static str = \"", "rust"),
        ('DB_PASS = "', "python"),
        ("export AWS_SECRET_ACCESS_KEY=", "shellscript"),
        ("  github_token: ", "yaml"),
        ('headers["X-Auth-Token"] = "', "python"),
        ("key = load('ghp_abcd1234", "python"),
        ("-----BEGIN RSA PRIVATE KEY-----\nMIIE", "plaintext"),
    ],
)
def test_a_secret_that_is_being_typed(left: str, language: str) -> None:
    assert in_secret(f"first line\n{left}", language)
    assert types_secret(f"first line\n{left}", language)
    assert judge_unfinished("first line\n", left.split("\n"), language)[-1] or "BEGIN" in left


@pytest.mark.parametrize(
    ("left", "language"),
    [
        ("password = get", "python"),
        ("if password == other_pass", "python"),
        ("def check(password: str, token: str) -> ", "python"),
        ('token_type = "bea', "python"),
        ("token = tokens[", "python"),
        ('log = log.bind(foo="bar")', "python"),
        ('states = ["enabled", "включено", "Изключете"]', "python"),
        ('pass_rate = "', "python"),
        ("def test_that_what_was_typed_20_times_is_known_", "python"),
        ("https://example.org/api/2024-01-01/items/12345", "plaintext"),
        ("-----BEGIN RSA PRIVATE KEY-----\nMIIE\n-----END RSA PRIVATE KEY-----\nx = ", "plaintext"),
        ("import { AuthTokenProvider, ApiKeyProvider } from './auth", "typescript"),
    ],
)
def test_code_in_which_suggestions_are_made(left: str, language: str) -> None:
    assert not in_secret(f"first line\n{left}", language)
    assert not types_secret(f"first line\n{left}", language)


PLACES = [
    row.replace("⏎", "\n").split("\t")
    for row in Path(__file__).with_name("typed_places.txt").read_text(encoding="utf-8").splitlines()
]
"""What the user types, the language, and the text left of the cursor."""


@pytest.mark.parametrize(("typed", "language", "left"), PLACES)
def test_suggestions_are_missing_only_where_a_secret_is_typed(typed: str, language: str, left: str) -> None:
    for value in ("", "tun", "tuna9"):
        if not (value == "" and left.endswith("\n")):
            assert types_secret(f"first line\n{left}{value}", language) == (typed == "secret"), value


def test_most_forms_of_secrets_get_no_suggestions() -> None:
    """The others are values whose own name does not say so."""
    begun = [
        (language, form[: form.index("@")].replace("⏎", "\n")) for language, form in (row.split("\t") for row in FORMS)
    ]
    missed = [form for language, form in begun if not types_secret(f"above = 1\n{form}", language)]
    assert len(missed) <= 43, missed


def test_ordinary_code_gets_suggestions_at_its_strings() -> None:
    texts = [inspect.getsource(import_module(name)) for name in ORDINARY]
    places = [text[: quote.end()] for text in texts for quote in re.finditer("[\"']", text)]
    assert sum(types_secret(place, "python") for place in places) <= 0.002 * len(places)


@pytest.mark.parametrize("end", ["", "= 'a"])
def test_a_long_line_is_judged_by_its_end(end: str) -> None:
    assert not types_secret("word " * 1_000 + end, "python")
    assert types_secret("word " * 1_000 + "password = 'a", "python")


def test_the_text_above_a_piece_is_judged_with_it() -> None:
    file = 'KEYS = """\nfirst\nplain words\n"""\nTOKENS = [\n    "swordfish",\n]\nname = "tuna"\n'
    assert in_file("plain words", file.replace("KEYS", "API_TOKEN"), "python") == ""
    assert in_file("plain words", file, "python") == "plain words"
    assert in_file('    "swordfish",\n]\nname = "tuna"', file, "python") == ']\nname = "tuna"'


def test_a_private_key_is_left_out_to_its_end() -> None:
    key = "-----BEGIN PRIVATE KEY-----\n" + "plain words\n" * 3_000 + "-----END PRIVATE KEY-----\n"
    assert without_secrets(f"above\n{key}below", "python") == "above\nbelow"


@pytest.mark.parametrize("part", ["x", '"a", ', "token=", "key=", "login("])
def test_a_line_too_long_to_judge_is_left_out(part: str) -> None:
    assert without_secrets(f"above\n{part * 50_000}\nbelow", "python") == "above\nbelow"


@pytest.mark.parametrize(
    "part",
    [
        *("a", " ", "token=", "token: ", '"', '("token","', "'", "\\", "://a:b", "set_token(", "auth=(", "curl -u "),
        *("<token>", "--token ", "token||", "mysql -", "echo aaa>token ", "name: password value: ", "machine ", "A1b"),
    ],
)
def test_no_line_takes_longer_than_its_length(part: str) -> None:
    """It would run for hours if a pattern could backtrack."""
    for begins in ("", "token=", "machine ", 'auth=("'):
        text = "\n".join([(begins + part * MAX_LINE)[:MAX_LINE]] * 3)
        without_secrets(text, "python")
        types_secret(text, "shellscript")
        types_secret(f"{text} = '", "python")


def test_a_judgement_reads_a_bounded_text(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the size of the file, and wherever the place is in it; and of a line that grows, that line alone."""
    read = list[int]()
    one = secret_lines._Scan.read

    def counting(scan: secret_lines._Scan, line: str) -> bool:
        read.append(len(line) + 1)
        return one(scan, line)

    def cost(judgement: Callable[..., object], *given: object) -> int:
        read.clear()
        judgement(*given, "python")
        return sum(read)

    monkeypatch.setattr(secret_lines._Scan, "read", counting)
    for line in ("", "token(a, b)", "x" * 900, "A" * 64):
        text = f"{line}\n" * (1_000_000 // (len(line) + 1))
        assert 0 < cost(judge_unfinished, text, ["x = 1"]) <= REACH + 1_000
        assert 0 < cost(in_file, "x = 1", f"{text}x = 1") <= REACH + 1_000
        assert 0 < cost(in_secret, text) <= REACH + 1_000
        assert 0 < cost(in_secret, f"{text}x = 1") <= 2 * len("x = 1\n")
