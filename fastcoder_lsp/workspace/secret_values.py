"""Tokens of a line of any language, and the shapes of literals regardless of their names.

Owns the syntax of strings, and the shapes of values: prefixes of known issuers of keys, random characters,
placeholders, technical words and sentences. Pure.
"""

import math
import re
from collections import Counter
from enum import IntEnum
from typing import NamedTuple

from fastcoder_lsp.workspace.secret_names import NAME, is_name_alone, words

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
    """For a string, the text between its quotes."""
    start: int
    end: int
    mark: str = ""
    closed: bool = True


def tokens_of(line: str, *, bare: bool, bracketed: bool) -> list[Token]:
    """The tokens of a line.

    Args:
        line: the line.
        bare: whether values have no quotes, so that all text between blanks and separators is a name.
        bracketed: whether the language has bracketed strings.
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


_MAX_LENGTH = 400
"""Characters of a value that are read."""
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
_MIN_WORD = 5
"""Letters of a word in a name of many words."""
_MIN_PART = 12
"""The length of a random value's longest part, in characters; shorter parts make a name of many words."""
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
    """Whether letters and digits are mixed as in no name."""
    digits = sum(letter.isdigit() for letter in run)
    letters = sum(letter.isalpha() for letter in run)
    if digits < 3 or letters < 3:
        return False
    counts = Counter(run)
    bits = -sum(count / len(run) * math.log2(count / len(run)) for count in counts.values())
    longest_word = max(map(len, re.findall(r"[A-Z]?[a-z]+|[A-Z]+", run)))
    hexadecimal = len(run) >= 32 and _HEXADECIMAL.fullmatch(run) is not None
    return hexadecimal or (bits > _MIN_RANDOM_BITS and longest_word < 6)
