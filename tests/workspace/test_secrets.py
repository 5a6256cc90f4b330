"""Which lines look like secrets, in how many forms, and that the lines around them stay."""

from pathlib import Path

import pytest

from fastcoder_lsp.workspace.secret_lines import in_secret, without_secrets
from tests.workspace.secret_forms import FITTED, MORE, forms, written

SECRETS = [
    ('password = "', "python"),
    ("db_password: 'hun", "python"),
    ('connect(user="me", password="', "python"),
    ('{"api_key": "', "json"),
    ("const apiKey: string = `ab", "typescript"),
    ('"clientSecret" => "', "ruby"),
    ("const API_KEY: &'static str = \"", "rust"),
    ('string password = @"', "csharp"),
    ('DB_PASS = "', "python"),
    ("stripe.api = 'sk_test_abcd", "python"),
    ("export AWS_SECRET_ACCESS_KEY=", "shellscript"),
    ("  github_token: ", "yaml"),
    ('headers["X-Auth-Token"] = "', "python"),
    ("key = load('ghp_abcd", "python"),
    ("x = 'AKIAIOSF", "python"),
    ("digest = 5d41402abc4b2a76b9719d911017c592a", "plaintext"),
    ("id = 'Zm9vYmFyMTIzNDU2Nzg5MGFiY2RlZg", "python"),
    ("-----BEGIN RSA PRIVATE KEY-----\nMIIE", "plaintext"),
]
NO_SECRETS = [
    ("password = get", "python"),
    ("if password == other_pass", "python"),
    ("def check(password: str, token: str) -> ", "python"),
    ('token_type = "bea', "python"),
    ('password_field = "pass', "python"),
    ("token = tokens[", "python"),
    ('pass_rate = "', "python"),
    ('key = "name', "python"),
    ("def test_that_what_was_typed_20_times_is_known_", "python"),
    ("https://example.org/api/2024-01-01/items/12345", "plaintext"),
    ("monkey = 'banana", "python"),
    ("-----BEGIN RSA PRIVATE KEY-----\nMIIE\n-----END RSA PRIVATE KEY-----\nx = ", "plaintext"),
    ("import { AuthTokenProvider, ApiKeyProvider } from './auth", "typescript"),
]


@pytest.mark.parametrize(("left", "language"), SECRETS)
def test_what_looks_like_a_secret(left: str, language: str) -> None:
    assert in_secret(f"first line\n{left}", language)


@pytest.mark.parametrize(
    ("opens", "closes", "line"), [("", "", "{}"), ("KEY = (\n    '", "'", "    '{}\\n'"), ("", "", "{} ")]
)
def test_a_key_of_thousands_of_lines(opens: str, closes: str, line: str) -> None:
    body = "\n".join(line.format("A" * 40) for _ in range(3_000))
    key = f"above\n{opens}-----BEGIN PRIVATE KEY-----{closes}\n{body}\n"
    assert in_secret(key + "    AA", "python")
    assert not in_secret(f"{key}words in a line\n{body}\n    AA", "python")
    assert without_secrets(f"{key}-----END PRIVATE KEY-----\nbelow", "python").split("\n")[-1] == "below"
    assert "A" not in without_secrets(f"{key}-----END PRIVATE KEY-----\nbelow", "python")


@pytest.mark.parametrize(("left", "language"), NO_SECRETS)
def test_what_does_not(left: str, language: str) -> None:
    assert not in_secret(f"first line\n{left}", language)


@pytest.mark.parametrize(("language", "line"), written("secret_lines.txt"))
def test_what_is_left_out(language: str, line: str) -> None:
    left = without_secrets(f"above = 1\n{line}\nbelow = 2", language)
    assert "PLANTED" not in left
    if language == "python":
        assert left.startswith("above = 1\n")
        assert left.endswith("below = 2")


@pytest.mark.parametrize(("language", "line"), written("secret_lines_alone.txt"))
def test_what_is_left_out_without_a_name_or_letters(language: str, line: str) -> None:
    assert without_secrets(line, language) == ""


@pytest.mark.parametrize(("language", "text"), written("no_secret_lines.txt"))
def test_what_stays(language: str, text: str) -> None:
    assert without_secrets(text, language) == text


