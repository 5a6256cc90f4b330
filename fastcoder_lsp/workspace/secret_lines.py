"""Lines that look like secrets: nothing is suggested in them, and none of them goes along with a prompt.

A line is judged by the names in it that are a secret's, by what relates a name to a value (an assignment, a pair, a
call, an option, an element), and by whether that value is a literal. Addresses with passwords, well-known tokens and
random characters tell by themselves. The lines above say what a line is in the midst of, so a file is judged from its
beginning.

Owns the judgement of text; files that hold secrets by their names are `rules`' business. Pure.
"""

import math
import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache

from fastcoder_lsp.workspace.secret_names import LIKELY, NAME, Sort, is_name_alone, sort_of, words

KEYS = "PRIVATE KEY"
"""A file with such a thing in it is left alone where only pieces of files are at hand."""
_LOOKED_AT = 400
"""Characters of the line left of the cursor."""
_BLOCK = 16_000
"""Characters above in which a key's block may have begun."""
_NEAR = 60
"""Characters before a name that say how it is used."""
_MOST_NAMES = 200
"""Names in a line. One with more of them is left out unread, so that no line takes long."""
_MOST_LINES = 400
"""Of one secret."""
_REMEMBERED = 1_000
"""Characters of a line whose judgement is remembered."""
_LEAST_FAINT = 12
"""Characters of a value whose name alone says little."""
_LONGEST = 400
"""Characters of a value that are looked at."""
_BRACKETED = frozenset(("perl", "ruby", "crystal", "lua", "elixir"))
"""Whose strings may stand in brackets, as `q(…)` and `[[…]]`."""
_DECLARES = re.compile(r"\s*(?:export\s+)?(?:const|let|var)\b")
_LONG_MARKS = ("`", '"""', "'''")
_OVER_LINES = frozenset(("shellscript", "rust", "php", "ruby", "powershell"))
"""Where a string of one quote may go on in the next line."""
_PROSE = frozenset(("markdown", "plaintext", "restructuredtext"))
_BARE_LANGUAGES = _PROSE | frozenset(
    (
        "shellscript",
        "properties",
        "ini",
        "yaml",
        "toml",
        "dockerfile",
        "dotenv",
        "makefile",
        "fish",
        "bat",
        "http",
        "diff",
    )
)
"""Where values stand without quotes."""

_KNOWN = re.compile(
    r"(?<![A-Za-z0-9])(?:(?:sk-|[sr]k_(?:live|test)_|gh[opsur]_|github_pat_|glpat-|xox[abeprs]-|eyJ|pypi-|dop_v1_|(?:hf|npm)_(?=[A-Za-z0-9]{20})|"
    r"shp(?:at|ca|pa|ss)_|ya29\.|SG\.|lin_api_|dckr_pat_|hv[sb]\.|whsec_|sq0\w{3}-|PMAK-|NRAK-|glc_|gl(?:rt|dt|soat)-)"
    r"(?=[A-Za-z_.-]{0,80}\d)[A-Za-z0-9_.-]{8,}|"
    r"(?:AKIA|ASIA|AROA|AIza)[A-Z0-9][\w-]{7,}|AGE-SECRET-KEY-1|\$ANSIBLE_VAULT;|\{S?SHA\}[\w+/]{8}|"
    r"\d{6,12}:AA[\w-]{30,}|hooks\.slack\.com/services/T\w|discord(?:app)?\.com/api/webhooks/\d)|"
    r"\$(?:2[abxy]?\$\d\d|argon2\w{1,2}|apr1|[156]|y|scrypt|pbkdf2[\w-]{0,20})\$[\w./$=,+]{12,}"
)
_BEGUN = re.compile(
    r"(?<![A-Za-z0-9])(?:sk-|[sr]k_(?:live|test)_|gh[opsur]_|github_pat_|glpat-|xox[abprs]-|AKIA|ASIA|AIza|eyJ|npm_|pypi-|hf_)"
    r"[A-Za-z0-9_.-]{4,}$"
)
_RUN = re.compile(r"[A-Za-z0-9+_=-]{20,}")
_HEXADECIMAL = re.compile(r"[0-9a-fA-F-]+")
_CASED = re.compile(r"[A-Z]?[a-z]+|[A-Z]+")
_LEAST_WORD = 5
"""Letters of a word in a name of many words."""
_LEAST_PART = 10
"""Characters of a part of them: what is parted more often is a name of many words."""
_RANDOM_BITS = 3.5
"""Entropy of a character, above which twenty letters and digits are no name; of hexadecimal ones there are four."""
_SUM = re.compile(r"(?i)sha(?!red)|commit|hash|rev|digest|blob|etag|md5|sum\b|snapshot|tree|oid|uuid|guid")
"""Of a line that shows the sum of a file or a commit's name."""
_GIVEN = re.compile(r"""["'`=:]\s?$""")

_KEY_BEGINS = re.compile(r"-----BEGIN [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----")
_KEY_OPENS = re.compile(_KEY_BEGINS.pattern + r"""(?:\\[rn])*["'`]?[\s,+.;&\\(]*$""")
_KEY_ENDS = "-----END "

