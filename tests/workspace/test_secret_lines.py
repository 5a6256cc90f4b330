"""Which lines look like secrets, and which only speak of them."""

import pytest

from fastcoder_lsp.workspace.secret_lines import in_secret

SECRETS = [
    ('password = "', "python"),
    ("db_password: 'hun", "python"),
    ('connect(user="me", password="', "python"),
    ('{"api_key": "', "json"),
    ("const apiKey: string = `ab", "typescript"),
    ('"clientSecret" => "', "ruby"),
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
    ('key = "name', "python"),
    ("def test_that_what_was_typed_20_times_is_known_", "python"),
    ("https://example.org/api/2024-01-01/items/12345", "plaintext"),
    ("monkey = 'banana", "python"),
    ("-----BEGIN RSA PRIVATE KEY-----\nMIIE\n-----END RSA PRIVATE KEY-----\nx = ", "plaintext"),
    ("import { AuthTokenProvider, ApiKeyProvider } from './auth", "typescript"),
]


@pytest.mark.parametrize(("left", "language"), SECRETS)
def test_what_looks_like_a_secret(left: str, language: str) -> None:
    """The value of something named so, well-known beginnings, random characters, the block of a private key."""
    assert in_secret(f"first line\n{left}", language)


@pytest.mark.parametrize(("left", "language"), NO_SECRETS)
def test_what_does_not(left: str, language: str) -> None:
    """Code about secrets, long names, addresses, keys that ended above."""
    assert not in_secret(f"first line\n{left}", language)
