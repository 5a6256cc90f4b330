"""Tokens of a line of any language, and the shapes of literals regardless of their names.

Shapes are prefixes of known issuers of keys, random characters, placeholders, technical words and sentences; and the
forms in which programs take passwords without a name of their own, in URLs and command lines.
"""

import math
import re
from collections import Counter
from enum import IntEnum
from typing import NamedTuple

from fastcoder_lsp.workspace.secret_names import LIKELY, NAME, is_name_alone, words

BRACKETED = frozenset(("perl", "ruby", "crystal", "lua", "elixir"))
"""Languages with bracketed strings, such as `q(…)` and `[[…]]`."""
_STRING = (
    r"""(?P<string>(?<=>)(?!\s*<)[^<>{}"'`]+(?=</)|(?<=CDATA\[)[^\]]+(?=\]\])|(?:(?<!\w)[A-Za-z]{1,3}(?=[\#"'`])|[@$]{1,2}(?=["'`]))?\#{0,3}"""
    r"""(?:"{3}.*?(?:"{3}|$)|'{3}.*?(?:'{3}|$)|"(?:[^"\\]|\\.)*+(?:"|\\?$)|(?<![\w)\]])''[^']+''|"""
    r"""(?<!\w)'(?:[^'\\]|\\.)*+'|(?<=[rbufRBUFLN])'(?:[^'\\]|\\.)*+'|`[^`]*+(?:`|$))"""
)
_BRACKETS = (
    r"""|%?q[qwx]?\s?[({\[/|](?=\S)[^)}\]/|]*[)}\]/|]?|"""
    r"""%[wWi][(\[{<|][^)}\]>|]*|(?<=[=,(]\s)\[=*\[.*?(?:\]=*\]|$)|(?<=[=,(])\[=*\[.*?(?:\]=*\]|$)"""
)
_GAP = r"""|(?P<gap>\$?\{\{[^{}]{0,200}\}\}|\$\{[\w.]*\}|\$\([^)]*\)|\$\w+|%\w+%|<[A-Za-z][\w .-]*>(?!.*</))"""
_SIGNS = (
    r"""===?|!==?|<=|>=|=~|[=~]>|->|<-(?![-\d])|:{1,3}=|(?:\?\?|\|\||[?|+.&~])=|\|\||&&|\?\?|\?[:.]|::|"""
    r""":-|\.{2,3}|<<<?[-~]?"""
)
_CODE = rf"""|(?P<name>{NAME.pattern})|(?P<number>\d[\w.]*)|(?P<sign>{_SIGNS}|--|[^\s\w]))"""
_BARE = rf"""|(?P<sign>{_SIGNS}|[\s"'`=:,;()\[\]{{}}<>|&\\])|(?P<name>(?:\\\S|[^\s"'`=:,;()\[\]{{}}<>|&\\])+))"""
_TOKENS = {
    (bare, bracketed): re.compile(
        _STRING + (_BRACKETS if bracketed else "") + ")" + (_GAP + _BARE if bare else _CODE)[:-1]
    )
    for bare in (True, False)
    for bracketed in (True, False)
}


class Token(NamedTuple):
    """A part of a line: a "name", a "string", a "number", a "gap" for a placeholder, or a "sign"."""

    kind: str
    text: str
    start: int
    end: int
    mark: str = ""
    closed: bool = True