_CLOSES = r"""(?:\\{0,3}["'`]|&quot;|[*`_]{1,3})?\s{0,4}[\])}]{0,2}"""
"""What may end a name: `"password"`, `["password"]`, `**password**`."""
_TYPE = (
    r"""(?:\s{0,8}[?!]?:\s{0,4}[\w.&'<>\[\]|?*(), :;-]{1,60}?(?=\s{0,8}=(?![=~>]))|"""
    r"""\s{1,4}(?:As\s)?[\w.<>\[\]*?()]{1,40}(?=\s{0,8}=(?![=>~]))|\[\w{0,20}\]|\s{0,4}\{\s?get;[\w; ]{0,30}\}|\s\([^()]{0,20}\))?"""  # noqa: E501 one expression
)
_IS = re.compile(
    _CLOSES + _TYPE + r"""\s{0,30}(?:[:|?+.&]{0,2}={1,3}[>~]?|!==?|<-|->|:|\bto\b(?=\s+["'])|by\s+lazy\b)\s{0,30}"""
)
_OR = re.compile(
    _CLOSES
    + r"""\)?\s{0,4}(?:\|\||\?\?|\?:|\bor\b|:[-=]|\.(?:unwrap_or|or_?[eE]lse|get_?[oO]r)\w{0,12}\(|\)?\s?\{(?=\s{0,4}["']))\s{0,4}"""  # noqa: E501 one expression
)
_NEXT = re.compile(r"""(?:\\{0,3}["'`])\s{0,4},\s{0,8}""")
_DEFAULT = re.compile(r":[-=]?")
_SEVERAL = re.compile(r"(?:,\s{0,4}[\w.]{1,40}){1,4}\s{0,4}:?=\s{0,4}(?=[\"'`])")
_DECLARED = re.compile(r"\s*(?:(?:var|let|const|my|val)\s+)?\(?$")
_FIRST = re.compile(
    r"""\((?:\s{0,8}["'][^"']{0,25}["'],){2}\s{0,8}["']$|[{(]\{\s*["']$|\w[(\[{,]\s*[@:]?["'`][\w.]{0,50}$|\w\s?[\[{(]\s*[\w."]{1,40},\s*["'`]$|["']--?(?:\w+-)*$"""
)
_CALLS = re.compile(r"[({]\s{0,8}")
_ELEMENT = re.compile(r"""["']?(?:\s[^<>]{0,120})?>(?:<!\[CDATA\[)?(?=[^<>\s{$%])|>\s{0,8}$""")
_SPACE = re.compile(r"""[ \t]{1,8}(?![=:|(\[{])""")
_VALUE_KEY = re.compile(
    r"""(?i)(?:\b(?:value|default|content|contents|plaintext|val)["']?\s{0,8}(?:[:=]>?)\s{0,8}|<(?:string|value)>\s{0,8}(?=[^<\s]))"""
)
_AS_VALUE = re.compile(
    r"""(?i)(?:(?:\b(?:name|key|id|var|variable|type|field|option|setting|property|env)["']?\s{0,4}[:=]\s{0,4}["']?|"""
    r"""<(?:key|name)>|\bvariable\s["'])[\w.:-]{0,40}|["']-{1,2}(?:[\w]+-)*)$"""
)
"""Before a name that is itself the value of a pair, whose other half says the secret: `name: TOKEN`, `value: …`."""
_DIRECTIVE = re.compile(
    r"""(?i)(?:(?:^|[\s"'`(;])(?:env|arg|set|-x|-gx|-Ux|setenv|setx|export|\#\s{0,4}define|define|def|defvar|defconst|defparameter|setq|let|"""
    r"""with|encrypted|configure\sset|(?:login|user|account)\s{1,4}\S{1,60})\s{1,8}(?:[\w-]{1,30}[.:])?|(?:^|[\s"'`,\[])-{1,2}(?:[\w]+-)*|[(\s]:)$"""
)
_STARTS = re.compile(r"""^[+-]?\s*(?:\#|//|--|;)?\s*[:@]?$|[,({;]\s*$""")
_OWNED = frozenset(("key", "keys", "token", "pass"))
"""Names that tell by their owner's: `api.key`."""
_GETS = words(
    "get fetch read load parse check verify validate hash is has find make create generate new expect next encode "
    "decode encrypt decrypt compare match test assert require ask prompt input lookup delete remove reset revoke "
    "log print warn error raise resolve retrieve forgot show hide mask redact strip count to from on if while for"
)
"""Of a function that is named after a secret and isn't given one."""
_OPENER = re.compile(
    r"""(?:new\s+)?(?P<callee>[A-Za-z_][\w.:-]{0,60})!?(?:<[\w:]{0,30}>)?\s{0,2}(?:[({]|\s(?=["']))\s{0,8}|"""
    r"""(?:\[\w*\]|map\[\w+\])[\w.*]+[({]\s{0,8}|[\[({&*@]\s{0,8}|<<(?=["'])"""
)
_WRAPPERS = words(
    "some string str bytes byte from new secret secure b64 b64decode base64 base buffer optional of quote ok just text "
    "freeze raw literal lit qstring latin1string view convert to final value array list vec tuple set lazy fixed "
    "b decode password token key credential crypt sensitive std default env"
)
_KEYED = re.compile(r"""["'`]?[\w.-]{1,40}["'`]?\s{0,4}(?:=>|[:=])\s{0,4}(?=["'`])""")
_REFERENCE = re.compile(
    r"""[\w.$@]{1,60}(?:[(\[]{1,2}["']?[\w.$-]{0,60}["']?[\])]{1,2})?[\w.()]{0,30}\s{0,4}(?:\+|\.\.|\.|<>|\|\||\?\?|\?:|\bor\b)\s{0,4}(?=["'`])"""
)
_STRING = re.compile(
    r"""(?:[A-Za-z$@]{1,3}(?=[\#"'`]))?\#{0,3}(?P<mark>\\{0,3}(?:"{3}|'{3}|["`]|'{1,2}(?=\w)|'(?!'))|&quot;)|"""
    r"""(?P<bracket>\[=*\[|q[qwx]?\s?[({\[/|]|%[qQwWi][(\[{<|])(?=[^\s])"""
)
_BRACKET_ENDS = re.compile(r"[\])}>/|]")
_HEREDOC = re.compile(r"""(?:["']?\$\(\s*cat\s+)?<<<?[-~]?\s*["']?(?P<end>[A-Za-z_]\w*)["']?""")
_SCALAR = re.compile(r"(?:[!&][\w-]+\s+)*[|>][-+\d]{0,2}\s*(?:#.*)?$")
_ENDS_OPEN = re.compile(r"(?:[\w.:<>]{0,40}[(\[{])?\s*+\\?\s*+$")
_BARE = re.compile(r"""(?:[!&][\w-]+\s+)?([^\s"'`<>,;&|(){}\[\]]{1,200})(?!\()""")
_GAPS = re.compile(
    r"""\$\{[\w .:?,()\'"-]{0,200}\}|\{\{[^{}]{0,200}\}\}|\#?\{[\w.:!,()\'-]{0,200}\}|\$\([^)]{0,200}\)"""
    r"""|(?<![\w$@!])\$[A-Za-z_]\w*|(?<!\w)%\w{1,30}%|"""
    r"""(?<!\w)%(?:\(\w+\))?[-.\d]{0,4}[sdrvqi@]\b|<[\w .,:|/-]{0,200}>|\[[A-Z_]+\d*\]"""
)
"""What is put in, and placeholders."""
_NOTHING = words(
    "string str int integer bool boolean number object none null nil true false undefined required optional yes no "
    "any text varchar char bytes byte hidden default example array list float double void const this self env "
    "enabled disabled always never bearer basic digest inherit auto todo redacted empty unset missing unknown"
)
_STOPS = words(
    "the a an your is are of for please enter this that not and or to in on with from must be can invalid no "
    "if it by as was has have use used when which required optional new current"
)
_WORD = re.compile(r"[_.-]*(?:[A-Za-z]+[_.-]+)*[A-Za-z]*|[^\W\d]{1,3}")
_PATH = re.compile(r"[~.]{0,2}/(?:[\w.-]+/)+[\w.-]*|[a-z]+://[^@]*")