@pytest.mark.parametrize(
    "line", ["console.log(`the token: ` + shown)", '    """Takes a token: """', f'token = """{"one two " * 60}"""']
)
def test_a_string_that_ends_in_its_line_takes_none_below_along(line: str) -> None:
    assert without_secrets(f"{line}\nbelow = 1", "python").endswith("below = 1")


@pytest.mark.parametrize(
    "part",
    [
        *("a", " ", "token=", "token: ", "token\t", "\n", '"', '("token","', "://a:b", "set_token(", "auth=("),
        *("curl -u ", "<token>", ";token=", "--token ", "token||", "mysql -", "-e ", "key=", "echo aaa | "),
        *("echo aaa>token ", "name: password\nvalue: ", "- value: a\n", '"--token",', "sudo -S <<<", "a:5432:"),
        *("user a on ", "https://aaaaaa", "net use a \\\\\\\\"),
    ],
)
def test_long_lines_take_no_longer_than_their_length(part: str) -> None:
    """Nothing in a repository's text can make a judgement hang: this would run for hours where time grew by a power."""
    for text in (part * 3000, f"token={part * 3000}x", f'token=("""{part * 3000}', f"auth=({part * 3000}"):
        without_secrets(text, "python")


def test_the_value_of_a_property_stands_below_its_name() -> None:
    text = '<property name="password">\n  <value>plain-words</value>\n</property>'
    assert "plain-words" not in without_secrets(text, "xml")


NETRC_IN = {
    "": "machine a.b\n  login joe\n  password {}\n",
    "python": 'NETRC = """\nmachine a.b login joe\npassword\n\n  {}\n"""\n',
    "c": 'f("machine a.b\\n"\n  "login joe\\n"\n  "password {}\\n");\n',
    "go": 'f("machine a.b\\nlogin joe\\npassword {}\\n")\n',
    "diff": "+default\n+login joe\n+account x password {}\n",
    "plaintext": "machine\na.b\nlogin\njoe # it's me\npassword\n{}\nmacdef x\n",
}


@pytest.mark.parametrize("language", NETRC_IN)
def test_a_netrc_entry_is_one_in_any_text(language: str) -> None:
    text = NETRC_IN[language].format("plainword")
    assert "plainword" not in without_secrets(f"a = 1\n{text}b = 2\n", language)
    assert in_secret(text[: text.index("plainword") + 3], language)


@pytest.mark.parametrize("password", ["hunter2", "swordfish", "PLANTED", "Tr0ub4dor&3"])
@pytest.mark.parametrize(("table", "least", "one_in"), [(FITTED, 500, 100), (MORE, 900, 25)])
def test_few_forms_go_along(table: Path, least: int, one_in: int, password: str) -> None:
    missed, judged = [], 0
    for language, text, secrets in forms(table, password):
        judged += 1
        left = without_secrets(f"above = 1\n{text}\nbelow = 2", language)
        assert left.startswith("above = 1")
        assert left.endswith("below = 2"), text
        if any(secret in left for secret in secrets):
            missed.append(f"{language}: {text}")
    assert judged > least
    assert len(missed) <= judged / one_in, missed


@pytest.mark.parametrize("language", ["python", "shellscript", "xml"])
@pytest.mark.parametrize("part", ["x", '"a", ', "token=", "key=", "login("])
def test_a_line_that_is_too_long_to_judge_goes_along_in_no_case(part: str, language: str) -> None:
    assert without_secrets(f"above\n{part * 50_000}\nbelow", language) == "above\nbelow"


def test_no_line_of_an_array_goes_along() -> None:
    text = "uint8_t aes_key[8] = {\n    0x9f, 0x2c, 0x11, 0xd4,\n    0x8e, 0x2c, 0x11, 0xd4\n};"
    assert "0x" not in without_secrets(text, "c").replace("aes_key[8]", "")


def test_a_secret_is_seen_behind_any_number_of_quotes() -> None:
    line = "settings = {" + '"a": "b", ' * 300 + '"password": "hunter2"}'
    assert "hunter2" not in without_secrets(line, "python")


def test_a_bracket_that_is_closed_behind_a_secret_takes_no_line_below_along() -> None:
    text = 'connect(password="hunter2", options={"a": b})\nname = "abc1"'
    assert without_secrets(text, "python") == 'name = "abc1"'
