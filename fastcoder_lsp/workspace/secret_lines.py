r"""Lines that look like secrets: a secret's name beside, above or below a value, or a value of a key's form.

A judgement needs few lines around a line, except in a private key and in a string that a name opens. So text is judged
where it is shown, with the lines just above it, and the size of a file costs nothing. `rules` excludes secret files.
"""

import re
from collections.abc import Iterator, Sequence
from copy import copy
from functools import lru_cache
from typing import Final

KEYS = "PRIVATE KEY"  # excludes a file that is available only in parts
REACH: Final = 8_000  # characters above a text that are judged with it, at most
MAX_LINE: Final = 1_000  # a longer line, in characters, counts as a secret unread
_LINES: Final = 200  # above a text that are judged with it, at most
_NEAR, _STRING, _KEY = 4, 20, 4_000  # lines below a name that may hold its value; of a string or a key that opens there
BARE: Final = re.compile(
    "bat|conf|csv|diff|dockerfile|dotenv|env|fish|html|http|ini|makefile|markdown|nginx|plaintext|powershell|properties|"
    "restructuredtext|shellscript|sql|tcl|terraform|toml|xml|yaml"
)
"""Languages whose values need no quotes."""
ABROAD: Final = (
    r"kennwort|zugangsdaten|geheim|contrase|clave(?!l)|senha|mot_?de_?passe|парол|секрет|(?<![а-я])ключ(?![а-я])|"
    r"has[łl]o|heslo|geslo|lozink|wachtwoord|l[öo]senord|passord|lykilor[dð]|adgangskode|kodeord|salasana|parool|slapta[zž]od|[şs]ifre|parola|jelsz|"
    r"kata_?sandi|m[aậ]t_?kh[aẩ]u|รหัสผ่าน|סיסמ|كلمة|κωδικ|συνθηματικ|पासवर्ड|密[码碼]|口令|暗証|パスワード|비밀번호|암호"
)
"""Names in other languages than English."""
_NAME: Final = (
    r"(?:p[4@]ssw|pass(?:w(?:or[dt]|d|ort)?|phrase|code|key|in|out)?s?(?![a-z])|p?asswd|passw|pwd|pswd|secret|token|credential|"
    r"bearer|(?<![a-z])(?:pw|psk|pin|mdp|otp|cred)s?(?![a-z])|mnemonic|seed|pepper|chararray|identified by|"
    r"(?:api|access|private|signing|encryption|master|account|auth|aes|hmac|jwt|crypto|license|shared|session|storage|"
    r"symmetric|ssh|app)[._: -]?key|"
    rf"{ABROAD})"
)
_NAMED: Final = _NAME + (
    r"(?![_ -]?(?:type|name|field|len|count|rate|id\b|ur[li]|path|file|class|error|hint|label|prompt|max|min|size|"
    r"regex|pattern|policy|expir|ttl|provider|handler|manager|i[zs]e|index|pos\b|stream|list\b|kind))"
)
_CALL: Final = (
    r"(?:log_?-?(?:in|on)|(?:create|add)_?user|auth\w{0,20}|sequelize|mysqli?\w{0,20}|pdo|[ed]n?crypt\w{0,20}|s?crypt|"
    r"hmac\w{0,20}|(?:bcrypt|argon2?|jwt|wifi)\W{0,3}\w{0,20}|hash_?sync|pbkdf\w{0,20}|keyspec|sign_?with|fernet|"
    r"connect(?:ion)?|unlock|getbytes|set_?key|new_?cipher\w{0,20}|cipheriv|signer|signed_?string|compare_?\w{0,20}|"
    r"timingsafe\w{0,9}|addlogin|joken|bind(?!\(\w+=)|_open|ftp\w{0,4}|"
    r"(?<=\.)session)[!?]?(?:\s?=?\s?\(|[,:]? [\"'(]|\W{1,3}\w{1,20}\()"
)
_STEMS: Final = re.compile(
    r"pass|pwd|pw|pswd|secret|token|cred|bearer|psk|pin|mdp|otp|key|mnemonic|seed|pepper|chararray|identified|"
    r"log|user|auth|sequel|sql|pdo|crypt|hmac|argon|jwt|wifi|hash|pbkdf|sign|fernet|connect|"
    r"unlock|getbytes|cipher|compare|joken|bind|_open|session|cookie|salt|dsn|sid|nonce|redis|sudo|://|-----begin|"
    r"machine|\$[256ay]|curl|docker|podman|zip|7z|ldap|ssl|sshp|plink|http|net u|vault|smbcl|lftp|master|require|basic|"
    rf"{ABROAD}|p[4@]ss|ftp|akia|asia|aiza|eyj|sk-|gh[opsur]_|glpat|xox|npm_|hf_|shp|ya29|sg\.|hooks|define|helm|gpg|maria|@tcp|timing"
)
"""A quick filter for lines in lower case."""
_WEAK: Final = (
    r"auth|cookie|jwt|salt|cipher|(?<![a-z])(?:dsn|sid|nonce|key|session|redis|users?)(?![a-z])|session_?id|sign"
)
_NAMES, _ANY_NAME, _CALLS, _WEAK_NAMES = map(re.compile, (_NAMED, _NAME, _CALL, _WEAK))
_LITERAL: Final = re.compile(
    r"""(?:"((?:[^"\\]|\\.)*+)(?:"|$)|`((?:[^`\\]|\\.)*+)(?:`|$)|(?:(?<![\w&<])|(?<=[^\w&][bBrRuUfFNL])|(?<=\W[rR][bB]))"""
    r"""'{1,2}((?:[^'\\]|\\.)*+)(?:'|$)|(?:\[=*\[|CDATA\[|\bq{1,2}[{(]|%[qQwWi]?[\[{(])([^\]})]*))"""
)
KNOWN: Final = re.compile(
    r"(?<![A-Za-z0-9])(?:(?:sk-|[spr]k_(?:live|test)_|gh[opsur]_|github_pat_|glpat-|xox[a-z]-|npm_|pypi-|hf_|whsec_|"
    r"shp[a-z]{2}_|ya29\.|SG\.|do[por]_v1_)(?=[A-Za-z_.-]{0,30}\d)[A-Za-z0-9_.-]{6,}|(?:A[KS]IA|AIza|eyJ)[\w-]{4,})|"
    r"hooks\.slack\.com/services/T\w|\$(?:2[abxy]?|argon2\w{0,2}|[156]|apr1|y)\$[\w./$=,+]{12,}|"
    r"://[^\s/:@\"'`]*:[^\s/@\"'`{}<>$%]+@|://[\w-]{16,}@|:[^\s/:@\"'`{}<>$%]+@tcp\(|\b(?:htpasswd -\w?b|"
    r"net use[r ] ?\S|vault (?:login|kv put) |chpasswd|sudo -\w?S\b|smbclient .{0,80}%|lftp .{0,80}-u |"
    r"(?:bind|root)pw\s|master_?auth\s)"
)
"""Keys of known issuers, addresses with a password, and commands that take one without a name."""
_SHOWN: Final = r"[\"'\\(]{0,3}(?:\$\{\w{0,40}:?[-=?])?([^\s\"'`,;&<>(){}\[\]\\|]{4,})(?=[\s\"'`,;&<>\\)}\]|]|$)"
_ASSIGNED: Final = re.compile(
    rf"(?:{_NAMED}|auth)\w{{0,12}}[\"'\]\\*`]{{0,3}}\s{{0,3}}(?:\b(?:is|was)\b:?|[:=?]{{1,3}}>?|<\w{{1,20}}>|[>|]|"
    rf"\s(?=[\"' ]|\S*\d))\*{{0,2}}\s{{0,3}}[\"']?(?:(?:bearer|basic|token|n|[&!]\w+)\s)?{_SHOWN}"
    rf"|\b(?:bearer|basic)\s(?=\S{{12}}){_SHOWN}"
    rf"|\blog-?in\b\W{{1,3}}\w{{1,20}} ?/ ?{_SHOWN}|\bmachine\s.{{1,80}}\bpassword\s{_SHOWN}"
    rf"|\s--?[\w-]{{0,20}}(?:pass(?:word|wd|phrase|in|out)?|secret|token|key)[\"',= ]{{1,4}}(?:pass:)?{_SHOWN}"
    rf"|\b(?:mysql|maria|docker|podman|helm|az\b|oc\b|cf\b|unzip|zip|7z|redis-cli|ldap|openssl|user(?:add|mod)|gpg|sqlcmd|"
    rf"sshpass|plink|pscp|mongo).{{0,80}}?\s[\"']?-(?:pw|[apkw])[\"',= ]{{0,4}}{_SHOWN}"
    rf"|\b(?:curl|http|wget|smb)\b.{{0,80}}?\s(?:-[ua]|--user)[ =\"',]{{1,4}}[^\s:\"']{{1,40}}[:%]{_SHOWN}"
    rf"|{_NAMED}.{{0,60}}?\b(?:value|default|string|val)[\"']?\s?[:=>]{{1,2}}\s?{_SHOWN}"
)
"""A name and a value that may have no quotes, options of commands; in lower case."""
_PHRASE: Final = re.compile(rf"{_NAMED}\w{{0,12}}[\"']?\s?[:=]\s?[\"'](?:[a-z]{{1,20}} ){{3,23}}[a-z]+[\"']")
_OPENS: Final = re.compile(
    r"""[=(:,+]\s*[\w@$]{0,2}(\"""|'''|`)[^"'`]*$|(?<!<)<<(?:<(?=["']?[A-Z_]+["']?$)|(?!<)[-~]?\s*)["']?(\w+)|(?:[\[(=,+\\|>]|[|>]-|[=:]>?\s*\{|VALUES|"""
    r"""^define .*)\s*(?:\\?$|#.*$)"""
)
_GIVES: Final = re.compile(
    r"""(?i)\s*(?:-\s+)?(?:(?:return|get|=>)\b.*["'`]|["'`]\S+["'`](?:\.\w+\(\))?\W*$|[<"']?(?:value|val|default\w*|content|"""
    r"""plaintext|string|secret_?value)["']?\s*[:=>]{1,2}\s*[^\s{\[])"""
)
"""A line that gives the value of a name above it."""
_NO_VALUE: Final = re.compile(
    r"\$\{|\{\{|^<.*>$|\$\(|^%\W?\w|^\$\w+$|^\{\w*\}$|^[./~-]|\.\w{1,4}$|://|[()<>|\\*?^\s]|^(?:[A-Z]+(?:_[A-Z]+)+|"
    r"[a-z]+(?:[_.][a-z]+)+|[A-Z][a-z]+(?:[A-Z][a-z]+)+|(?i:string|str|int|bool|number|object|none|null|nil|true|false|"
    r"undefined|required|optional|text|basic|default|example|utf-8|post|get|put|delete))$"
)
_MIXED: Final = re.compile(r"(?=\D*\d)(?=[\d\W_]*[^\W\d_])(?![A-Za-z]+[-_]?\d{1,3}(?:[-_][a-z]+)?$)")
RUN: Final = re.compile(r"(?<![A-Za-z0-9+/=-])[A-Za-z0-9+/=-]{20,}")
_PARTS: Final = re.compile(r"[a-z]+|[A-Z]+|\d+")


