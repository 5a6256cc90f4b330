"""Names of secrets, in many natural languages: `dbPassword`, `AWS_SECRET_ACCESS_KEY`, `mot_de_passe`."""

import re
from collections.abc import Sequence
from enum import IntEnum
from functools import lru_cache
from itertools import pairwise


def words(text: str) -> frozenset[str]:
    """The words of a list."""
    return frozenset(text.split())


NAME = re.compile(r"[^\W\d_]\w*+(?:-\w++)*+")  # a whole name in a line
_WORDS = words(
    "password passwd pswd pwd passphrase passcode passkey secret credential cred creds apikey passin passout psk "
    "passwort kennwort contraseña contrasena senha motdepasse mdp пароль парола пароли hasło haslo heslo wachtwoord "
    "lösenord losenord salasana şifre sifre parola jelszó jelszo 密码 密碼 口令 パスワード 비밀번호 암호 mnemonic "
    "kodeord passord palavrapasse clavesecreta requirepass authtoken accesstoken secretkey privatekey accesskey "
    "stringdata chararray identified basicauth bearerauth securestring pgpass seedphrase recoveryphrase "
    "totpseed otpseed mfaseed"
)
_LAST = frozenset(("pass", "pw"))  # last words that mark a secret
_ENDINGS = (
    *("password", "passwd", "passphrase", "apikey", "secret", "token", "passwort", "secretkey", "privatekey"),
    *("accesskey", "pw", "pass"),
)
"""Endings that mark a secret in names without separators, as in PGPASSWORD."""
_WHOLE = words("token pass bypass compass encompass trespass surpass overpass underpass multipass onepass singlepass")
"""Words with such an ending that mark no secret."""
_KINDS_OF_KEY = words(
    "api access private secret signing jwt aes hmac maps crypto security symmetric encryption auth account client "
    "master ssh app shared license"
)
_KINDS_OF_TOKEN = words(
    "api access auth bearer refresh id session csrf xsrf github gitlab gh gl slack npm bot deploy personal user admin "
    "service jwt oauth oauth2 security registration device client hf discord telegram ci vault consul x secret private"
)
_OTHER = words(
    "name names id ids url urls uri path paths file files filename type types length len count counts field fields "
    "label prompt hint placeholder help error errors message messages msg title header headers param params arg args "
    "index pos position size limit max min regex pattern format version expires expiry expiration ttl timeout class "
    "provider handler manager policy validator style color kind enum strategy algorithm algo method mode status state "
    "scope scopes issuer endpoint source var variable option options flag attr attribute column table input form "
    "output dialog view page test tests ref reference required enabled supported strength rules rule callback function "
    "fn "
    "lifetime generator factory store service client request response usage description desc text bytes encoding"
)
"""Last words of names that belong to no secret."""
_FAINT = words(
    "key auth authorization cookie session sessionid sid csrf jwt signature sig salt otp nonce license signer"
)
_PARTS = re.compile(r"[^\W\d_a-z]+(?![a-z])|[^\W\d_a-z]?[^\W\d_A-Z]+")
_CALLS = words(
    "login signin logon authenticate auth sign credential encrypt decrypt fernet scrypt bcrypt mysqli pdo jwt "
    "ftp smtp imap"
)
"""Last words of functions with unnamed secrets as arguments."""
_CALLED = re.compile(
    r"hmac|pbkdf|basicauth|comparedigest|timingsafe|constanttime|securecompare|credential|secretkeyspec|signedstring|symmetric"
    r"|(?:db|dbi|sql|mqtt|ssh|ftp|pg|wifi|imap|smtp|ldap|amqp|get|real)i?(?:client)?(?:begin|connect|bind|session)|oracle|sequelize|env(?=connect)|aesnew|unlock|addlogin|(?:ldap|imap|sql)\w*(?:connect|bind|session|open|login)|cipheriv|wifi\w*config|createuser|keyspec|signin|signwith|comparesync|checkpw|jwt|(?:bcrypt|argon\w*|scrypt)hash"
)
"""Parts of the names of such functions."""
LIKELY = re.compile(
    r"(?i)pass|pwd|pswd|pw(?![a-z])|mdp\b|secret|token|key|cred|bearer|basic|auth|identified|psk|kennwort|contrase|senha|паро|has[łl]o|heslo"
    r"|wachtwoord|l[öo]senord|salasana|[şs]ifre|parola|jelsz|密|口令|パスワード|비밀번호|암호|mnemonic|kodeord|://|\b(?:curl|mysql|login|"
    r"redis-cli|ldap|docker|mongo|az\b|htpasswd)|connect|PDO|SecureString|session|cookie|\bsid\b|signature|salt|nonce|jwt|\botp\b"
    r"|hmac|aes|chararray|string_?data|sign|crypt|cipher|login|logon|mysql|wifi|ftp|compare|b64|timing|fernet|create_?user|smbclient|unzip|7z|openssl|sudo"
    r"|chpasswd|unlock|ldap|imap|useradd|usermod|zip|pscp|plink|mariadb|helm|podman|\b(?:wget|http|net user?) |@tcp"
    r"|users[\"']?\s{0,3}[:=]|seed|phrase|argon|pin(?:_?code)?[\"']?\s{0,3}[:=]|sqlcmd|telegram|^\s*(?:user|define)\s|^[\w.*-]{1,80}:[\d*]{1,5}:|^\s*\?\s"
)
"""A quick filter: matches every line with such a name, or with a secret that has no name."""


