"""How many forms of secrets in code and configuration are seen, and that the lines around them stay."""

import pytest

from fastcoder_lsp.workspace.secret_lines import without_secrets
from tests.workspace.secret_forms import forms


@pytest.mark.parametrize("password", ["hunter2", "swordfish", "PLANTED", "Tr0ub4dor&3"])
def test_one_form_in_fifty_goes_along_at_most(password: str) -> None:
    """Over many languages and formats, whatever the password looks like; the lines around stay."""
    missed, judged = [], 0
    for language, text, secrets in forms(password):
        judged += 1
        left = without_secrets(f"above = 1\n{text}\nbelow = 2", language)
        assert left.startswith("above = 1")
        if any(secret in left for secret in secrets):
            missed.append(f"{language}: {text}")
    assert judged > 450
    assert len(missed) <= judged / 50, missed


def test_a_secret_is_seen_behind_any_number_of_quotes() -> None:
    line = "settings = {" + '"a": "b", ' * 300 + '"password": "hunter2"}'
    assert "hunter2" not in without_secrets(line, "python")


@pytest.mark.parametrize(
    ("language", "text"),
    [
        ("python", 'unk_token = "<unk>"'),
        ("python", "tokens = [\n    'NAME',\n    'NUMBER',\n]"),
        ("python", 'error = "The password is missing."'),
        ("python", 'password = getpass("Password: ")'),
        ("python", 'fields = ("username", "password", "token")'),
        ("python", "connect(password=password, token=self.token)"),
        ("python", 'commit = "9338f7b671827df886678df2bdd7cc7b4f36dffd"'),
        ("yaml", "password:\n  type: string\n  description: The password."),
        ("yaml", "token: ${{ secrets.GITHUB_TOKEN }}"),
        ("go", "type User struct {\n\tPassword string\n}"),
        ("shellscript", 'if [ -z "$PASSWORD" ]; then'),
        ("terraform", "password = var.password"),
    ],
)
def test_ordinary_code_stays(language: str, text: str) -> None:
    """Lexers' tokens, sentences, names of fields, references, types, sums."""
    assert without_secrets(text, language) == text