def tokens_of(line: str, *, bare: bool, bracketed: bool) -> list[Token]:
    """The tokens of a line.

    `bare`: values have no quotes, so all text between blanks and separators is a name. `bracketed`: the language has
    bracketed strings.
    """
    found = []
    for match in _TOKENS[bare, bracketed].finditer(line):
        kind, text = match.lastgroup or "", match[0]
        if kind != "string":
            if text.strip():
                found.append(Token(kind, text, match.start(), match.end()))
            continue
        head = re.match(r"""[^"'`(\[{/|<]*?(["']{3}|''(?=.)|["'`]|\[=*\[|[(\[{/|<])""", text)
        if line[match.start() - 1 : match.start()] in {">", "["} and text.strip() and text[0] not in "\"'`":
            head = None
        mark = head[1] if head is not None else ""
        begin = head.end() if head is not None else 0
        closing = mark if mark[:1] in "\"'`" else ""
        closed = len(text) >= begin + len(closing) and text.endswith(closing) and not text.endswith('\\"')
        inner = text[begin : len(text) - len(closing or mark)] if closed else text[begin:]
        found.append(Token(kind, inner, match.start(), match.end(), mark, closed))
    return found


class LiteralShape(IntEnum):
    """The shape of a literal: no value, a plain word, letters mixed with digits, or a long mix of them."""

    NONE = 0
    WORD = 1
    MIXED = 2
    LONG = 3


_MAX_LENGTH = 400  # characters of a value that are read
_MIN_MIXED = 6
_MIN_LONG = 12

KNOWN = re.compile(
    r"(?<![A-Za-z0-9])(?:(?:sk-|[sr]k_(?:live|test)_|gh[opsur]_|github_pat_|glpat-|gl(?:rt|dt|soat|agent|cbt|ft|imt)-|xox[abeprs]-|xapp-|"
    r"pypi-|do[por]_v1_|(?:hf|npm)_(?=[A-Za-z0-9]{20})|shp(?:at|ca|pa|ss)_|ya29\.|SG\.|lin_api_|dckr_pat_|hv[sb]\.|whsec_|sq0\w{3}-|"
    r"PMAK-|NRAK-|NRJS-|gl(?:c|sa)_|dapi|dp\.(?:pt|st|ct)\.|dt0c01\.|EZ[AT]K|FLWSECK|fio-u-|pat-(?:na|eu)\d-|ntn_|pnu_|pul-|rdme_|"
    r"rubygems_|xkeysib-|sntry[su]_|shippo_(?:live|test)_|sgp_|sq[aup]_|sbp_|tfp_|pscale_\w{2,5}_|CFPAT-|CLOJARS_|ico-|LTAI|ATATT3|ATBB|"
    r"aio_|p8e-|AKCp|gsk_|pplx-|r8_|xai-|figd_|nfp_|bkua_|CCIPAT_|rnd_|tskey-|fm2_|HRKU-|PRIVATE-|oauth:|EAA(?=\w{30}))"
    r"(?=[A-Za-z_.-]{0,80}\d)[A-Za-z0-9_.-]{8,}|eyJ[\w-]{8,}\.eyJ|eyJ(?=[A-Za-z_.-]{0,80}\d)[\w.-]{17,}|"
    r"(?:AKIA|ASIA|AROA|AIza)[A-Z0-9][\w-]{7,}|AGE-SECRET-KEY-1|\$ANSIBLE_VAULT;|\{S?SHA\}[\w+/]{8}|SK[0-9a-f]{32}\b|[0-9a-f]{32}-us\d\d?\b|"
    r"\d{6,12}:AA[\w-]{30,}|[MNO][A-Za-z\d]{23,25}\.[\w-]{6}\.[\w-]{27,}|\.atlasv1\.\w{20}|"
    r"hooks\.slack\.com/services/T\w|discord(?:app)?\.com/api/webhooks/\d)|"
    r"\$(?:2[abxy]?\$\d\d|argon2\w{1,2}|apr1|[156]|y|scrypt|pbkdf2[\w-]{0,20})\$[\w./$=,+]{12,}"
)
"""Keys with the prefix or form of a known issuer."""
KNOWN_PREFIX = re.compile(
    r"(?<![A-Za-z0-9])(?:sk-|[sr]k_(?:live|test)_|gh[opsur]_|github_pat_|glpat-|xox[abprs]-|AKIA|ASIA|AIza|eyJ|npm_|pypi-|hf_)"
    r"[A-Za-z0-9_.-]{4,}$"
)
_RUN = re.compile(r"[A-Za-z0-9+_=-]{20,}")
_HEXADECIMAL = re.compile(r"[0-9a-fA-F-]+")
_CASED = re.compile(r"[A-Z]?[a-z]+|[A-Z]+")
_MIN_WORD = 5  # letters of a word in a name of many words
_MIN_PART = 12  # the length of a random value's longest part, in characters; shorter parts make a name of many words
_MIN_RANDOM_BITS = 3.5
"""The entropy of twenty random characters, in bits a character; hexadecimal digits have at most four."""
_CHECKSUM_WORDS = re.compile(r"(?i)sha(?!red)|commit|hash|rev|digest|blob|etag|md5|sum\b|snapshot|tree|oid|uuid|guid")
"""Words in lines with a file's checksum or a commit's hash."""
_ASSIGNED = re.compile(r"""["'`=:]\s?$""")