_HEADER = re.compile(
    r"""(?:["'`:]\s*|Authorization\s+["']?)(?:Bearer|Basic|Token|ApiKey)\s+(?![A-Z]?[a-z/.=-]*(?:["'`\s]|$))[\w+/.~=-]{6,}(?=["'`\s;]|$)"""
)
"""What follows is no word, as in "Basic configuration"."""
_ADDRESS = re.compile(r"""://[^\s/:@"'`]{0,80}:[^\s/:@"'`{}<>$%][^\s/:@"'`]{0,200}@""")
"""With a password, `https://me:…@host`."""
_SOMETHING = r"""[rbf@N]?["'`](?!["'`]\s*[,)\]])"""
_COUPLE = re.compile(
    rf"""(?:\b(?:(?:HTTP|Set)?[Bb]asic_?[Aa]uth|[Ll]og_?in|[Aa]uthenticate|auth["'`]?\s{{0,4}}[=:]\s{{0,4}}|\w{{0,24}}(?:Credentials?|Authentication)|USERPWD)\w{{0,12}})"""
    rf"""\s?[(\[]\s{{0,8}}+["'`]?[^"'`,()]{{0,80}}["'`]?\s{{0,8}},\s{{0,8}}(?:Some\()?{_SOMETHING}(?=[^"'`]{{3}})|"""
    rf"""\b(?:getConnection|mysqli?(?:_\w+)?|PDO|pg_connect|DBI->connect)\([^,()]{{1,80}},(?:[^,()]{{1,80}},){{1,2}}\s{{0,8}}{_SOMETHING}|"""
    r"""\bauth["']?\s{0,4}[=:]\s{0,4}["'][^:"'\s/{]{1,60}:[^\s"'$/{]{3}|USERPWD\W{1,4}["'][^:"']{1,60}:[^\s"'$]"""
)
"""A user with a password."""
_TOLD = re.compile(
    r"""(?i:\bidentified\s+(?:with\s+\w{1,40}\s+)?by\s+["'`])|"""
    r"""\b(?:sshpass|plink|pscp)\b[^|]{0,80}?\s-pw?\s{0,2}["']?[^\s$"'-]|\bmysql\w{0,20}\b.{0,120}?\s-p["']?[^\s$"']|"""
    r"""\b(?:docker|podman|az|mongo\w{0,10}|helm|cf|oc)\b.{0,120}?\s(?:-p)[ =]["']?[^\s$"'{<-]|"""
    r"""\b(?:redis-cli\b.{0,80}?\s-a|ldap\w{2,10}\b.{0,120}?\s-w|htpasswd\b.{0,20}?\s-\w{0,4}b\w{0,4}\s\S{1,80}\s\S{1,80})\s["']?[^\s$"'-]|"""
    r"""\bcurl\b.{0,200}?\s(?:-u|--user)[ =]?["']?[^\s:"'$]{1,80}:[^\s"'$]|"-u",\s?"[^":$]{1,80}:[^"$]|"""
    r"""\b(?:echo|printf)\b\s[^|]{0,120}?["' ][^\s$"']{3,}["']?\s?\|\s?.{0,60}?(?:--password-stdin|chpasswd|passwd --stdin)|"""  # noqa: E501 one expression
    r"""ConvertTo-SecureString\s+(?:-String\s+)?["'][^$"']|\bvault\s+login\s+[\w.]{12}"""
)
_LISTED = re.compile(r"""["'],\s?["']""")
"""Between the words of a command in a list."""
_INSERTS = re.compile(r"(?i)\binsert\s+into\b.{0,400}?\bvalues\s*\(")
_STRINGS = re.compile(r""""(?:[^"\\]|\\.)*+"?|'(?:[^'\\]|\\.)*+'?|`[^`]*+`?""")
_COMMENT = re.compile(r"""^[+-]?\s*(?:\#|//|--|;|/\*|\*|<!--|%|rem\s)|\s(?:\#|//)\s""", re.IGNORECASE)
_DEFINES = re.compile(
    r"\s*(?:(?:async|pub|export|public|private|static)\s+)*(?:class|def|fn|func|function|if|elif|else|for|while|with|case|try|switch|when|interface|type|struct)\b"
)
_ITEM = re.compile(r"""\s*(?:-\s+)?(?=["'`]|[rbfu]["'])""")
_KIND = re.compile(r"^kind:\s*[\"']?Secret\b", re.MULTILINE)

