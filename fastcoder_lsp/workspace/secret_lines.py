"""Lines that look like secrets: nothing is suggested in them, and none of them goes along with a prompt.

Owns the judgement of text; files that hold secrets by their names are `rules`' business. Pure.
"""

import math
import re
from collections import Counter
from itertools import islice, pairwise

KEYS = "PRIVATE KEY"
"""A file with such a thing in it is left alone: a piece of it might not tell that it is one of a key."""
_LOOKED_AT = 400
"""Characters of the line left of the cursor."""
_BLOCK = 16_000
"""Characters above in which a key's block may have begun."""
_WORDS = frozenset(
    ("password", "passwd", "pwd", "passphrase", "secret", "token", "apikey", "credential", "credentials", "bearer")
)
_LAST = frozenset(("pass", "pw"))
"""Of a name of several words, or alone."""
_ENDINGS = ("password", "passwd", "passphrase", "apikey", "secret", "authtoken")
"""Of a name whose words are not parted, as in PGPASSWORD."""
_KINDS_OF_KEY = frozenset(
    ("api", "access", "private", "secret", "signing", "encryption", "auth", "account", "client", "master", "ssh", "app")
)
_NAME = r"([A-Za-z][\w.-]{0,80})"
_IS = _NAME + r"""["'\]]{0,2}\s*(?::[\w\s.\[\]|?&'<>]{1,40})?(?::=|=>|=|:)"""
_QUOTED = re.compile(_IS + r"""\s*[rbufRBUF@$]{0,2}["'`][^"'`]*$""")
_BARE = re.compile(r"^\s*(?:export\s+|set\s+|ENV\s+|ARG\s+|-\s+)?[\"']?" + _NAME + r"[\"']?\s*[:=]\s*\S*+(?:\s+#.*)?$")
_BARE_LANGUAGES = frozenset(
    ("shellscript", "properties", "ini", "yaml", "toml", "dockerfile", "dotenv", "plaintext", "makefile", "fish")
)
_PARTS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
_KNOWN = re.compile(
    r"(?<![A-Za-z0-9])(?:sk-|[sr]k_(?:live|test)_|gh[opsur]_|github_pat_|glpat-|xox[abprs]-|AKIA|ASIA|AIza|eyJ|npm_|pypi-|hf_)"
    r"[A-Za-z0-9_.-]{4,}$"
)
_SOMETHING = r"""["'`](?!["'`]\s*[,)\]])"""
_GIVEN = (
    re.compile(
        rf"""\w\(\s*["'`]{_NAME}["'`]\s*,\s*{_SOMETHING}"""
    ),  # getenv("API_KEY", "…"), define('DB_PASSWORD', '…')
    re.compile(rf"""(?:\bset|\bwith)_?{_NAME}\(\s*{_SOMETHING}"""),
    re.compile(rf"""(?:#define|\bsetq|\bdefvar|\bdefconst|\bset)\s+{_NAME}\s+["'`]"""),
    re.compile(
        rf"""{_IS}\s*(?:Some|String::from|Secret(?:Str|Bytes|String)?(?:::new|::from)?)?\(\s*[rb]?{_SOMETHING}"""
    ),
)
"""A value that is no assignment's, after its name."""
_HEADER = re.compile(r"""["'`:]\s*(?:Bearer|Basic)\s+(?![A-Z]?[a-z/.=-]*(?:["'`\s]|$))[\w+/.~=-]{6,}(?=["'`\s]|$)""")
"""What follows is no word, as in "Basic configuration"."""
_ADDRESS = re.compile(r"""://[^\s/:@"'`]{0,80}:[^\s/:@"'`{}<>$%][^\s/:@"'`]{0,200}@""")
"""With a password, `https://me:…@host`."""
_AMONG = re.compile(
    rf"""<{_NAME}>[^<\s{{$][^<]{{0,200}}+</\1>|[;"'`]\s*{_NAME}=[^;"'`{{$\s<%]|"""
    rf"""\b{_NAME}["'`\])]{{0,4}}\s*(?:\|\||\?\?|\bor\b)\s*["'`](?!["'`])"""
)
"""In XML, in the text that a database is connected by, in place of what is missing: `environ.get("API_KEY") or "…"`."""
_OPTION = re.compile(
    r"(?:^|(?<=\s))(?:-e\s+)?+(?:--)?+"
    + _NAME
    + r"""=(?=["']?[^\s"'$<{])|(?<=\s)--"""
    + _NAME
    + r"""\s+["']?(?=[^\s"'$<{-])"""
)
"""In a shell's line, `DB_PASSWORD=… run`, `--password=…`, `--password …`."""
_TOLD = re.compile(
    r"""(?i:\bidentified\s+by\s+["'`])|\bsshpass\s+-p\s*[^\s$"']|\bmysql\w{0,20}\b.{0,200}\s-p[^\s$"']"""
)
_PAIR = re.compile(
    r"""(?:\bauth["'`]?\s*[=:]\s*|BasicAuth\w{0,40}+|basic_?auth)[(\[]\s*+["'`]?+[^"'`,]{0,80}+["'`]?+\s*+,\s*+"""
    rf"""[rbf]?{_SOMETHING}|\bcurl\b.{{0,200}}\s(?:-u|--user)[ =]?["']?[^\s:"'$]{{1,80}}:[^\s"'$]"""
)
"""A user with a password, `auth=("me", "…")`, `curl -u me:…`."""
_OPENED = re.compile(
    _IS + r"""[ \t]*+(?:\([ \t]*+)?+(?:\\?+[ \t]*+|[rbufRBUF@$]{0,2}(\"""|\'\'\'|`)(?:(?!\2)[^\n])*+)$"""
)
"""The value stands in the lines below: strings, or the rest of one."""
_LIKELY = re.compile(r"(?i:pass|pwd|pw|secret|token|key|credential|bearer|basic|auth|identified)|://|\b(?:curl|mysql)")
"""What stands in every line that the forms above are looked for in: that takes most of their time."""
_DEFINES = re.compile(r"\s*(?:async\s+)?(?:class|def)\b")
_STRING = re.compile(r"""\s*[rbufRBUF@$]{0,2}["'`]""")
_RUN = re.compile(r"[A-Za-z0-9+_=-]{20,}$")
_JUDGED_AT = re.compile(r"""["'`]|(?<=[A-Za-z0-9+_=-]{8})(?![A-Za-z0-9+_=-])""")
_MOST_JUDGED = 50
_RANDOM_BITS = 3.5
"""Entropy of a character, above which twenty letters and digits are no name; of hexadecimal ones there are four."""
_KEY_BEGINS, _KEY_ENDS = re.compile(r"-----BEGIN [A-Z0-9 ]*PRIVATE KEY( BLOCK)?-----"), "-----END "