class NameSecrecy(IntEnum):
    """How strongly a name suggests that its value is a secret.

    FAINT: if the value is random characters. MAYBE: if it looks like a secret. SURE: for any value.
    """

    NONE = 0
    FAINT = 1
    MAYBE = 2
    SURE = 3


@lru_cache(maxsize=8192)
def secrecy_of(name: str) -> NameSecrecy:
    """The secrecy of a name."""
    parts = name_words(name)
    parts = parts[:-1] if parts[-1:] == ("set",) else parts
    if not parts or parts[-1] in _OTHER or parts[0] in {"is", "has", "no", "num", "max", "min"}:
        return NameSecrecy.NONE
    pairs = list(pairwise(parts))
    joined = {"".join(pair) for pair in (*pairs, *zip(parts, parts[1:], parts[2:], strict=False))}
    if (
        parts[-1] in _LAST
        or not _WORDS.isdisjoint(parts)
        or not _WORDS.isdisjoint(joined)
        or any(part not in _WHOLE and part.endswith(_ENDINGS) for part in parts)
        or any(kind in _KINDS_OF_KEY and key == "key" for kind, key in pairs)
        or any(kind in _KINDS_OF_TOKEN and word == "token" for kind, word in pairs)
    ):
        return NameSecrecy.SURE
    if not {"token", "bearer"}.isdisjoint(parts):
        return NameSecrecy.MAYBE
    return NameSecrecy.FAINT if not _FAINT.isdisjoint(parts) else NameSecrecy.NONE


def is_credential_call(callee: Sequence[str]) -> bool:
    """Whether a call of a name with these words logs in, signs, encrypts or compares secrets."""
    return not _CALLS.isdisjoint(callee[-1:]) or _CALLED.search("".join(callee)) is not None


_FIELDS = words("token key the my db user username email mail login host name url port id value text data type auth")


def is_name_alone(value: str) -> bool:
    """Whether a value is only the name of a secret, as in `{"password": "password"}`."""
    parts = name_words(value)
    known = _WORDS | _LAST | _KINDS_OF_KEY | _KINDS_OF_TOKEN | _FIELDS
    return bool(parts) and not any(map(str.isdigit, value)) and all(part in known for part in parts)


@lru_cache(maxsize=8192)
def name_words(name: str) -> tuple[str, ...]:
    """The words of a name, in lower case and singular."""
    found = (part.lower() for part in _PARTS.findall(name[-80:]))
    return tuple(word[:-1] if word.endswith("s") and word[:-1] in _PLURALS else word for word in found)


_PLURALS = _WORDS | {"token", "key"}