def judge(lines: Sequence[str], language: str) -> list[bool]:
    """Whether each of some consecutive lines looks like a secret, or part of one."""
    scan = _Scan(BARE.fullmatch(language) is not None)
    return [scan.read(line) for line in lines]


def without_secrets(text: str, language: str, above: str = "") -> str:
    """A text without the lines that look like secrets; `above` is text that ends where it begins."""
    near, lines = _near(above), text.split("\n")
    judged = judge([*near, *lines], language)[len(near) :]
    return "\n".join(line for line, secret in zip(lines, judged, strict=True) if not secret)


def in_file(piece: str, file: str, language: str) -> str:
    """Whole lines of a file without those that look like secrets."""
    return without_secrets(piece, language, file[: max(file.find(piece), 0)])


def judge_unfinished(above: str, lines: Sequence[str], language: str) -> list[bool]:
    """Whether each of some lines looks like a secret, or like the beginning of one, as a user may be typing it."""
    near = _near(above)
    judged = judge([*near, *lines], language)[len(near) :]
    return [secret or in_secret(line, language) for line, secret in zip(lines, judged, strict=True)]


def in_secret(before: str, language: str) -> bool:
    """Whether the text left of the cursor looks like part of a secret, or like its beginning."""
    start = before.rfind("\n") + 1
    left, above = before[start:], before[max(start - REACH, 0) : start]
    begun = f"{left}Zx7Kq2Wv" if left.rstrip()[-1:] in {"'", '"', "`", "=", ":"} else left
    scan = _below(above, BARE.fullmatch(language) is not None)
    return copy(scan).read(left) or copy(scan).read(begun)


