"""Whether a line tells a secret, and what it leaves open for the lines below.

A secret's name and a value that an assignment, a comparison, a pair, a call or a remark gives it tell a secret. So does
what a call that logs in or signs is given.

Owns what relates a name to a value. Pure.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from fastcoder_lsp.workspace.secret_names import LIKELY, Sort, is_credential_call, name_words, sort_of, words
from fastcoder_lsp.workspace.secret_tokens import BRACKETED, Token, tokens_of
from fastcoder_lsp.workspace.secret_values import Look, look_of, stands_out

_MOST_NAMES = 16
"""Names and calls in a line that may tell a secret. One with more of them is left out unread, too."""
MOST_LINES = 400
"""Of one secret."""
_FAR = 40
"""Tokens behind a name in which its value ends."""

_LONG_MARKS = ("`", '"""', "'''")
_OVER_LINES = frozenset(("shellscript", "rust", "php", "ruby", "powershell"))
"""Where a string of one quote may go on in the next line."""
_NO_BACKTICKS = words("python c cpp java csharp rust swift emacs-lisp")
"""Where a backtick begins no string."""
_PROSE = frozenset(("markdown", "plaintext", "restructuredtext"))
BARE_LANGUAGES = _PROSE | words("shellscript properties ini yaml toml dockerfile dotenv makefile fish bat http diff")
"""Where values stand without quotes."""
_SHELLS = words("shellscript fish bat dockerfile makefile tcl powershell http")
_MARKUP = frozenset(("xml", "html"))

_IS = words("eq ne ceq cne ieq = := ::= :::= == === != !== ?= += ||= |= &= .= ??= => ~> -> <- : ~=")
_OR = words("|| ?? ?: or :-")
_EQUALS = words("eq ne ceq cne ieq == === != !==")
_JOINS = words("+ . .. & <> || \\ , = := ( [ { -> => == ===")
"""At the end of a line: what stands below belongs to it."""
_OPENS, _CLOSES = words("( [ {"), words(") ] }")
_TYPES = words("[ ] ( ) { } < > * & ? ! | . :: : '")
_KEYWORDS = words("in if for while and or not return assert raise await else elif then do yield case is")
_DEFINES = re.compile(
    r"\s*(?:(?:async|pub|export|public|private|protected|static|final|override|default)\s+)*"
    r"(?:class|def|fn|func|fun|sub|function|if|elif|else|for|while|with|case|try|switch|when|interface|type|struct(?!.*=\s*\{)|defun|defmacro|import|from)\b"
)
_NAMES_ONLY = re.compile(
    r"\s*(?:(?:async|pub|export|public|private)\s+)*(?:class|def|fn|func|interface|type|import|from|elif|case)\b"
)
"""Beginning lines whose literals are names more often than values."""
_COMMENT = re.compile(
    r"""^[+-]?\s*(?:\#(?!\s*define)|//|--(?!\w)|;|/\*|\*\s|<!--|%\s|rem\s|"\s)|\s(?:\#|//|--)\s|/\*""", re.IGNORECASE
)
_ALIAS = words("name key id var variable type field option setting property env parameter header")
_AROUND = _ALIAS | words(", } ; { < / >")
_VALUES = words("value default content contents plaintext val string")
_INNER = words("type description title format help message label name required enum pattern kind scope in ref")
"""Keys in a name's map, whose values are no secret."""
_GETS = words(
    "get fetch read load parse check verify validate hash is has find make create generate new expect next encode "
    "decode encrypt decrypt compare match test assert require ask prompt input lookup delete remove reset revoke "
    "log print warn error raise resolve retrieve forgot show hide mask redact strip count to from on if while for"
)
"""Of a function that is named after a secret and isn't given one."""
_PUTS = words(
    "set put add use with insert define env setenv putenv option property header default str strcpy strncpy "
    "strcmp strncmp strcasecmp memcmp setopt insert export string"
)
"""Of a function that is given a name and its value."""
_LOOKS_UP = words("get getenv fetch env default pop setdefault unwrap else var lookup getorelse or nvl coalesce")
"""Of a function whose last argument is the value where there is no other."""
_FALLS_BACK = words("unwrap or else default equals eq equal")
_WRAPPERS = words(
    "some string str bytes byte from new secret secure b64 b64decode base64 base buffer optional of quote ok just text "
    "freeze raw literal lit qstring latin1string view convert to final value array list vec tuple set lazy fixed join "
    "b decode password token key credential crypt sensitive std func fn lambda return function cstr once call reverse "
    "concat map object dict hash final box arc rc unhexlify fromhex hex atob strdup"
)
_DIRECTIVES = words(
    "env arg set -x -gx -Ux setenv setx export define def defvar defconst defparameter x gx ux setq let "
    "with encrypted login user account password as"
)
_FIELDS = words("user username email mail login host name url port db type id value text data")
"""Of a field that often stands beside a secret's."""
_PLAIN = re.compile(r"[\w!@#$%^&*+.-]{6,60}")
_BARE = re.compile(r"""(?:[!&][\w-]+\s+)?([^\s"'`<>,;&|(){}\[\]]{1,200})(?!\()""")
_SCALAR = re.compile(r"(?:[!&][\w-]+\s+)*[|>][-+\d]{0,2}\s*(?:#.*)?$")
_HEREDOC = re.compile(r"""(?:["']?\$\(\s*cat\s+)?<<<?[-~]?\s*["']?(?P<end>[A-Za-z_]\w*)["']?""")
_HERE = re.compile(r"""@(["'])\s*$""")
_WORDS = re.compile(r"\S+")
_GIVEN = re.compile(r"(?:\s+[\w()]+){0,2}?(?:\s+is:?|\s*[:=])\s+(\S+)")
_BEFORE = re.compile(r"(\S+) (?:is|as) (?:the|a|my|our)\b[\w ]*$")
_TRIM = "\"'`.,;:()[]{}<>*_!?="