_GAPS = re.compile(
    r"""\$\{[\w .:?,()\'"-]{0,200}\}|\{\{[^{}]{0,200}\}\}|\#?\{[\w.:!,()\'-]{0,200}\}|\$\([^)]{0,200}\)"""
    r"""|(?<![\w$@!])\$[A-Za-z_]\w*|(?<!\w)%\w{1,30}%|"""
    r"""(?<!\w)%(?:\(\w+\))?[-.\d]{0,4}[sdrvqi@]\b|<[\w .,:|/-]{0,200}>|\[[A-Z_]+\d*\]"""
)
"""Interpolations and placeholders."""
_NOTHING = words(
    "string str int integer bool boolean number object none null nil true false undefined required optional yes no "
    "any text varchar char bytes byte hidden default example array list float double void const this self env "
    "enabled disabled always never bearer basic digest inherit auto todo redacted empty unset missing unknown "
    "hex base64 utf8 utf-8 ascii latin1 binary json raw local function symbol"
)
_STOPS = words(
    "the a an your is are of for please enter this that not and or to in on with from must be can invalid no "
    "if it by as was has have use used when which required optional new current"
)
_SEED = re.compile(r"(?:[a-z]{3,8} ){11}(?:(?:[a-z]{3,8} ){3}){0,4}[a-z]{3,8}")
"""A wallet's seed phrase, whose words may be in `_STOPS`."""
_TECHNICAL = re.compile(
    r"(?i)(?:(?:hmac|pbe)(?:with)?[-_/ ]?|[a-z]{2,12}[-_/ ]){0,3}(?:hmac|sha|md|utf|base|b|[hrep]s|aes"
    r"|3?des|rc|rsa|ecdsa|secp|curve|ed|x|"
    r"oauth|python|py|http|v|ip|ipv|"
    r"u?int|float|iso|cp|pkcs|rfc|win|argon|ripemd|blake|crc|i18n|l10n|a11y|gcm|cbc|bit|chacha|poly|tls|ssl|p|k8s|s|ec|nist|version|"
    r"es|level|part|step|test|arg|var|line|row|col|file|item|type|mode)"
    r"[-_/ ]?\d+(?:[-_/.]?\d+)*(?:[-_/](?:[a-z]+|[a-z]*\d+))*(?:(?:with|and)\w+)?"
)
"""Technical words, such as `sha256`, `AES-256-GCM`, `PBEWithMD5AndDES`, `utf-8`."""
_PATH = re.compile(
    r"[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+|[~.]{0,2}/(?:[\w.-]+/)*[\w.-]*|[a-z]+://[^@]*|(?:[\w-]+\.)+(?:py|js|ts|c|h|go|rs|json|ya?ml|txt|md|html|com|org|net)"
)
_NUMBERED = re.compile(
    r"[A-Za-z]*+\d{0,2}+[A-Za-z]*+(?:[_.:/#-]+[A-Za-z]*+\d{0,2}+[A-Za-z]*+)*+|[\d.,:x+-]+[A-Za-z%]{0,3}|\\?[xuU0][0-9a-fA-F]+(?:\\[xuU][0-9a-fA-F]+)*"
)
"""A name with a number, a measure, or an escaped character."""
_NO_VALUE = re.compile(r"""[\s(){}<>|;"'`\[\]]|\\[\\nrtbdwsDWSxu0\[.]|\[\^?.-|^\W+$""")
"""Characters of code, patterns and sentences."""