_QUOTED_LEFT = re.compile(
    r"""([^\W\d][\w.-]{0,80})["'\]]{0,2}\s*(?::[\w\s.\[\]|?&'<>]{1,40})?(?::=|=>|=|:)\s*[rbufRBUF@$]{0,2}["'`][^"'`]*$"""
)
_BARE_LEFT = re.compile(
    r"^\s*(?:export\s+|set\s+|ENV\s+|ARG\s+|-\s+)?[\"']?([^\W\d][\w.-]{0,80})[\"']?\s*[:=]\s*\S*+(?:\s+#.*)?$"
)


@dataclass(frozen=True, slots=True)
class Open:
    """What the lines above left open, of which the next line may be a part.

    Attributes:
        kind: of what: "text" to where `end` stands, lines "deeper" than `depth`, a private "key", values "below",
            a "pair" whose value comes, the "next" line alone, a Kubernetes "manifest" of secrets; "" for nothing.
        end: what ends a text.
        depth: of the line that began it.
        left: lines that it may still have.
        firm: whether any literal is meant, or one that looks like a secret alone.
    """

    kind: str = ""
    end: str = ""
    depth: int = 0
    left: int = 0
    firm: bool = True


NOTHING_OPEN = Open()
_Judged = tuple[bool, Open]


def beginning(text: str, language: str) -> Open:
    """What is open at the beginning of a whole `text`."""
    return Open("manifest") if language == "yaml" and _KIND.search(text) else NOTHING_OPEN


def judge(line: str, language: str, above: Open) -> _Judged:
    """Whether a line looks like a secret or a part of one below what is open, and what it leaves open."""
    if above.kind:
        told = _go_on(line, language, above)
        if told is not None:
            return told
    return (_judge_alone if len(line) < _REMEMBERED else _judge_alone.__wrapped__)(line, language)


def judge_all(lines: Iterable[str], language: str, above: Open) -> Iterator[bool]:
    """Whether each of some lines looks like a secret."""
    for line in lines:
        secret, above = judge(line, language, above)
        yield secret


def without_secrets(text: str, language: str) -> str:
    """A file without the lines that look like a secret, or like a part of one."""
    lines = text.split("\n")
    judged = judge_all(lines, language, beginning(text, language))
    return "\n".join(line for line, secret in zip(lines, judged, strict=True) if not secret)