_HEADER = re.compile(
    r"""(?:["'`:]\s*|Authorization\s+["']?)(?:Bearer|Basic|Token|ApiKey)\s+(?![A-Z]?[a-z/.=-]*(?:["'`\s]|$))[\w+/.~=-]{6,}(?=["'`\s;]|$)"""
)
"""What follows is no word, as in "Basic configuration"."""
_ADDRESS = re.compile(r"""://[^\s/:@"'`]{0,80}:[^\s/:@"'`{}<>$%][^\s/:@"'`]{0,200}@""")
"""With a password, `https://me:…@host`."""
_TOLD = re.compile(
    r"""(?i:\bidentified\s+(?:with\s+\w{1,40}\s+)?by\s+["'`])|"""
    r"""\b(?:sshpass|plink|pscp|mysql\w{0,20}|docker|podman|az|mongo\w{0,10}|helm|cf|oc|unzip|zip|7z|redis-cli|ldap\w{2,10}|openssl|useradd|usermod)\b"""
    r"""[^|;]{0,120}?\s-(?:pw|[apPkw])[ =]{0,2}(?<!k)["']?(?!(?i:pass|file|env)\w*[:=])[^\s$"'{<,-][^\s"'=]{2}|"""
    r"""\bhtpasswd\b.{0,20}?\s-\w{0,4}b\w{0,4}\s\S{1,80}\s\S{1,80}\s["']?[^\s$"'-]|"""
    r"""\b(?:curl|https?|wget|smbclient)\b.{0,200}?\s(?:-[auU]|--user)[ =]?["']?[^\s:%"'$/]{1,80}[:%](?!//)[^\s"'$]|"""
    r""""-u",\s?"[^":$]{1,80}:[^"$]|"""
    r"""\b(?:echo|printf)\b[^|]{0,120}?["' ][^\s$"']{3,}["']?\s?\|\s?.{0,60}?"""
    r"""(?:--password-stdin|chpasswd|passwd --stdin|sudo -\w*S)|"""
    r"""ConvertTo-SecureString\s+(?:-String\s+)?["'][^$"']|\bvault\s+login\s+[\w.]{12}|\bnet\s+user\s+\w+\s+[^\s/*]|"""
    r"""(?i:(?:\b|_)(?:auth|btoa|userpwd)["']?\W{1,8}["'][^:"'\s/{]{1,60}:(?![/:])[^\s"'$/{]{3})|["'][\w.-]{1,40}:[^\s:@"'/{$%]{1,60}@tcp\("""
)
_INSERTS = re.compile(r"(?i)\binsert\s+into\b[^(]{0,80}+\([^)]*+\)\s*+values\s*+\(")
_LISTED = re.compile(r"""["'],\s?["']""")
"""Between the words of a command in a list."""


@dataclass(frozen=True, slots=True)
class Open:
    """What the lines above left open, of which the next line may be a part.

    Attributes:
        kind: of what: "text" to where `end` stands, lines "deeper" than `depth`, the value of a name "below", a "pair"
            whose value comes, the "next" line alone, a Kubernetes "manifest" of secrets; "" for nothing.
        end: what ends a text.
        depth: of the line that began it.
        left: lines that it may still have.
        sort: of the name whose value comes.
        frames: the brackets that are open around the value: whether each gives back what it is given.
        many: whether the name is of several values, as a map's.
    """

    kind: str = ""
    end: str = ""
    depth: int = 0
    left: int = 0
    sort: Sort = Sort.NONE
    frames: tuple[bool, ...] = ()
    many: bool = False