def shape_of(value: str) -> LiteralShape:
    """The shape of a literal."""
    value = value[:_MAX_LENGTH].strip()
    plain = _GAPS.sub("", value).strip()
    alike = [letter for letter in plain if letter.isalnum()]
    if len(set(alike)) < (3 if plain == value else 5) or plain.startswith("-") or plain.lower() in _NOTHING:
        return LiteralShape.NONE
    if _TECHNICAL.fullmatch(plain[:60]) or _PATH.fullmatch(plain) or is_name_alone(plain):
        return LiteralShape.NONE
    parts = plain.lower().split()
    if len(parts) > 1:
        return LiteralShape.WORD if _STOPS.isdisjoint(parts) or _SEED.fullmatch(plain) else LiteralShape.NONE
    digits, letters = any(map(str.isdigit, alike)), any(map(str.isalpha, alike))
    if not (digits and letters) or len(plain) < _MIN_MIXED or _NO_VALUE.search(plain):
        return LiteralShape.WORD
    cases = any(map(str.islower, alike)) and any(map(str.isupper, alike))
    long = len(plain) >= _MIN_LONG and (cases or _HEXADECIMAL.fullmatch(plain) is not None)
    return LiteralShape.LONG if long else LiteralShape.MIXED


def is_conspicuous(value: str) -> bool:
    """Whether a word looks like a secret even among other words, without a sign that marks it as a value."""
    return shape_of(value) >= LiteralShape.MIXED and not _NUMBERED.fullmatch(value)


def has_key_literal(line: str) -> bool:
    """Whether a line has a key with a known prefix, or random characters as a value."""
    return KNOWN.search(line) is not None or any(_is_random_value(line, run) for run in _RUN.finditer(line))


def ends_in_random(left: str) -> bool:
    """Whether a text ends with random characters, or with the beginning of a key."""
    run = next((run for run in _RUN.finditer(left) if run.end() == len(left)), None)
    return KNOWN_PREFIX.search(left) is not None or (run is not None and _is_random(run[0]))


def _is_random_value(line: str, run: re.Match[str]) -> bool:
    """Whether random characters in a line are a value; hexadecimal ones are often checksums."""
    if not _is_random(run[0]):
        cases = run[0].isalnum() and any(map(str.islower, run[0])) and any(map(str.isupper, run[0]))
        return cases and any(map(str.isdigit, run[0])) and max(map(len, _CASED.findall(run[0]))) < _MIN_WORD
    if not _HEXADECIMAL.fullmatch(run[0]):
        return any(len(part) >= _MIN_PART for part in re.split(r"[-_=+]", run[0]))
    near = line[max(0, run.start() - 40) : run.start()]
    return len(run[0]) >= 32 and _ASSIGNED.search(near) is not None and not _CHECKSUM_WORDS.search(near)


def _is_random(run: str) -> bool:
    digits = sum(letter.isdigit() for letter in run)
    letters = sum(letter.isalpha() for letter in run)
    if digits < 3 or letters < 3:
        return False
    counts = Counter(run)
    bits = -sum(count / len(run) * math.log2(count / len(run)) for count in counts.values())
    longest_word = max(map(len, re.findall(r"[A-Z]?[a-z]+|[A-Z]+", run)))
    hexadecimal = len(run) >= 32 and _HEXADECIMAL.fullmatch(run) is not None
    return hexadecimal or (bits > _MIN_RANDOM_BITS and longest_word < 6)