@lru_cache(maxsize=32)
def secret_lines(text: str, language: str) -> frozenset[str]:
    """The lines of a file that look like secrets, without the blanks around them."""
    lines = text.split("\n")
    judged = judge_all(lines, language, beginning(text, language))
    return frozenset(line.strip() for line, secret in zip(lines, judged, strict=True) if secret)


def without_lines(piece: str, secret: frozenset[str]) -> str:
    """Some lines of a file without its `secret` ones; what has no letters, as a bracket, tells nothing."""
    lines = piece.split("\n")
    return "\n".join(line for line in lines if line.strip() not in secret or not any(map(str.isalnum, line)))


def in_secret(before: str, language: str) -> bool:
    """Whether what stands left of the cursor looks like a part of a secret, or is about to be one."""
    left = before[-_LOOKED_AT:].rpartition("\n")[2]
    if (match := _QUOTED_LEFT.search(left)) is not None and sort_of(match[1]) >= Sort.MAYBE:
        return True
    if (
        language in _BARE_LANGUAGES
        and (match := _BARE_LEFT.match(left)) is not None
        and sort_of(match[1]) >= Sort.MAYBE
    ):
        return True
    run = next((run for run in _RUN.finditer(left) if run.end() == len(left)), None)
    random = run is not None and _is_random(run[0])
    return random or bool(_BEGUN.search(left)) or _in_key(before[-_BLOCK:])


def _in_key(before: str) -> bool:
    """Whether a private key has begun above and not ended."""
    begun = [match.end() for match in _KEY_BEGINS.finditer(before)]
    return bool(begun) and _KEY_ENDS not in before[begun[-1] :]


def _go_on(line: str, language: str, above: Open) -> _Judged | None:  # noqa: C901 a case for each kind
    """The judgement of a line by what is open; None where it is to be judged by itself."""
    kind, depth = above.kind, _depth(line)
    if kind == "manifest":
        return _in_manifest(line, above)
    if above.left <= 0:
        return None
    less = Open(kind, above.end, above.depth, above.left - 1, above.firm)
    if kind in {"text", "key"}:
        return True, NOTHING_OPEN if above.end in line else less
    blank = not line.strip()
    if kind == "deeper":
        return (True, less) if blank or depth > above.depth else None
    if kind == "next":
        return True, less if line.rstrip().endswith("\\") else NOTHING_OPEN
    if blank:
        return False, less
    if kind == "pair":
        return _other_half(line, language, less)
    item = _ITEM.match(line)
    if item is not None:
        found = _Line(line, language).value(item.end(), Sort.SURE if above.firm else Sort.MAYBE)
        if found is None and (keyed := _KEYED.match(line, item.end())) is not None and above.firm:
            found = _Line(line, language).value(keyed.end(), Sort.SURE)
        return found or (False, less) if found is None or found[1].kind else (True, less)
    if language == "yaml" and line.lstrip().startswith("- ") and above.firm:
        item_text = line.lstrip()[2:].strip()
        return (True, less) if ":" not in item_text and _means(item_text, Sort.SURE, firm=True) else None
    return None


def _in_manifest(line: str, above: Open) -> _Judged:
    """A line of a Kubernetes manifest with secrets: `data` and `stringData` hold nothing else."""
    if line.startswith(("data:", "stringData:")):
        return False, Open("manifest", end="data")
    inside = bool(above.end) and (not line.strip() or line[0] in " \t")
    secret = inside and ":" in line
    state = above if inside else Open("manifest")
    return secret or (inside and bool(line.strip())) or _judge_alone(line, "yaml")[0], state


def _other_half(line: str, language: str, less: Open) -> _Judged | None:
    match = _VALUE_KEY.search(line)
    if match is None:
        secret, opened = _judge_alone(line, language)
        return secret, opened if opened.kind or secret else less
    found = _Line(line, language).value(
        match.end(), Sort.SURE, bare=language in _BARE_LANGUAGES or line[match.start()] == "<", sure=True
    )
    return found or (False, NOTHING_OPEN)


@lru_cache(maxsize=20_000)
def _judge_alone(line: str, language: str) -> _Judged:
    """The judgement of a line below which nothing is open."""
    opens = NOTHING_OPEN
    if "-----BEGIN" in line and (key := _KEY_BEGINS.search(line)) is not None:
        ended = _KEY_ENDS in line[key.end() :]
        whole = _KEY_OPENS.search(line) is not None
        return whole or ended, Open("key", _KEY_ENDS, 0, _MOST_LINES) if whole and not ended else NOTHING_OPEN
    if _KNOWN.search(line) or any(_is_random_value(line, run) for run in _RUN.finditer(line)):
        return True, _Line(line, language).judge()[1] if LIKELY.search(line) else opens
    return _Line(line, language).judge() if LIKELY.search(line) else (False, opens)