@lru_cache(maxsize=8)
def _below(above: str, bare: bool) -> "_Scan":
    """The scan of `above`, which stays the same while the user types in a line."""
    scan = _Scan(bare)
    for line in _near(above):
        scan.read(line)
    return scan


def _near(above: str) -> list[str]:
    return above[-REACH:].split("\n")[-_LINES - 1 : -1]


class _Scan:
    """Judges lines from the first to the last; `near` and `given` count the lines below that a name still reaches."""

    def __init__(self, bare: bool) -> None:
        self.bare, self.end, self.block, self.near, self.given = bare, "", 0, 0, 0

    def read(self, line: str) -> bool:
        """Whether the next line looks like a secret, or part of one."""
        if self.end or len(line) > MAX_LINE:
            self.block -= 1
            self.end = self.end if self.block > 0 and self.end not in line else ""
            return True
        low, last = line.lower(), line.rstrip()[-1:]
        likely = _STEMS.search(low) is not None or RUN.search(line) is not None
        gives = bool(self.near or self.given) and _GIVES.match(line) is not None
        secret = likely and _shows(line, low, self.bare)
        if gives or self.near:
            bare = (line.partition(": ")[2] or line.strip(" -"),) if self.bare else ()
            secret |= (gives and self.bare) or any(map(is_value, (*_literals(line), *bare)))
        self.near, self.given = max(self.near - 1, _NEAR * (gives and last in {"|", ">"})), max(self.given - 1, 0)
        if line.strip() and line.strip(" \t])};") == "":
            self.near = 0
        if "-----BEGIN" in line and "PRIVATE" in line:
            self.block, self.end = _KEY, "" if "-----END" in line else "-----END"
            return True
        return (likely and _NAMES.search(low) is not None and self._opens(line, last, secret)) or secret

    def _opens(self, line: str, last: str, secret: bool) -> bool:
        """Whether a line that names a secret opens its value; the lines below may give it."""
        opened = _OPENS.search(line)
        mark = (opened[1] or opened[2]) if opened else ""
        if opened and mark and (opened[2] or line.count(mark) % 2):
            self.end, self.block = mark, _STRING
            return True
        if opened or (self.bare and (last == ":" or line[:1] == "[")):
            self.near = _NEAR
        elif self.bare and line.startswith("kind:"):
            self.near = _STRING
        elif not secret:
            self.given = _NEAR
        return False