_ADDRESS = re.compile(
    r"""://(?:[^\s/:@"'`]{0,80}:[^\s/:@"'`{}<>$%][^\s/:@"'`]{0,200}|[0-9a-fA-F]{24,64})@"""
    r"""|api\.telegram\.org/bot\d{4,12}:[\w-]{5}"""
)
"""A URL with a password or a key, `https://me:…@host`."""
_COMMANDS = tuple(
    map(
        re.compile,
        (
            r"""\bhtpasswd\b.{0,20}?\s-\w{0,4}b\w{0,4}\s\S{1,80}\s\S{1,80}\s["']?([^\s"']+)""",
            (
                r"""\b(?:curl|https?|wget|smbclient)\b.{0,200}?"""
                r"""\s(?:-[auU]|--user)[ =]?["']?[^\s:%"'$/]{1,80}[:%](?!//)([^\s"']+)"""
            ),
            r"""(?:^|\s)-u\s[^\s:$"']{1,80}:([^\s"']+)""",
            (
                r"""\b(?:echo|printf)\b[^|]{0,120}?["' :]([^\s:"']{3,})["']?\s?\|\s?"""
                r""".{0,60}?(?:--password-stdin|chpasswd|passwd --stdin|sudo -\w*S)"""
            ),
            (
                r"""(?i)\s--?(?:[\w-]*(?:password|passwd|passphrase|secret|token|api-?key)|requirepass)"""
                r"""[ =:]+["']?([^\s"'$<\[-][^\s"'\]]{3,})(?=["'`]?\s*(?:$|[\\&|;]|-))"""
            ),
            r"""\blogin\s+\S+\s+password\s+(\S+)""",
            r"""\bvault\s+(?:login|kv\s+put\s+\S+)\s+(?:\w+=)?(\S+)|\bnet\s+user\s+\w+\s+([^\s/*]\S*)""",
            r"""(?i:(?:\b|_)(?:auth|btoa|userpwd|buffer\.from)["']?\W{1,8})["'][^:"'\s/{]{1,60}:(?![/:])([^\s"'/{]{3,})""",
            r"""["'][\w.-]{1,40}:([^\s:@"'/{$%]{1,60})@tcp\(""",
            r"""(?i)\bpassword\s{1,8}\$\w{0,20}\$([^$\s]{1,200})\$""",
            r"""\bsudo\s-\w{0,6}S\w{0,6}\s.{0,200}?<<<\s{0,3}["']?([^\s"'$]{3,})""",
            (
                r"""\b(?:echo|printf)\s(?:-\w{1,3}\s)?["']?([^\s"'$>|%]{3,200})["']?\s{0,3}>{1,2}\s{0,3}["']?"""
                r"""[^\s"']{0,80}?(?:password|passwd|passphrase|secret|api[_-]?key|token)(?:\.\w{1,8})?["']?\s*$"""
            ),
            r"""\blftp\b.{0,120}?\s-u\s{0,3}["']?[^\s,"']{1,60},([^\s"']+)""",
            r"""\b(?:requirepass|masterauth)\s{1,8}["']?([^\s"']+)""",
            r"""\bnet\s+use\s+\S{1,40}\s+\\\\\S{1,200}\s+([^\s/*]\S*)""",
            r"""^(?:\S{0,200}:)?_auth\s{0,8}=\s{0,8}["']?([A-Za-z0-9+/]{6,200}={1,2})["']?\s*$""",
            r"""^[\w.*-]{1,80}:(?:\d{4,5}|\*):[\w*-]{1,60}:[\w*.@-]{1,60}:([^\s:]+)$""",
        ),
    )
)
"""Programs that take a password without naming it."""
_UNNAMED = tuple(
    (re.compile(pattern), least)
    for pattern, least in (
        (
            (
                r"""(?:(?<![A-Za-z])(?:pin|PIN|Pin)|(?<=[a-z])Pin)(?:_?[Cc]ode|_CODE)?["']?\s{0,3}"""
                r"""[:=]{1,3}>?\s{0,3}["']?(\d{4,8})(?![\w.])"""
            ),
            LiteralShape.WORD,
        ),
        (
            r"""(?i)(?:seed|phrase)\w{0,10}["']?\s{0,3}[:=]\s{0,3}["']?((?:[a-z]{3,8} ){11,23}[a-z]{3,8})""",
            LiteralShape.WORD,
        ),
        (
            r"""(?i)\b(?:log-?in|credentials?|creds)\b[^:=]{0,20}[:=]\s{0,3}[\w.@-]{1,40} ?/ ?([^\s"'/]{3,})""",
            LiteralShape.MIXED,
        ),
        (
            r"""(?:auth|\bbasic)["']?\s{0,3}[:=]\s{0,3}["']?[\w.@-]{1,60}:(?![/:])([^\s"'/{},]{3,})["']?\s*$""",
            LiteralShape.MIXED,
        ),
        (r"""\bconnect\((?:\s{0,3}"[^"]{1,80}",){2}\s{0,3}"(?!_)([^"\s]{3,})"\s{0,3}\)""", LiteralShape.WORD),
        (
            (
                r"""["'](?:auth|login|authenticate)["'],\s{0,3}["']?(?:args|params|arguments)["']?"""
                r"""\s{0,3}:\s{0,3}\[\s{0,3}["']([^"'\s]{3,})"""
            ),
            LiteralShape.WORD,
        ),
    )
)
"""Patterns of unnamed passwords, with the least shape of the literal there."""
_CONSPICUOUS = tuple(
    map(
        re.compile,
        (
            r"""\bhttps?://([\w.~+-]{6,200})@""",
            r"""["'](?:pin|PIN|[pP]in_?[cC]ode)["']\s{0,3}:\s{0,3}["']([^"'\s]{4,200})["']""",
            r"""^\s*user\s+[\w.@-]{1,60}\s+(?:on\s.{0,60}?>)?([^\s;{}()\[\]=]{6,200})(?:\s.*[~+].*)?$""",
            r"""^(?:\S{0,200}:)?_auth\s{0,8}=\s{0,8}["']?([A-Za-z0-9+/]{8,200})["']?\s*$""",
        ),
    )
)
"""Patterns of unnamed passwords that count only where they look like nothing else."""
_PROGRAM = re.compile(
    r"\b(?:sqlcmd|sshpass|plink|pscp|mysql\w{0,20}|mariadb\w{0,20}|docker|podman|az|mongo\w{0,10}|helm|cf|oc|unzip|zip|7z|"
    r"redis-cli|ldap\w{2,10}|openssl|useradd|usermod|gpg)\b"
)
_FLAG = re.compile(r"""\s-(?:pw|[apPkw])[ =]{0,2}["'{]{0,2}([^\s"'=,-][^\s"'=,]+)""")
_LISTED = re.compile(r"""["'],\s?["']""")  # the separator between the words of a command in a list


def has_unnamed_password(line: str) -> bool:
    """Whether a URL or a command line holds an unnamed password."""
    if _ADDRESS.search(line):
        return True
    if not LIKELY.search(line):
        return False
    plain = _LISTED.sub(" ", line)
    program = _PROGRAM.search(plain)
    found = [match for command in _COMMANDS for match in command.finditer(plain)]
    found += _FLAG.finditer(plain, program.end()) if program is not None else []
    if any(is_conspicuous(match[1]) for pattern in _CONSPICUOUS for match in pattern.finditer(line)):
        return True
    if any(shape_of(match[1]) >= least for pattern, least in _UNNAMED for match in pattern.finditer(line)):
        return True
    return any(shape_of(value) >= LiteralShape.WORD for match in found for value in filter(None, match.groups()))
