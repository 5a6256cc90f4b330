"""Which files hold secrets, told by their names alone: such a file is never opened, shown to a model, or indexed."""

import re
from fnmatch import translate
from pathlib import PurePath
from typing import Final

_NAMES: Final = (
    # environment and tool settings that hold passwords
    *(".env*", "*.env", ".netrc", "_netrc", ".npmrc", ".yarnrc*", ".pypirc", ".pgpass", ".my.cnf", ".mylogin.cnf"),
    *(".git-credentials", ".htpasswd", ".htaccess", ".dockercfg", ".dockerconfigjson", ".s3cfg", ".boto", ".authinfo*"),
    *(".vault-token", ".vault_pass*", ".pip.conf", "pip.conf", ".rhosts", ".esmtprc", ".msmtprc", "kubeconfig*"),
    # keys, certificates, key stores
    *("id_rsa*", "id_dsa*", "id_ecdsa*", "id_ed25519*", "*.pem", "*.key", "*.ppk", "*.p12", "*.pfx", "*.p8", "*.jks"),
    *("*.keystore", "*.truststore", "*.bks", "*.kdb", "*.kdbx", "*.crt", "*.cer", "*.cert", "*.der", "*.csr", "*.p7b"),
    *("*.p7c", "*.asc", "*.gpg", "*.pgp", "*.ovpn", "*.age", "*.jwk", "*.jwks", "wallet.dat", "authorized_keys*"),
    # credentials of clouds and services
    *("credentials", "credential", "client_secret*.json", "client-secret*.json", "*service-account*.json"),
    *(
        "*service_account*.json",
        "*serviceaccount*.json",
        "*-credentials.json",
        "*_credentials.json",
        "google-services.json",
    ),
    *(
        "application_default_credentials.json",
        "*.tfvars",
        "*.tfvars.json",
        "*.tfstate",
        "*.tfstate.*",
        "*.publishsettings",
    ),
    *("token", "tokens", "*.token", "*.tokens", "*.secret", "*.secrets", "*.credentials", "*.password", "*.passwd"),
    *("passwd", "shadow", "master.key", "hosts.yml.secret"),
)
_NAME: Final = re.compile("|".join(map(translate, _NAMES)))
"""All of them as one: a first look through a large repository asks for every file."""
_DATA_STEMS: Final = frozenset(
    ("credential", "credentials", "secret", "secrets", "token", "tokens", "password", "passwords", "apikeys")
)
_DATA_SUFFIXES: Final = frozenset(
    (
        *(".json", ".jsonc", ".yaml", ".yml", ".toml", ".ini", ".cfg", ".conf", ".config", ".xml", ".txt", ".csv"),
        *(".properties", ".plist", ".db", ".sqlite", ".enc", ".bak"),
    )
)
_FOLDERS: Final = frozenset(
    (
        ".ssh",
        ".gnupg",
        ".aws",
        ".azure",
        ".kube",
        ".docker",
        ".gcloud",
        ".password-store",
        ".vault",
        ".chef",
        ".secrets",
    )
)
_LANGUAGES: Final = frozenset(("dotenv", "env", "netrc", "pem"))


def is_secret(path: PurePath, below: PurePath | None = None) -> bool:
    """Whether a file at `path` is taken to hold secrets; the names of its folders count too, those `below` a root."""
    inside = path.relative_to(below) if below is not None and path.is_relative_to(below) else path
    return is_secret_name(path.name) or any(map(is_secret_folder, inside.parts[:-1]))


def is_secret_name(name: str) -> bool:
    """Whether a file of this name is taken to hold secrets wherever it lies."""
    name = name.lower()
    if _NAME.match(name):
        return True
    stem, dot, _ = name.partition(".")
    return bool(dot) and stem in _DATA_STEMS and PurePath(name).suffix in _DATA_SUFFIXES


def is_secret_folder(name: str) -> bool:
    """Whether what lies in a folder of this name, at any depth, is taken to be secret."""
    return name.lower() in _FOLDERS


def is_secret_language(language: str) -> bool:
    """Whether the editor's language id says that the text holds secrets (of an untitled document, say)."""
    return language.lower() in _LANGUAGES