NOTHING_OPEN = Open()
Judged = tuple[bool, Open]


def depth_of(line: str) -> int:
    """How far a line is indented."""
    return len(line) - len(line.lstrip())


class Text:
    """A line, or the text of a string in it, in which a name of a secret may stand.

    Args:
        line: it.
        language: of the document.
        inner: whether it is the text of a string, where values stand without quotes.
        judged: how many names were judged in the line before.
    """

    def __init__(self, line: str, language: str, *, inner: bool = False, judged: int = 0) -> None:
        if language in _MARKUP:
            line = line.replace("&quot;", '"')
        self._line, self._language, self._inner = line, language, inner
        tokens = tokens_of(line, bracketed=language in BRACKETED)
        self._tokens = [token for token in tokens if token.mark != "`" or language not in _NO_BACKTICKS]
        self._bare = inner or language in BARE_LANGUAGES
        comment = _COMMENT.search(line) if language != "diff" and not inner else None
        if comment is not None and self._bare and comment[0].strip() == "//":
            comment = None
        self._comment = comment.start() if comment is not None else len(line) + 1
        self._defines = _DEFINES.match(line) is not None
        self._judged = judged
        self._heard = Sort.NONE
        self.opened = NOTHING_OPEN

    def judge(self) -> Judged:
        """Whether it tells a secret, and what it leaves open."""
        line = self._line
        told = not self._inner and (
            _HEADER.search(line) or _ADDRESS.search(line) or _TOLD.search(_LISTED.sub(" ", line))
        )
        return bool(told) or self._names() or self._strings() or self._loosely(), self.opened

    def _names(self) -> bool:
        for at, token in enumerate(self._tokens):
            if token.kind == "string":
                name = token.text if 2 < len(token.text) < 60 and " " not in token.text else ""
                name = re.split(r"[.:/\s]", name)[-1]
            else:
                name = token.text if token.kind == "name" else ""
            if not name:
                continue
            sort = sort_of(name)
            if name.lower() in {"key", "keys", "token", "pass"} and (owner := self._owner(at)):
                sort = max(sort, sort_of(f"{owner}.{name}"))
            if name.lower() == "pass" and self._prose(token) and self._sign(at + 1) not in _IS:
                continue
            called = token.kind == "name" and self._calls(at) and is_credential_call(self._callee(at + 1))
            self._judged += bool(sort or called)
            if (
                self._judged > _MOST_NAMES
                or (sort and self._told(at, sort))
                or (called and self._gives(self._calls(at)))
            ):
                return True
            self._heard = max(self._heard, sort)
        return False

    def _loosely(self) -> bool:
        """Whether the line speaks of a secret, and a literal stands beside that looks like its value."""
        if self._heard is not Sort.SURE:
            return False
        return _INSERTS.search(self._line) is not None or any(map(self._beside, range(len(self._tokens))))

    def _beside(self, at: int) -> bool:
        """Whether a literal looks like the value of a secret that the line speaks of."""
        token = self._tokens[at]
        if token.kind != "string" or token.start > self._comment:
            return False
        plain = (
            not _NAMES_ONLY.match(self._line)
            and _PLAIN.fullmatch(token.text)
            and sort_of(token.text) is Sort.NONE
            and self._sign(at + 1) not in {":", "]", "=>", "="}
            and self._sign(at - 1) != "["
            and _FIELDS.isdisjoint(name_words(token.text))
        )
        return stands_out(token.text) or bool(plain)

    def _prose(self, token: Token) -> bool:
        return self._inner or self._language in _PROSE or token.start > self._comment

    def _strings(self) -> bool:
        """Whether the text of a string tells a secret."""
        for token in self._tokens:
            if token.kind != "string" or len(token.text) <= 8 or not LIKELY.search(token.text):
                continue
            if not self._inner or '"' in token.text:
                text = token.text.replace('\\"', '"').replace("\\'", "'")
                inner = Text(text, self._language, inner=True, judged=self._judged)
                if inner.judge()[0]:
                    return True
                self._judged = inner._judged
                self._heard = max(self._heard, inner._heard)
        return False

    def _sign(self, at: int) -> str:
        return self._tokens[at].text if 0 <= at < len(self._tokens) and self._tokens[at].kind != "string" else ""

    def _owner(self, at: int) -> str:
        token = self._tokens[at]
        if token.kind == "string":
            return re.split(r"[.:/\s]", f".{token.text}")[-2]
        if self._sign(at - 1) == ".":
            return self._sign(at - 2)
        return self._sign(at - 1) if self._prose(token) and at and self._tokens[at - 1].kind == "name" else ""

    def _calls(self, at: int) -> int:
        """Where the arguments of a call begin whose name is at `at`; 0 where it is none."""
        nxt = at + 1 + (self._sign(at + 1) == "!")
        plain = self._language in BRACKETED and self._tokens[nxt : nxt + 1] and self._tokens[nxt].kind == "string"
        return nxt if plain else nxt + 1 if self._sign(nxt) == "(" else 0

    def _callee(self, at: int) -> list[str]:
        """The words of what is called with the bracket at `at`."""
        if at < 1 or (self._tokens[at - 1].kind != "name" and self._sign(at - 1) not in {"!", ">"}):
            return []
        if self._sign(at - 1) in _KEYWORDS:
            return []
        begin = at - 1
        while begin > 1 and self._sign(begin - 1) in {".", "::", "->", "?.", "!", ":"} and begin > at - 6:
            begin -= 2 if self._sign(begin - 1) != "!" else 1
        return [
            word
            for token in self._tokens[max(0, begin) : at]
            if token.kind == "name"
            for word in name_words(token.text)
        ]

    def _told(self, at: int, sort: Sort) -> bool:  # noqa: C901, PLR0912 a case for each relation
        """Whether something gives the name at `at` a value."""
        token, tokens = self._tokens[at], self._tokens
        before = self._sign(at - 1)
        remark = token.start > self._comment
        head = at
        while self._sign(head - 1) == "." and head > 1:
            head -= 2
        named = self._sign(head - 1) in {":", "=", "=>", ">"} and head > 1 and tokens[head - 2].text.lower() in _ALIAS
        if (named or before == "variable") and self._pair(at):
            return True
        if self._compared(at, sort):
            return True
        tagged = "<" in {before, self._sign(at - 2), self._sign(at - 3)} or self._language in _MARKUP
        if tagged and before != "/" and self._element(at, sort):
            return True
        after = at + 1
        while after < at + 4 and (
            self._sign(after) in {"]", ")", "}", "*", "`", "?", "!", '"', "_"}
            or (self._sign(after) == "-" and self._sign(after + 1) in _IS)
        ):
            after += 1
        sign = self._sign(after)
        if sign == "," and token.kind == "string":
            found = self._next_argument(at, sort) or (sort >= Sort.MAYBE and (self.other_half() or (False, None))[0])
            if found:
                return True
        elif sign == "," and (before == ":" or (before == "{" and self._sign(after + 2) == "}")):
            return self._value(after + 1, sort)
        elif sign == "," and sort >= Sort.MAYBE and before in _OPENS and not _PUTS.isdisjoint(self._callee(at - 1)):
            return self._value(after + 1, Sort.SURE)
        elif (
            sign in {".", "?."}
            and self._sign(after + 2) == "("
            and not _FALLS_BACK.isdisjoint(name_words(self._sign(after + 1)))
        ):
            return self._value(after + 2, Sort.SURE)
        elif sign == ":" and self._line.rfind("${", max(0, token.start - 40), token.start) >= 0:
            return self._value(after + 1, Sort.SURE, bare=True, sure=True)
        elif sign in _OR and sort >= Sort.MAYBE and before == "{" if sign == ":-" else sign in _OR and not self._inner:
            return self._value(after + 1, Sort.SURE, bare=sign == ":-", sure=True)
        elif sign == "(" and after == at + 1 and token.kind == "name" and tokens[after].start == token.end:
            return self._given(at, sort)
        elif (
            sign == "{"
            and (after == at + 1) is (token.kind == "name")
            and not self._defines
            and before != ":"
            and self._value(after, sort, pending=False, many=_is_many(token.text))
        ):
            return True
        begin = self._relation(at, after)
        if begin:
            lambda_ = (
                self._sign(begin - 1) == "=>"
                and token.kind == "name"
                and self._language in {"javascript", "typescript"}
            )
            bare = self._bare or remark
            colon = self._sign(begin - 1) == ":" and token.kind == "name"
            if token.text.lower().endswith("auth") and self._sign(begin) in _OPENS and self._gives(begin + 1):
                return True
            if self._value(
                begin, sort if not lambda_ else Sort.NONE, bare=bare, colon=colon, many=_is_many(token.text)
            ):
                return True
        elif after == at + 1 and self._follows(at, sort):
            return True
        prose = remark or self._inner or self._language in _PROSE
        return (
            (prose or (self._defines is False and token.kind == "string")) and sort >= Sort.MAYBE and self._said(token)
        )

    def _relation(self, at: int, after: int) -> int:
        """Where the value begins that the name at `at` is given, behind a type; 0 for nowhere."""
        sign = self._sign(after)
        if sign == ":" and not self._bare and not self._defines:
            return self._typed(after) or after + 1
        if sign == "->" and (
            self._inner or (self._tokens[after + 1 : after + 2] and self._tokens[after + 1].kind != "string")
        ):
            return 0
        if sign in _IS or (sign == "by" and self._sign(after + 1) == "lazy"):
            return after + 1
        if sign == "to" and any(token.kind == "string" for token in self._tokens[after + 1 : after + 2]):
            return after + 1
        return self._typed(after) if not self._defines and not self._inner and self._tokens[at].kind == "name" else 0

    def _typed(self, begin: int) -> int:
        """Where the value begins behind a type, or behind other names that are given one too."""
        depth = 0
        flat = all(token.text not in _OPENS for token in self._tokens[:begin])
        for at in range(begin, min(begin + 16, len(self._tokens))):
            kind, text = self._tokens[at].kind, self._sign(at)
            if text in {"=", ":="} and depth <= 0:
                return at + 1
            depth += (text in _OPENS) - (text in _CLOSES)
            if kind == "string" or depth < 0 or text in _KEYWORDS:
                return 0
            if (
                kind == "sign"
                and text not in _TYPES
                and not (text == "," and (depth or flat))
                and not (text == ";" and depth)
            ):
                return 0
        return 0

    def _holds(self, value: str, sort: Sort, *, firm: bool) -> bool:
        """Whether a literal is what a name of this sort is given."""
        look = look_of(value)
        if sort is Sort.SURE:
            return look >= Look.WORD if firm else stands_out(value)
        if sort is Sort.MAYBE:
            return look >= Look.MIXED and (firm or stands_out(value))
        return sort is Sort.FAINT and firm and look is Look.LONG

    def _value(  # noqa: C901, PLR0912 a case for each kind of token
        self,
        begin: int,
        sort: Sort,
        *,
        bare: bool = False,
        sure: bool = False,
        colon: bool = False,
        pending: bool = True,
        many: bool = False,
        above: Open = NOTHING_OPEN,
    ) -> bool:
        """Whether the expression that begins at `begin` holds a literal that a name of this sort is given.

        Args:
            begin: where.
            sort: of the name.
            bare: whether it may stand without quotes.
            sure: whether it does so for certain.
            colon: whether no more than a colon gives it to the name.
            pending: whether it may go on in the lines below.
            many: whether the name is of several values.
            above: what a line above has left open of it.
        """
        line, tokens = self._line, self._tokens
        place = tokens[begin].start if begin < len(tokens) else len(line)
        if above is NOTHING_OPEN and (opened := self._opens(place)) is not None:
            self.opened = opened
            return True
        frames, skip, held, many = list(above.frames), False, False, above.many or many
        keyed = False
        end = min(len(tokens), begin + _FAR)
        at = begin
        while at < end:
            token, text = tokens[at], self._sign(at)
            if token.start > self._comment and begin < at:
                at = len(tokens)
                break
            if token.kind == "string":
                key = self._sign(at + 1) in {":", "=>", "="} and bool(frames)
                if key:
                    skip, keyed = token.text.lower() in _INNER, True
                elif not skip:
                    firm = (
                        all(frames)
                        and not (above.frames and sort is Sort.MAYBE)
                        and not (keyed and not many)
                        and self._sign(at - 1) not in _EQUALS - {self._sign(begin - 1)}
                    )
                    least = Sort.MAYBE if above is NOTHING_OPEN else Sort.SURE
                    if (
                        not token.closed
                        and self._over_lines(token)
                        and (held or (firm and sort >= least and (token.text or above is NOTHING_OPEN)))
                    ):
                        self.opened = Open("text", token.mark, left=MOST_LINES)
                        return True
                    held = held or self._holds(token.text, sort, firm=firm)
            elif text in _OPENS:
                callee = self._callee(at) if at > begin else []
                wraps = (
                    all(word in _WRAPPERS for word in callee)
                    if callee
                    else not (
                        text == "["
                        and at > begin
                        and tokens[at - 1].end == token.start
                        and tokens[at - 1].kind == "name"
                    )
                )
                looks_up = not wraps and text == "(" and not _LOOKS_UP.isdisjoint(callee)
                frames.append(wraps)
                if looks_up and self._last_argument(at + 1, sort):
                    held = True
            elif text in _CLOSES:
                if not frames:
                    break
                frames.pop()
            elif text == ";" or (text == "," and not frames and not self._several(begin)):
                break
            elif text == ",":
                skip = False
            elif token.kind == "name" and self._sign(at + 1) in {":", "=", "=>"} and frames:
                keyed, skip = text.lower() not in _VALUES, text.lower() in _INNER
                frames = [True] * len(frames) if not keyed and all(frames[:-1]) else frames
            at += 1
        ends = not (colon and self._language == "python") and self._joins() and tokens[-1:][0].start <= self._comment
        if at >= len(tokens) and pending and not (self._defines or self._inner) and (frames or ends):
            depth, left = above.depth or depth_of(line), above.left or MOST_LINES
            self.opened = Open("below", "", depth, left, sort, tuple(frames[:8]), many)
        if (
            held
            or not bare
            or (begin >= len(tokens) and not place < len(line))
            or (tokens[begin : begin + 1] and tokens[begin].kind == "string")
        ):
            return held
        return self._without_quotes(place, sort, sure=sure, colon=colon)

    def _opens(self, place: int) -> Open | None:
        """What of many lines begins there."""
        line = self._line
        if (
            (here := _HEREDOC.match(line, place)) is not None
            and not line.startswith('<<"', place)
            and self._language != "cpp"
        ):
            return Open("text", here["end"], left=MOST_LINES)
        if (here := _HERE.match(line, place)) is not None:
            return Open("text", f"{here[1]}@", left=MOST_LINES)
        if self._language in BARE_LANGUAGES and not self._inner and _SCALAR.match(line, place):
            return Open("deeper", "", depth_of(line), MOST_LINES)
        return None

    def _several(self, begin: int) -> bool:
        """Whether several names are given values, `a, b = "x", "y"`."""
        return (
            "," in {token.text for token in self._tokens[: begin - 1]}
            and self._sign(begin - 1) in {"=", ":="}
            and not any(token.text in _OPENS for token in self._tokens[: begin - 1])
        )

    def _over_lines(self, token: Token) -> bool:
        marks = _LONG_MARKS[self._language == "python" :]
        return token.mark in marks or (token.mark == '"' and self._language in _OVER_LINES)

    def _joins(self) -> bool:
        return (
            not self._tokens or self._sign(len(self._tokens) - 1) in _JOINS or self._sign(len(self._tokens) - 1) == ":"
        )

    def _without_quotes(self, place: int, sort: Sort, *, sure: bool, colon: bool) -> bool:
        line = self._line
        place += self._language in _SHELLS and line.startswith("(", place)
        found = _BARE.match(line, place)
        if found is None:
            return False
        value, behind = found[1], line[found.end() :].strip()
        if behind.startswith("("):
            return False
        remark, prose = place > self._comment, self._language in _PROSE
        alone = not behind or behind[0] in "#;,\"'`|<)}]&\\"
        if not (alone or remark or self._inner or self._language in _SHELLS):
            value = f"{value} {behind.partition(' #')[0]}"
        remark = remark and (colon or not alone)
        firm = sure or not (
            remark or (prose and not alone) or (self._inner and colon and self._language not in BARE_LANGUAGES)
        )
        if not (
            self._holds(value, sort, firm=firm)
            or (sort >= Sort.MAYBE and look_of(value) >= Look.MIXED and " " not in value)
        ):
            return False
        if line.endswith("\\") and self._language == "properties":
            self.opened = Open("next", left=3)
        return True

    def _arguments(self, begin: int) -> Iterator[tuple[int, int]]:
        """Where each argument begins and ends of a call whose first one begins at `begin`."""
        depth, first = 0, begin
        for at in range(begin, min(len(self._tokens), begin + _FAR)):
            sign = self._sign(at)
            if sign in _CLOSES:
                if not depth:
                    break
                depth -= 1
            elif sign in _OPENS:
                depth += 1
            elif sign == "," and not depth:
                yield first, at
                first = at + 1
        else:
            at = len(self._tokens)
        if first < at:
            yield first, at

    def _literal(self, begin: int, end: int) -> str | None:
        """The literal that an argument is, wrapped or not."""
        strings = [token.text for token in self._tokens[begin:end] if token.kind == "string"]
        keyed = any(self._sign(at) in {"=", ":", "=>"} for at in range(begin, end))
        names = [word for token in self._tokens[begin:end] if token.kind == "name" for word in name_words(token.text)]
        return strings[0] if len(strings) == 1 and not keyed and all(word in _WRAPPERS for word in names) else None

    def _last_argument(self, begin: int, sort: Sort) -> bool:
        *first, last = [(0, 0), *self._arguments(begin)]
        literal = self._literal(*last) if len(first) > 1 else None
        return literal is not None and self._holds(literal, sort, firm=True)

    def _gives(self, begin: int) -> bool:
        """Whether the arguments that begin there, after a user's name or the like, hold a literal."""
        given = list(self._arguments(begin))
        alone = len(given) == 1 and len(self._callee(begin - 1)) > 1
        for place, argument in enumerate(given):
            literal = self._literal(*argument)
            if (
                literal is not None
                and " " not in literal
                and look_of(literal) >= (Look.WORD if place or alone else Look.MIXED)
            ):
                return True
        if not self._defines and begin - 1 in self._unclosed:
            self.opened = Open("below", "", depth_of(self._line), 12, Sort.SURE, (True,))
        return False

    @cached_property
    def _unclosed(self) -> frozenset[int]:
        """The brackets that are open at the end of the line."""
        found: list[int] = []
        for at in range(len(self._tokens)):
            sign = self._sign(at)
            if sign in _OPENS:
                found.append(at)
            elif sign in _CLOSES and found:
                found.pop()
        return frozenset(found)

    def _given(self, at: int, sort: Sort) -> bool:
        """Whether a call that is named after a secret is given one."""
        verb = name_words(self._tokens[at].text)[:1]
        if self._defines or not _GETS.isdisjoint(verb):
            return False
        passes = self._tokens[at].text.lower().endswith("pass")
        return self._value(at + 1, Sort.MAYBE if passes else Sort.SURE if not _PUTS.isdisjoint(verb) else sort)

    def _next_argument(self, at: int, sort: Sort) -> bool:
        """Whether the string behind a name in a string is its value, as in `set("password", "…")`."""
        opener = at - 1
        while opener >= 0 and self._sign(opener) not in _OPENS and opener > at - 8:
            opener -= 1
        flag = self._tokens[at].text.startswith("-")
        callee = self._callee(opener) if opener >= 0 and self._sign(opener) in _OPENS else []
        puts = not _PUTS.isdisjoint(callee) or not _LOOKS_UP.isdisjoint(callee)
        given = list(self._arguments(opener + 1))
        own = next((place for place, (begin, end) in enumerate(given) if begin <= at < end), 0)
        if own + 1 >= len(given):
            return False
        literal = self._literal(*given[own + 1])
        couple = (own == 0 and len(given) == 2 and self._sign(opener - 1) not in _KEYWORDS) or (
            bool(callee) and (own + 2 == len(given) or (own == 0 and len(given) == 3))
        )
        firm = flag or puts or couple
        return literal is not None and self._holds(literal, Sort.SURE if puts or flag else sort, firm=firm)

    def _compared(self, at: int, sort: Sort) -> bool:
        """Whether a literal stands on the left of a comparison with a name."""
        while self._sign(at - 1) in {".", "->", "::", "$", "?.", "&"} and at > 1:
            at -= 1 + (self._tokens[at - 2].kind == "name")
        if self._sign(at - 1) in _EQUALS and at > 1 and self._tokens[at - 2].kind == "string":
            return self._holds(self._tokens[at - 2].text, sort, firm=True)
        callee = self._sign(at - 2).lower()
        compares = self._sign(at - 1) == "(" and callee.startswith(("equals", "eq")) and at > 3
        return (
            compares
            and self._tokens[at - 4].kind == "string"
            and self._holds(self._tokens[at - 4].text, sort, firm=True)
        )

    def _pair(self, at: int) -> bool:
        """Whether a name that is itself a value, as in `name: TOKEN`, has its other half in this line."""
        found = self.other_half()
        if found is not None:
            return found[0]
        if all(token.text in _AROUND for token in self._tokens[at + 1 : at + 13]):
            self.opened = Open("pair", left=2)
        return False

    def other_half(self) -> Judged | None:
        """The judgement of the value in a line that says one, as in `value: …`."""
        at = self._value_key
        if not at:
            return None
        bare = self._bare or self._sign(at - 1) == ">"
        return self._value(at, Sort.SURE, bare=bare, sure=True), self.opened

    @cached_property
    def _value_key(self) -> int:
        """Where a value begins that stands behind no name but `value`, or the like; 0 for nowhere."""
        for at, token in enumerate(self._tokens):
            if token.text.lower() in _VALUES and self._sign(at + 1) in {":", "=", "=>", ">", ":="}:
                return at + 2
        return 0

    def _element(self, at: int, sort: Sort) -> bool:
        """Whether the element that a name names holds a text."""
        line, begin = self._line, _text_begin(self._line, self._tokens[at].end)
        if begin < 0:
            return False
        if not line[begin:].strip():
            self.opened = Open("next", left=1) if self._language in _MARKUP else NOTHING_OPEN
            return False
        text = line[begin:].strip().removeprefix("<![CDATA[")
        text, closed, _ = text.partition("]]>" if "]]>" in text else "</")
        return (
            bool(closed)
            and not text.startswith(("<", "{"))
            and self._holds(text, max(sort, Sort.MAYBE) if sort < Sort.SURE else sort, firm=True)
        )

    def _follows(self, at: int, sort: Sort) -> bool:
        """Whether a value stands behind a name and a blank, as in `set password …`."""
        token, line = self._tokens[at], self._line
        nxt = self._tokens[at + 1] if at + 1 < len(self._tokens) else None
        before, head = self._sign(at - 1), at
        while self._sign(head - 1) == "." and head > 1:
            head -= 2
        flag = before in {"-", "--"} or token.text.startswith("-")
        rest = line[token.end :].strip()
        if flag and rest == "\\":
            self.opened = Open("next", left=1)
            return False
        if nxt is None or nxt.start == token.end or token.start > self._comment or not (flag or token.kind == "name"):
            return False
        if nxt.kind == "string":
            said = (self._inner or self._language in _PROSE) and not token.text.isupper()
            return self._holds(
                nxt.text,
                Sort.SURE if flag and sort >= Sort.MAYBE else min(sort, Sort.MAYBE) if said else sort,
                firm=True,
            )
        directive = (
            flag
            or before.lower() in _DIRECTIVES
            or (self._sign(at - 2).lower() in {"login", "user", "account"})
            or before == "set"
        )
        first = head == 0 and self._language in BARE_LANGUAGES and not self._inner and " " not in rest
        shell = self._bare or self._language in _SHELLS
        if not (shell and (directive or first)) or nxt.text in _IS or rest.startswith("-"):
            return False
        if nxt.text == "(" and not flag:
            return False
        return self._without_quotes(
            nxt.start, Sort.SURE if flag and sort >= Sort.MAYBE else sort, sure=True, colon=False
        )

    def _said(self, name: Token) -> bool:
        """Whether a word near a name in a sentence looks like a secret."""
        behind = self._line[name.end : name.end + 200]
        if (given := _GIVEN.match(behind)) is not None and look_of(given[1].strip(_TRIM)) >= Look.MIXED:
            return True
        near = _WORDS.findall(behind)[:5]
        if (told := _BEFORE.search(self._line[max(0, name.start - 100) : name.start])) is not None:
            near.append(told[1])
        return any(stands_out(word.strip(_TRIM)) for word in near)

    def below(self, above: Open) -> Judged:
        """The judgement of a line below a name whose value is not there yet."""
        line = self._line.lstrip()
        yaml = self._language == "yaml"
        if yaml and not above.frames:
            item = line.removeprefix("- ")
            quoted = item[:1] in {'"', "'"}
            if (
                (above.many or item.startswith(("value:", "default:")))
                and ":" in item
                and not line.startswith("-")
                and depth_of(self._line) > above.depth
            ):
                return self._holds(item.partition(":")[2].strip(" \"'"), above.sort, firm=True), above
            if (
                depth_of(self._line) < above.depth
                or (":" in item and not quoted)
                or (not line.startswith("- ") and depth_of(self._line) <= above.depth)
            ):
                return False, NOTHING_OPEN
            return self._holds(item.strip("\"'"), above.sort, firm=True), above
        first = self._tokens[0] if self._tokens else None
        begin = 1 if first is not None and first.text in {"+", ".", "..", "&", "<>", "||"} else 0
        if not above.frames and not (self._tokens[begin : begin + 1] and self._tokens[begin].kind == "string"):
            strings = any(token.kind == "string" for token in self._tokens)
            shell = self._tokens and self._bare and self._language in _SHELLS
            if not (strings or shell):
                return False, NOTHING_OPEN
        return self._value(begin, above.sort, above=above), self.opened


def _text_begin(line: str, begin: int) -> int:
    """Where the text of an element begins whose tag is open at `begin`; -1 where none does."""
    closing = line.find(">", begin)
    return closing + 1 if closing >= 0 and line[closing - 1] not in "/-=" else -1


def _is_many(name: str) -> bool:
    """Whether a name is of several values."""
    return name.lower().endswith("s") and not name.lower().endswith(("pass", "credentials", "settings"))