class _Line:
    """One line, in which a name of a secret may stand."""

    def __init__(self, line: str, language: str) -> None:
        self._line, self._language = line, language
        self._depth = _depth(line)
        self._bare = language in _BARE_LANGUAGES
        self._spans: list[tuple[int, int]] | None = None
        comment = _COMMENT.search(line)
        if comment is not None and self._bare and comment[0].strip() == "//":
            comment = None
        self._comment = comment.start() if comment is not None and language != "diff" else len(line) + 1

    def judge(self) -> _Judged:
        line = self._line
        if (
            _HEADER.search(line)
            or _ADDRESS.search(line)
            or _COUPLE.search(line)
            or _TOLD.search(_LISTED.sub(" ", line))
        ):
            return True, NOTHING_OPEN
        opened, names = NOTHING_OPEN, 0
        for name in NAME.finditer(line):
            begin = line.rfind(".", max(0, name.start() - 30), name.start()) + 1
            owner = line[max(0, name.start() - 30) : name.start() - 1] if begin == name.start() > 0 else ""
            sort = sort_of(name[0])
            if owner and name[0] in _OWNED:
                sort = max(sort, sort_of(f"{owner}.{name[0]}"))
            if not sort:
                continue
            names += 1
            if names > _MOST_NAMES:
                return True, NOTHING_OPEN
            found = self._related(name, sort)
            if found is not None:
                if found[0]:
                    return found
                opened = found[1] if found[1].kind else opened
        return bool(names and _INSERTS.search(line)), opened

    def _related(self, name: re.Match[str], sort: Sort) -> _Judged | None:  # noqa: C901, PLR0912 a case for each relation
        """The judgement of what stands behind a name, if anything relates it to a value."""
        line, begin, end = self._line, name.start(), name.end()
        before = line[max(0, begin - _NEAR) : begin]
        quoted = before.endswith(('"', "'", "`"))
        if _AS_VALUE.search(before) and (pair := self._pair(end)) is not None:
            return pair
        default = before.endswith("${") or ("${" in before and line.startswith(":", end))
        if default and (match := _DEFAULT.match(line, end)) is not None:
            return self.value(match.end(), Sort.SURE, bare=True, sure=True)
        if (several := _SEVERAL.match(line, end)) is not None and _DECLARED.match(before):
            return self.value(several.end(), sort)
        if "<" in before[-3:] and (found := self._element(end)) is not None:
            return found
        if (match := _IS.match(line, end)) is not None and not line.startswith("::", match.end() - 2):
            bare = self._is_bare(begin, match[0])
            found = self.value(match.end(), sort, bare=bare, open_ended=self._may_go_on(match[0]))
            if found is not None:
                return found
        elif (match := _OR.match(line, end)) is not None:
            return self.value(match.end(), Sort.SURE, bare=":" in match[0], sure=True)
        elif (match := _NEXT.match(line, end)) is not None:
            first = _FIRST.search(before) is not None
            return self.value(match.end(), sort, firm=first, open_ended=False)
        elif line.startswith(",", end) and re.search(r"\bstr\w{0,8}\(\s*$|(?:\{|\s:)\s*$", before):
            return self.value(len(line) - len(line[end + 1 :].lstrip()), sort)
        elif (match := _CALLS.match(line, end)) is not None and line[end] in "({":
            verb = re.match(r"[a-z]+", name[0])
            if not quoted and (verb is None or verb[0] not in _GETS) and not _DEFINES.match(line):
                sure = verb is not None and verb[0] in {"set", "with", "add", "use"}
                return self.value(match.end(), Sort.SURE if sure else sort, bare=False, open_ended=False)
        elif (match := _ELEMENT.match(line, end)) is not None and ("<" in before or quoted):
            return self._element(end)
        elif (match := _SPACE.match(line, end)) is not None:
            return self._directive(before, match.end(), sort)
        elif before.rstrip().endswith(("==", "!=")) or before.rstrip().endswith(("equals(", "IgnoreCase(")):
            return self._compared(before)
        return None

    def _element(self, end: int) -> _Judged | None:
        """The text of an element behind its name."""
        line, match = self._line, _ELEMENT.match(self._line, end)
        if match is None:
            return None
        if match.end() == len(line):
            return False, Open("next", left=1)
        closed = line.find("</", match.end(), match.end() + _LONGEST) >= 0
        return self.value(match.end(), Sort.SURE, bare=True, sure=True) if closed else None

    def _may_go_on(self, relation: str) -> bool:
        """Whether a value may stand in the lines below: not in a definition, nor in Python's prose."""
        if ":" not in relation:
            return True
        prose = self._language == "python" and relation[0] not in "\"'" and "=" not in relation
        return not prose and not _DEFINES.match(self._line)

    def _is_bare(self, begin: int, relation: str) -> bool:
        """Whether a value without quotes would be one, behind a name that begins there."""
        if begin > self._comment or (self._language in _PROSE and ":" in relation):
            return True
        return self._bare or (relation[0] not in "\\\"'`" and self._in_string(begin))

    def _in_string(self, at: int) -> bool:
        if self._spans is None:
            self._spans = [match.span() for match in _STRINGS.finditer(self._line)]
        begin, end = self._spans[bisect_left(self._spans, (at,)) - 1] if self._spans else (at, at)
        return begin < at < end

    def _directive(self, before: str, at: int, sort: Sort) -> _Judged | None:
        """A value behind a name and a blank: of a command, or where a statement begins with the name."""
        line = self._line
        rest = line[at : at + _LONGEST].rstrip()
        option = before.endswith("-")
        if _DIRECTIVE.search(before):
            shell = (
                self._bare
                or self._in_string(len(before))
                or option
                or self._language in {"tcl", "powershell"}
                or "login" in before
            )
            if rest == "\\":
                return False, Open("next", left=1)
            return self.value(
                at,
                Sort.SURE if option and sort > Sort.FAINT else sort,
                bare=shell and not rest.startswith("-"),
                sure=True,
            )
        if _STARTS.search(before) and self._comment > len(line):
            bare = self._bare and self._language not in _PROSE and " " not in rest
            netrc = self._language in _PROSE and " " not in rest and before == "" and len(line) < _LONGEST
            return self.value(at, sort, bare=bare or netrc, firm=not netrc or True)
        if self._language in _PROSE and (before.endswith(("`", "/ ")) or "`" in rest[:1]):
            return self.value(at, sort, firm=False)
        return None

    def _compared(self, before: str) -> _Judged | None:
        """A literal on the left of a comparison with a name."""
        text = before.rstrip(" =!").removesuffix(".equals(").removesuffix(".equalsIgnoreCase(")
        mark = text[-1:]
        value = text[:-1].rpartition(mark)[2] if mark in {'"', "'"} else ""
        return (True, NOTHING_OPEN) if _means(value, Sort.SURE, firm=True) else None

    @cached_property
    def _value_key(self) -> re.Match[str] | None:
        """What stands before the other half of a pair: looked for once a line, not for each of its names."""
        return _VALUE_KEY.search(self._line)

    def _pair(self, end: int) -> _Judged | None:
        """The other half of a pair whose first is a secret's name, in this line, or in the lines below."""
        line, match = self._line, self._value_key
        if match is not None:
            return self.value(match.end(), Sort.SURE, bare=self._bare or line[match.start()] == "<", sure=True)
        rest = re.sub(r"</?\w+>", "", line[end : end + _LONGEST]).strip(" \t\"',;{}>")
        return None if rest else (False, Open("pair", left=2))

    def value(  # noqa: C901 a case for each way to begin a value
        self,
        at: int,
        sort: Sort,
        *,
        bare: bool = False,
        firm: bool = True,
        open_ended: bool = True,
        sure: bool = False,
    ) -> _Judged | None:
        """The judgement of what begins at `at`, where a value may; None where no literal does."""
        line, rest = self._line, self._line[at : at + 3]
        if (here := _HEREDOC.match(line, at)) is not None and not rest.startswith('<<"'):
            return True, Open("text", here["end"], 0, _MOST_LINES)
        if self._bare and _SCALAR.match(line, at):
            return True, Open("deeper", "", self._depth, _MOST_LINES)
        if (end := _ENDS_OPEN.match(line, at)) is not None and open_ended:
            return self._below(end[0].strip(), sort)
        for _ in range(4):
            opener = _OPENER.match(line, at)
            if self._language in _BRACKETED and line.startswith("[[", at):
                break
            if opener is None or not _wraps(opener["callee"]):
                break
            at = opener.end()
            if sort is Sort.SURE and (keyed := _KEYED.match(line, at)) is not None:
                at = keyed.end()
        if (reference := _REFERENCE.match(line, at)) is not None and _STRING.match(line, at) is None:
            at = reference.end()
        string = _STRING.match(line, at)
        if string is not None and (string["mark"] or self._language in _BRACKETED):
            return self._string(string, sort, firm)
        if not bare or (found := _BARE.match(line, at)) is None:
            return None
        return self._without_quotes(found, sort, sure=sure)

    def _without_quotes(self, found: re.Match[str], sort: Sort, *, sure: bool) -> _Judged | None:
        line, value = self._line, found[1]
        behind = line[found.end() : found.end() + _LONGEST].strip()
        if behind.startswith("("):
            return None
        remark = found.start() > self._comment
        alone = not behind or behind[0] in "#;,\"'`|<)}]&\\"
        if (
            self._bare
            and not alone
            and not remark
            and self._language not in {"shellscript", "dockerfile", "fish", "makefile", "bat"}
        ):
            value = f"{value} {behind.partition(' #')[0]}"
        firm = sure or (
            not remark
            and not (self._language in _PROSE and not alone)
            and (self._bare or "=" in line[: found.start()][-3:])
        )
        if not _means(value, sort, firm=firm):
            return None
        return True, Open("next", left=3) if (behind == "\\" and self._language == "properties") or (
            line.endswith("\\") and self._language == "properties"
        ) else NOTHING_OPEN

    def _string(self, string: re.Match[str], sort: Sort, firm: bool) -> _Judged | None:
        line, at, mark = self._line, string.end(), string["mark"]
        closing = line.find(mark, at, at + _LONGEST) if mark else -1
        if not mark:
            end = _BRACKET_ENDS.search(line, at, at + _LONGEST)
            closing = end.start() if end is not None else -1
        over = mark in _LONG_MARKS[self._language == "python" and not _DECLARES.match(line) :] or (
            mark == '"' and self._language in _OVER_LINES
        )
        if (
            closing < 0
            and mark
            and over
            and line.count(mark) % 2
            and self._language not in _PROSE
            and len(line) - at < _LONGEST
        ):
            return True, Open("text", mark, 0, _MOST_LINES)
        value = line[at:closing] if closing >= 0 else line[at : at + _LONGEST]
        after = line[closing + len(mark or "]") :][:_LONGEST] if closing >= 0 else ""
        behind = after.strip()
        going_on = behind in {"\\", "+", ".", "..", "&", "<>", "||"} or (
            behind in {"", ","} and "[" in line[: string.start()][-3:]
        )
        opens = Open("below", "", self._depth, _MOST_LINES, sort is Sort.SURE) if going_on else NOTHING_OPEN
        more = re.match(r"\s*[,+.]?\s*[rbf]?[\"'`]([^\"'`]{3,200})[\"'`]", after)
        held = _means(value, sort, firm=firm) or (
            more is not None
            and firm
            and sort is Sort.SURE
            and _means(more[1], sort, firm=True)
            and not behind.startswith(",")
        )
        return (True, opens) if held else None

    def _below(self, ends: str, sort: Sort) -> _Judged | None:
        """A name's value may stand in the lines below."""
        if _DEFINES.match(self._line) or (ends.endswith("{") and sort is not Sort.SURE):
            return None
        if ends.endswith("\\") and self._bare and ends == "\\":
            return False, Open("next", left=1)
        return False, Open("below", ends, self._depth, _MOST_LINES, sort is Sort.SURE)