@lru_cache(maxsize=4096)
def _shows(line: str, low: str, bare: bool) -> bool:
    """Whether a line shows a secret by itself."""
    if KNOWN.search(line) or _PHRASE.search(low) or any(map(is_random, RUN.findall(line))):
        return True
    literals = list(_literals(line))
    named = _NAMES.search(low) or _CALLS.search(low)
    if (named or _WEAK_NAMES.search(low)) and any(is_value(one, mixed=not named) for one in literals):
        return True
    comments = (line.partition(mark)[2] for mark in ("#", "//", "--", "*") if mark in line)
    places = (line,) if bare else (*literals, " ".join(literals), *comments)
    found = (next(filter(None, match.groups()), "") for place in places for match in _ASSIGNED.finditer(place.lower()))
    return any(map(is_value, found))


def _literals(line: str) -> Iterator[str]:
    for *quoted, listed in _LITERAL.findall(line):
        yield from listed.split() if listed else [next(filter(None, quoted), "")]


def is_value(text: str, *, mixed: bool = False) -> bool:
    """Whether a literal may be a secret; `mixed`: only one of letters and digits or signs."""
    text = text.strip(" ()")
    if len(text) < 3 or _NO_VALUE.search(text) or not any(map(str.isalnum, text)):
        return False
    return _MIXED.match(text) is not None or not (mixed or _ANY_NAME.search(text.lower()))


def is_random(run: str) -> bool:
    """Whether characters are random: many changes between digits, small and capital letters, and no checksum."""
    digits, lower = sum(map(str.isdigit, run)), run.lower()
    return digits > 2 and run not in {lower, run.upper()} and 2.5 * len(_PARTS.findall(run)) > len(run)