def in_secret(before: str, language: str) -> bool:
    """Whether what stands left of the cursor looks like a part of a secret, or is about to be one."""
    left = before[-_LOOKED_AT:].rpartition("\n")[2]
    if (match := _QUOTED.search(left)) is not None and _is_secret_name(match[1]):
        return True
    if language in _BARE_LANGUAGES and (match := _BARE.match(left)) is not None and _is_secret_name(match[1]):
        return True
    run = _RUN.search(left)
    return bool(_KNOWN.search(left)) or (run is not None and _is_random(run[0])) or _in_key(before[-_BLOCK:])


def without_secrets(text: str, language: str) -> str:
    """Some lines of a file without those that look like a secret, or like a part of one."""
    kept, above, open_mark = [], "", None
    for line in text.split("\n"):
        above = f"{above}{line}\n"[-_BLOCK:]
        if open_mark:
            open_mark = None if open_mark in line else open_mark
            continue
        if open_mark is not None and _STRING.match(line):
            continue
        likely = _LIKELY.search(line)
        open_mark = _opened(line) if likely else None
        if likely and _holds_secret(line, language):
            continue
        # A line is judged as if it were typed: at each of its quotes, where a run of letters ends, and at its end.
        ends = [*islice((match.start() for match in _JUDGED_AT.finditer(line)), _MOST_JUDGED), len(line)]
        if not _in_key(above) and not any(in_secret(line[:end], language) for end in ends):
            kept.append(line)
    return "\n".join(kept)


def spans_lines(text: str) -> bool:
    """Whether a secret may stand in lines of a text that do not say so themselves."""
    # Asked for each key of all that is sent: `if token:` stands everywhere, with no string below it.
    return KEYS in text or any(
        _LIKELY.search(line) and (mark := _opened(line)) is not None and (mark or _STRING.match(below))
        for line, below in pairwise((*text.split("\n"), ""))
    )


def _opened(line: str) -> str | None:
    """Of a line that names a secret whose value stands below: the mark that ends it, empty for strings; else None."""
    match = _OPENED.search(line[:_LOOKED_AT])
    if match is None or not _is_secret_name(match[1]) or _DEFINES.match(line):
        return None
    mark = match[2] or ""
    return None if mark and line.count(mark) % 2 == 0 else mark  # it ends a string that began in this line


def _holds_secret(line: str, language: str) -> bool:
    """Whether a whole line shows a secret that nobody can tell before it is written, or that no assignment names."""
    if any(form.search(line) for form in (_HEADER, _ADDRESS, _PAIR, _TOLD)):
        return True
    forms = (*_GIVEN, _AMONG, *((_OPTION,) if language in _BARE_LANGUAGES or language == "markdown" else ()))
    names = (name for form in forms for match in form.finditer(line) for name in match.groups() if name)
    return any(map(_is_secret_name, names))


def _is_secret_name(name: str) -> bool:
    parts = [part.lower() for part in _PARTS.findall(name)]
    if not parts or parts[-1] in {"name", "id", "url", "uri", "path", "file", "type", "length", "count", "field"}:
        return False
    return (
        parts[-1] in _LAST
        or bool(_WORDS.intersection(parts))
        or parts[-1].endswith(_ENDINGS)
        or any(kind in _KINDS_OF_KEY and key in {"key", "keys"} for kind, key in pairwise(parts))
    )


def _is_random(run: str) -> bool:
    """Whether letters and digits are mixed as nobody names things."""
    digits = sum(letter.isdigit() for letter in run)
    letters = sum(letter.isalpha() for letter in run)
    if digits < 3 or letters < 3:
        return False
    counts = Counter(run)
    bits = -sum(count / len(run) * math.log2(count / len(run)) for count in counts.values())
    longest_word = max(map(len, re.findall(r"[A-Z]?[a-z]+|[A-Z]+", run)))
    hexadecimal = len(run) >= 32 and all(letter in "0123456789abcdefABCDEF-" for letter in run)
    return hexadecimal or (bits > _RANDOM_BITS and longest_word < 6)


def _in_key(before: str) -> bool:
    """Whether a private key has begun above and not ended."""
    begun = [match.end() for match in _KEY_BEGINS.finditer(before)]
    return bool(begun) and _KEY_ENDS not in before[begun[-1] :]