def _wraps(callee: str | None) -> bool:
    """Whether a call gives back what it is given, in another form."""
    return callee is None or all(
        part.lower() in _WRAPPERS
        for part in re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+", callee)
        if not part.isdigit()
    )


def _means(value: str, sort: Sort, *, firm: bool) -> bool:
    """Whether a literal is a secret's value, and not a placeholder, a name or a sentence.

    Args:
        value: the literal.
        sort: of its name.
        firm: whether it is certainly given to the name; otherwise it has to look like a secret itself.
    """
    plain = _GAPS.sub("", value).strip()
    letters = [letter for letter in plain if letter.isalnum()]
    if len(set(letters)) < (3 if plain == value.strip() else 5) or plain.startswith("-") or plain.lower() in _NOTHING:
        return False
    mixed = " " not in plain and len(plain) >= 6 and any(map(str.isdigit, letters)) and any(map(str.isalpha, letters))
    if sort is Sort.FAINT:
        cases = any(map(str.islower, letters)) and any(map(str.isupper, letters))
        return mixed and len(plain) >= _LEAST_FAINT and (cases or _HEXADECIMAL.fullmatch(plain) is not None)
    if mixed and not _PATH.fullmatch(plain):
        return True
    if not firm or _PATH.fullmatch(plain) or is_name_alone(plain):
        return False
    said = plain.lower().split()
    if len(said) > 1 and not _STOPS.isdisjoint(said):
        return False
    return sort is Sort.SURE or (len(said) == 1 and not _WORD.fullmatch(plain) and any(map(str.isalpha, letters)))


def _depth(line: str) -> int:
    return len(line) - len(line.lstrip())


def _is_random_value(line: str, run: re.Match[str]) -> bool:
    """Whether random characters in a line are a value: hexadecimal ones are the sum of something as often as not."""
    if not _is_random(run[0]):
        cases = run[0].isalnum() and any(map(str.islower, run[0])) and any(map(str.isupper, run[0]))
        return cases and any(map(str.isdigit, run[0])) and max(map(len, _CASED.findall(run[0]))) < _LEAST_WORD
    if not _HEXADECIMAL.fullmatch(run[0]):
        return any(len(part) >= _LEAST_PART for part in re.split(r"[-_=+]", run[0]))
    near = line[max(0, run.start() - 40) : run.start()]
    return len(run[0]) >= 32 and _GIVEN.search(near) is not None and not _SUM.search(near)


def _is_random(run: str) -> bool:
    """Whether letters and digits are mixed as nobody names things."""
    digits = sum(letter.isdigit() for letter in run)
    letters = sum(letter.isalpha() for letter in run)
    if digits < 3 or letters < 3:
        return False
    counts = Counter(run)
    bits = -sum(count / len(run) * math.log2(count / len(run)) for count in counts.values())
    longest_word = max(map(len, re.findall(r"[A-Z]?[a-z]+|[A-Z]+", run)))
    hexadecimal = len(run) >= 32 and _HEXADECIMAL.fullmatch(run) is not None
    return hexadecimal or (bits > _RANDOM_BITS and longest_word < 6)
