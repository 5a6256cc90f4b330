"""Whether a line holds a secret, and which constructs it leaves open for the lines below.

A pass over the tokens tracks the secrecy of the names so far: in the same part of the statement, before the open
bracket, and anywhere in the line. A literal is a secret if this secrecy is high enough for its shape.
"""

import re
from dataclasses import dataclass, replace

from fastcoder_lsp.workspace.secret_entries import Body, NetrcEntry, SecretEntry, body_below
from fastcoder_lsp.workspace.secret_names import LIKELY, NameSecrecy, is_credential_call, name_words, secrecy_of, words
from fastcoder_lsp.workspace.secret_values import (
    BRACKETED,
    LiteralShape,
    Token,
    has_unnamed_password,
    is_conspicuous,
    shape_of,
    tokens_of,
)

MAX_LINES = 400  # of one secret
_MAX_PAIR_LINES = 2  # lines between a name that is itself a value, as in a list of pairs, and its own value
_PROSE = frozenset(("markdown", "plaintext", "restructuredtext"))
BARE_LANGUAGES = _PROSE | words(
    "shellscript properties ini yaml toml dockerfile dotenv makefile fish bat http diff tcl"
)
"""Languages with unquoted values."""
_SHELLS = words("shellscript fish bat dockerfile makefile tcl powershell http")
_MARKUP = frozenset(("xml", "html"))
_OVER_LINES = frozenset(("shellscript", "rust", "php", "ruby", "powershell"))
"""Languages in which a string with a single quotation mark may continue on the next line."""
_NO_BACKTICKS = words("python c cpp java csharp rust swift emacs-lisp")
"""Languages in which a backtick begins no string."""

_IS = words("eq ne ceq cne ieq = := ::= :::= == === != !== ?= += ||= |= &= .= ??= => ~> -> <- : ~= :- is as was")
_ENDS = words(", ; & | ) } ] \\ < */ -- # =")  # tokens that may follow an unquoted value
_EQUALS = words("== === != !==")
_JOINS = _IS | words("+ . .. & <> || ?? or \\ ( [ {")  # tokens at the end of a line that continue it on the next one
_NO_KEY = words("? case == === != !==")  # tokens that no key follows
_DOTS = words(". :: -> ?. : !")
_OPENS, _CLOSES = words("( [ {"), words(") ] }")
_NEUTRAL = words(
    "name key id var variable type field option setting property env parameter header value default content contents "
    "plaintext val string with default_value defaultvalue user username password"
)
"""Keys beside a secret's name that may hold its value."""
_INNER = words("type description title format help message label required enum pattern kind scope in ref placeholder")
"""Keys whose values are never secrets."""
_DEFINES = re.compile(
    r"\s*(?:(?:async|pub|export|public|private|protected|static|final|override|default)\s+)*"
    r"(?:class|def|fn|func|fun|sub|function|interface|type|struct(?!.*=\s*\{)|defun|defmacro|import|from)\b"
)
_CONTROLS = re.compile(r"\W*(?:if|elif|else|for|while|with|case|try|switch|when|do)\b")
_COMMENT = re.compile(
    r"""^[+-]?\s*(?:\#(?!\s*define|\[)|//|--(?!\w)|;|/\*|\*\s|<!--|%\s|rem\s|"\s)|\s(?:\#|//|--)\s|/\*""", re.IGNORECASE
)
_SCALAR = re.compile(r"[:-]\s+(?:[!&][\w-]+\s+)*[|>][-+\d]{0,2}\s*(?:#.*)?$")
_ANCHOR = re.compile(r"(?<=[:-])\s+[!&][\w-]+\s+")
_BLOCK = re.compile(r"[)\w]\s*\{\s*$")
_TAG = re.compile(r"<(?!input|meta|link|img|br|/)[^<>]*(?<!/)>\s*$")
_HEREDOC = re.compile(
    r"""(?<!<)(?:<<[-~]?\s*|<<<)["']?(?P<end>[A-Za-z_]\w*)["']?(?=[\s;)|]|$)|=\s*@(?P<here>["'])\s*$"""
)
_DEFINE = re.compile(r"\s*(?:override\s+|export\s+)?define\s")
_SCHEME = re.compile(r"(?i)(?:bearer|basic|token|apikey|digest)\s+(?=\S+$)")
_FALLBACK = re.compile(r"\$\{[\w.]*:[-=]?([^}]*)\}")  # the default of a variable, `${PASSWORD:-…}`
_TRIM = "`.;()[]{}<>*_!?"
_BYTE = re.compile("0x[0-9a-fA-F]{1,2}")
_TABLES = frozenset(("users", "logins"))
"""Names of user tables, whose values are passwords, `{"admin": "…"}` or `[("admin", "…")]`."""
_SCHEMES = words("bearer basic token apikey digest")
_WRAPPERS = words(
    "some string str bytes byte from new secret secure b64 b64decode base64 buffer optional of quote ok just text raw "
    "literal view convert final value array list vec tuple set lazy fixed join decode cstr once hash box arc rc "
    "unhexlify fromhex hex atob strdup or else default unwrap var env get getenv setdefault fetch"
)
"""Calls that return their argument, or use it as a default."""
_IMPORTS = words("from import require include")
_PUTS = words("with set use add put")


@dataclass(frozen=True, slots=True)
class Frame:
    """An open bracket."""

    secrecy: NameSecrecy = NameSecrecy.NONE  # of the name before it
    plural: bool = False  # whether that name has several values, as a map's
    call: bool = False  # whether it holds the arguments of a call that logs in, signs or encrypts
    commas: int = 0
    current: NameSecrecy = NameSecrecy.NONE  # the secrecy of the names since the last comma
    other: bool | None = False
    """Whether the current key belongs to something else; None for a key whose value is never a secret."""
    peak: NameSecrecy = NameSecrecy.NONE  # the highest secrecy of all names in it
    key: bool = False  # whether it holds a key, as in `settings["name"]`
    table: int = 0  # the depth of brackets within a table of users; 0 outside one
    maps: int = 0  # the depth of brackets within a map or list of a short plural name, as in `tokens`; 0 outside one


@dataclass(frozen=True, slots=True)
class OpenConstructs:
    """Constructs that the lines above left open, and that the next line may continue."""

    end: str = ""  # the end mark of a secret text, or "deeper" for lines indented more than `depth`
    depth: int = 0  # the indentation of its first line
    left: int = 0  # lines that it may still have
    frames: tuple[Frame, ...] = ()  # the open brackets behind names of secrets
    current: NameSecrecy = NameSecrecy.NONE  # the secrecy of a name whose value follows
    pair: NameSecrecy = NameSecrecy.NONE  # the secrecy of a name that is itself a value, and whose own value follows
    manifest: bool = False  # whether the file is a Kubernetes manifest of secrets
    body: Body | None = None
    entry: SecretEntry | None = None
    netrc: NetrcEntry | None = None


_THRESHOLD = 3  # in a secret, a name's secrecy and a literal's shape add up to more
_MAX_COUNT_DIGITS = 4  # a longer number is not a count
_MAX_NAME = 60
_MAX_WORDS_OF_MAP = 3  # a name of more words is a description, as in an interface's `ListVoiceConnectorCredentials`
_MAX_DEPTH = 2  # levels of nested strings that are read
_MAX_FRAMES = 12
NOTHING_OPEN = OpenConstructs()
DEEPER = "deeper"
Judged = tuple[bool, OpenConstructs]


def depth_of(line: str) -> int:
    """The indentation of a line."""
    return len(line) - len(line.lstrip())


class Text:
    """A line, or the text of a string or comment in it, `inner` levels deep; `above` is open above it."""

    def __init__(self, line: str, language: str, above: OpenConstructs = NOTHING_OPEN, *, inner: int = 0) -> None:
        if language in _MARKUP:
            line = line.replace("&quot;", '"')
        if language == "yaml":
            line = _ANCHOR.sub(" ", line)
        comment = _COMMENT.search(line) if language not in _PROSE | {"diff"} and not inner else None
        if comment is not None and language in BARE_LANGUAGES and comment[0].strip() == "//":
            comment = None
        self._comment = line[comment.end() :] if comment is not None else ""
        self._line = line[: comment.start()] if comment is not None else line
        self._language, self._above, self._inner = language, above, inner
        self._bare = bool(inner) or language in BARE_LANGUAGES
        self._prose = bool(inner) or language in _PROSE
        tokens = tokens_of(self._line, bare=self._bare, bracketed=language in BRACKETED and not inner)
        self._tokens = [token for token in tokens if token.mark != "`" or language not in _NO_BACKTICKS]
        self._defines = _DEFINES.match(line) is not None and not self._bare
        self._frames = list(above.frames) or [Frame()]
        self._frames[-1] = replace(self._frames[-1], current=max(above.current, self._frames[-1].current))
        self.peak = above.pair
        self._named = NameSecrecy.NONE
        self._text = ""
        self._literals: list[tuple[LiteralShape, bool]] = []

    def judge(self) -> Judged:
        """Whether the line holds a secret, and the constructs that it leaves open."""
        line = self._line.strip()
        if self._language in _MARKUP and self._above.current >= NameSecrecy.MAYBE and line[:1] not in {"<", ""}:
            return shape_of(line) >= LiteralShape.WORD, NOTHING_OPEN
        secret = self._read()
        unnamed = not self._inner and has_unnamed_password(self._line + self._comment)
        secret |= self._judge_comment() or unnamed or self._by_any_name()
        if self._inner:
            return secret, NOTHING_OPEN
        return secret, replace(self._open_constructs(), body=body_below(self._line, self._language))

    def _judge_comment(self) -> bool:
        """Whether the comment holds a secret; its names also count for the rest of the line."""
        return bool(self._comment) and LIKELY.search(self._comment) is not None and self._judge_inner(self._comment)

    def _judge_inner(self, text: str) -> bool:
        inner = Text(text, self._language, inner=self._inner + 1)
        secret = inner.judge()[0]
        self.peak = max(self.peak, inner.peak)
        self._frames[-1] = replace(self._frames[-1], current=max(self._frames[-1].current, inner._named))
        return secret

    def _by_any_name(self) -> bool:
        return any(self.peak + shape - other > _THRESHOLD for shape, other in self._literals if shape)

    def _word(self, at: int) -> str:
        return self._tokens[at].text if 0 <= at < len(self._tokens) and self._tokens[at].kind != "string" else ""

    def _read(self) -> bool:
        """Whether a literal is assigned to a secret's name, or passed to a call that takes secrets."""
        secret = False
        for at, token in enumerate(self._tokens):
            secret |= self._frames[-1].secrecy is NameSecrecy.SURE and self._begins_array(at)
            if token.kind == "sign":
                self._track_brackets(at, token)
            elif token.kind == "number":
                given = self._frames[-1].current is NameSecrecy.SURE and self._word(at - 1) in _IS
                secret |= given and len(token.text) > _MAX_COUNT_DIGITS and shape_of(token.text) >= LiteralShape.WORD
            elif (token.kind == "string" or self._is_value(at)) and not self._is_name(at, token):
                secret |= self._is_secret(at, token)
            else:
                self._add_name(at, token.text)
        return secret

    def _track_brackets(self, at: int, token: Token) -> None:
        top, text = self._frames[-1], token.text
        if text in _OPENS:
            before = self._tokens[at - 1] if at else None
            joined = before is not None and before.end == token.start and (before.kind == "name" or before.text in ")]")
            nested = top.maps > 0 and text != "(" and not joined
            outside = (top.other and not nested) or (top.maps > 1 and text == "(")
            secrecy = max(top.current, NameSecrecy.NONE if outside else top.secrecy)
            names = self._callee(at)
            callee = [word for name in names for word in name_words(name)]
            wraps = (not names or set(callee) <= _WRAPPERS or not joined) and not (
                top.plural and top.current < NameSecrecy.SURE
            )
            wraps |= bool(callee) and callee[0] in _PUTS and secrecy_of(names[-1]) > NameSecrecy.NONE
            called = is_credential_call(callee) and (text == "(" or "auth" in callee[-1:])
            self._frames.append(
                Frame(
                    NameSecrecy.NONE if top.other is None else secrecy,
                    top.plural,
                    current=top.current if wraps else NameSecrecy.NONE,
                    commas=top.commas if wraps else 0,
                    call=(wraps and top.call) or (called and not self._defines),
                    table=top.table + 1 if top.table else int(self._word(at - 1) in _IS and _is_table(names)),
                    maps=top.maps + (top.maps > 0 and bool(top.other)),
                    key=joined and text == "[" and self._language not in {"go", "shellscript", *_MARKUP},
                )
            )
        elif text in _CLOSES and len(self._frames) > 1:
            self._frames.pop()
            peak = max(top.peak, self._frames[-1].peak)
            current = max(self._frames[-1].current, top.peak)
            self._frames[-1] = replace(self._frames[-1], current=current, peak=peak)
        elif text == ";" or (text in {",", "&"} and (len(self._frames) > 1 or self._bare)):
            self._frames[-1] = replace(
                top,
                commas=top.commas + 1,
                current=NameSecrecy.NONE,
                other=False,
                plural=top.plural and len(self._frames) > 1,
                maps=top.maps if len(self._frames) > 1 else 0,
            )

    def _begins_array(self, at: int) -> bool:
        """Whether three bytes or characters begin at a token, as in `{0x9f, 0x2c, 0x11}`."""
        three = self._tokens[at : at + 5 : 2]
        elements = len(three) > 2 and all(
            _BYTE.fullmatch(token.text)
            if token.kind == "number"
            else self._line[token.start : token.end] == f"'{token.text[:1]}'"
            for token in three
        )
        return elements and len({token.text for token in three}) > 1 and self._word(at + 1) == self._word(at + 3) == ","

    def _callee(self, at: int) -> list[str]:
        if self._word(at - 1) in _IS and at > 1:
            at -= 1
        begin = at
        while begin > max(0, at - 6) and (
            self._tokens[begin - 1].kind == "name" if (at - begin) % 2 == 0 else self._word(begin - 1) in _DOTS
        ):
            begin -= 1
        return [token.text for token in self._tokens[begin:at] if token.kind == "name"]

    def _is_key(self, at: int) -> bool:
        if self._bare and at + 2 == len(self._tokens) and self._word(at - 1) in _IS:
            return False
        return self._word(at + 1) in _IS - _EQUALS - {"is", "as", "was", ":-"} and self._word(at - 1) not in _NO_KEY

    def _is_value(self, at: int) -> bool:
        """Whether an unquoted word is a value rather than a name."""
        token, before = self._tokens[at], self._word(at - 1)
        if not self._bare or token.kind == "gap" or self._word(at + 1) == "(":
            return False
        top = self._frames[-1]
        word = token.text.strip(_TRIM)
        alone = self._language == "yaml" and bool(self._above.frames) and len(self._tokens) == 1
        scheme = word.lower() in _SCHEMES and self._tokens[at + 1 : at + 2] and self._tokens[at + 1].kind != "sign"
        if scheme or (top.maps > 1 and before not in _IS):
            return alone
        if alone or (at == 0 and self._above.current) or (before.lower() in _SCHEMES and self._word(at - 2) in _IS):
            return True
        last = at + 1 == len(self._tokens)
        mixed = shape_of(word) >= LiteralShape.MIXED
        if secrecy_of(before) is NameSecrecy.SURE and (
            mixed or (at <= 2 and last and self._language not in _PROSE - {"plaintext"} and not self._inner)
        ):
            return True
        if self._prose and before in {"is", "as", "was"}:
            return mixed or word.count("-") > 1
        if before in _IS or (before.lower() == "by" and secrecy_of(self._word(at - 2))):
            rest = self._tokens[at + 1 : at + 2]
            alone = not rest or rest[0].text in _ENDS or rest[0].kind == "string"
            config = not self._prose or (self._inner and self._is_key(at + 1))
            return alone or config or is_conspicuous(word)
        flag = before.startswith("-") and before != "-" and self._language in _SHELLS | _PROSE
        if flag or (self._language in _SHELLS and last and not self._inner):
            return max(top.current, top.secrecy) > NameSecrecy.NONE and not token.text.startswith("-")
        if top.plural and (self._language in _SHELLS or (self._language == "yaml" and last and at <= 1)):
            return token.text != "-"
        return is_conspicuous(word) and not self._is_key(at)

    def _is_name(self, at: int, token: Token) -> bool:
        """Whether a literal is itself a name: a key, or the name of a secret."""
        if self._is_key(at) or (self._frames[-1].key and token.kind == "string"):
            return True
        text = token.text
        return (
            len(text) < _MAX_NAME
            and " " not in text
            and not any(map(str.isdigit, text))
            and re.search(r"[=@$%!]|:.", text) is None
            and secrecy_of(re.split(r"[.:/\s]", text.rstrip(".:/ "))[-1]) > NameSecrecy.NONE
        )

    def _add_name(self, at: int, name: str) -> None:
        """Record a name's secrecy, and whether it is a key of something else."""
        top = self._frames[-1]
        secrecy = secrecy_of(re.split(r"[.:/]", name.rstrip(".:/"))[-1])
        is_text = self._prose or self._tokens[at].kind == "string"
        if name == "pass" and is_text and self._word(at + 1) not in _IS | _CLOSES:
            secrecy = NameSecrecy.NONE
        secrecy = (
            max(secrecy, NameSecrecy.MAYBE) if self._bare and name.lower() in _SCHEMES and top.current else secrecy
        )
        if NameSecrecy.NONE < secrecy < NameSecrecy.SURE and (owner := self._owner(at)):
            secrecy = max(secrecy, secrecy_of(f"{owner}.{name}"))
        if self._above.manifest and name in {"data", "stringData"}:
            secrecy = NameSecrecy.SURE
        called = is_credential_call(name_words(name)) and not self._defines and self._tokens[at].kind == "name"
        if called and self._tokens[at + 1 : at + 2] and self._tokens[at + 1].kind == "string":
            secrecy = NameSecrecy.SURE
        fresh = self._bare or at == 0 or self._word(at - 1) in _OPENS | {",", ";"}
        other = top.other
        lowered = name.lower()
        if fresh and self._is_key(at) and (len(self._frames) > 1 or self._bare):
            neutral = lowered in _NEUTRAL or secrecy > NameSecrecy.NONE
            other = None if lowered in _INNER else not neutral
            if lowered not in _NEUTRAL or not self._bare:
                top = replace(top, current=NameSecrecy.NONE)
        elif secrecy:
            other = False
        if name == "and":
            top = replace(top, current=NameSecrecy.NONE)
        string = self._tokens[at].kind == "string" or self._word(at - 1) in {"=", ":"}
        if string or (self._word(at - 2).lower() in _NEUTRAL and self._word(at - 1) in _IS):
            self._named = max(self._named, secrecy)
        self.peak = max(self.peak, secrecy)
        plural = secrecy > NameSecrecy.NONE and _is_plural(name)
        self._frames[-1] = replace(
            top,
            current=max(top.current, secrecy),
            peak=max(top.peak, secrecy),
            other=other,
            plural=top.plural or plural,
            maps=max(top.maps, int(plural and len(name_words(name)) <= _MAX_WORDS_OF_MAP)),
        )

    def _owner(self, at: int) -> str:
        """The owner of the name at `at`, as `api` in `api.key`."""
        parts = re.split(r"[.:/\s]", self._tokens[at].text)
        if len(parts) > 1:
            return parts[-2]
        return self._word(at - 2) if self._word(at - 1) == "." else self._word(at - 1) if self._prose else ""

    def _is_secret(self, at: int, token: Token) -> bool:
        """Whether a literal is a secret by the names before it; if not, it is kept for the names after it."""
        top, text = self._frames[-1], token.text.strip(_TRIM if token.kind == "name" else " ")
        if self._continues(at, token) and max(top.current, top.secrecy) >= NameSecrecy.MAYBE:
            self._text = token.mark
            return True
        if " " in token.text or re.search(r"[=:;\"'&{]\S", text):
            if (
                self._inner < _MAX_DEPTH
                and LIKELY.search(text)
                and self._judge_inner(text.replace('\\"', '"').replace("\\'", "'"))
            ):
                return True
            if (secrecy := secrecy_of(re.split(r"[\s=:?]+", text.rstrip(" =:?"))[-1])) and len(text) < _MAX_NAME:
                self.peak = max(self.peak, secrecy)
                self._frames[-1] = replace(self._frames[-1], current=secrecy, peak=secrecy)
                return False
        if (fallback := _FALLBACK.fullmatch(text)) is not None:
            text = fallback[1]
        scheme = _SCHEME.match(text) if self.peak else None
        text = text[scheme.end() :] if scheme is not None else text
        shape = shape_of(text)
        if top.other is None or not shape or (at and self._tokens[at - 1].text in _IMPORTS):
            return False
        before = self._word(at - 1)
        beside = before in _IS or secrecy_of(before) is NameSecrecy.SURE or before.lower() == "by"
        if self._prose and token.kind == "string" and not is_conspicuous(text) and not beside:
            return False
        other = bool(top.other) and not top.plural
        self._literals.append((shape, other))
        user = top.table and shape >= LiteralShape.MIXED and self._is_of_user(at, top.table)
        if user or (top.call and not other and " " not in text):
            return True
        secrecy = max(top.current, top.secrecy, top.peak)
        compared = before in _EQUALS or (at and self._tokens[at - 1].kind == "name" and before.lower() not in _SCHEMES)
        if (
            text.isupper()
            and scheme is None
            and (secrecy is NameSecrecy.FAINT or (secrecy is NameSecrecy.MAYBE and compared))
        ):
            return False
        peak = max(top.secrecy, 2 * (top.peak > NameSecrecy.NONE), self._above.pair, 3 * (scheme is not None))
        score = max(top.current + 1, peak) - other
        return score + shape > _THRESHOLD

    def _is_of_user(self, at: int, depth: int) -> bool:
        before = self._tokens[at - 2] if at > 1 else None
        if before is None or before.kind not in {"string", "name"} or re.search(r"/|@\w+\.", self._tokens[at].text):
            return False
        if depth == 1:
            return self._word(at - 1) in {":", "=>"} and before.text.lower() not in _NEUTRAL | _INNER
        return depth == 2 and before.kind == "string" and self._word(at - 1) == "," and self._word(at - 3) in _OPENS

    def _continues(self, at: int, token: Token) -> bool:
        marks = ("`", '"""', "'''")[self._language == "python" :]
        long = token.mark in marks or (token.mark == '"' and self._language in _OVER_LINES)
        given = self._word(at - 1) in _JOINS - {".", ".."} | {","} or (at == 0 and token.text and self._above.current)
        return not token.closed and long and bool(given)

    def _open_constructs(self) -> OpenConstructs:
        closed = OpenConstructs(manifest=self._above.manifest)
        last = self._tokens[-1] if self._tokens else None
        many_lines = self._multiline_text()
        if many_lines is not None:
            return many_lines
        if (named := self._named_alone()) is not NameSecrecy.NONE:
            return replace(closed, depth=depth_of(self._line), current=named, left=_MAX_PAIR_LINES)
        if last is None and (self._above.frames or self._above.current) and not self._named:
            return replace(self._above, left=self._above.left - 1)
        if last is None or (self._language in _PROSE and last.text != "\\"):
            return replace(closed, pair=self._named, left=_MAX_PAIR_LINES) if self._comment and self._named else closed
        if (
            self._language == "yaml"
            and self._above.frames
            and (self._frames[-1].other is not False and last.text == ":")
            and (self._frames[-1].other is None or not self._frames[-1].maps)
        ):
            return closed
        if self._language == "yaml" and last.text == ":" and (self._frames[-1].current or self._above.frames):
            plural = self._frames[-1].plural or self._above.manifest
            maps = self._frames[-1].maps + bool(self._above.frames and self._frames[-1].maps)
            heading = Frame(max(self._frames[-1].current, self._frames[-1].secrecy), plural=plural, maps=maps)
            depth = self._above.depth if self._above.frames else depth_of(self._line)
            return replace(closed, depth=depth, left=MAX_LINES, frames=(heading,))
        return self._brackets(closed, self._frames[-1].current if self._expects_value(last) else NameSecrecy.NONE)

    def _named_alone(self) -> NameSecrecy:
        """The secrecy of a name that ends its line without a sign: a YAML key behind `?`, or a netrc login's."""
        parts = self._line.split()
        if self._language == "yaml" and len(parts) == 2 and parts[0] == "?":
            return secrecy_of(parts[1].strip("\"'"))
        login = len(parts) > 2 and parts[-1] == "password" and parts[-3] == "login"
        return NameSecrecy.SURE if login and self._bare else NameSecrecy.NONE

    def _multiline_text(self) -> OpenConstructs | None:
        closed = OpenConstructs(manifest=self._above.manifest)
        if self._text:
            return replace(closed, end=self._text, left=MAX_LINES)
        if max(self.peak, *(max(frame.secrecy, frame.current) for frame in self._frames)) < NameSecrecy.MAYBE:
            return None
        if self._language == "makefile" and _DEFINE.match(self._line):
            return replace(closed, end="endef", left=MAX_LINES)
        if (here := _HEREDOC.search(self._line)) is not None and self._language != "cpp":
            return replace(closed, end=here["end"] or f"{here['here']}@", left=MAX_LINES)
        if self._language in BARE_LANGUAGES and _SCALAR.search(self._line):
            top = self._frames[-1]
            own = top.current or (top.secrecy and top.other is False)
            return closed if not own else replace(closed, end=DEEPER, depth=depth_of(self._line), left=MAX_LINES)
        return None

    def _expects_value(self, last: Token) -> bool:
        if self._language in _MARKUP:
            return _TAG.search(self._line) is not None
        block = self._defines or _CONTROLS.match(self._line) or (self._language == "python" and len(self._frames) == 1)
        if last.text == ":" and block:
            return False
        sentence = last.text in {".", "?"} and self._line[last.start - 1 : last.start].strip() != ""
        return last.kind != "string" and last.text in _JOINS - _OPENS and not sentence

    def _brackets(self, closed: OpenConstructs, current: NameSecrecy) -> OpenConstructs:
        """The open brackets behind names of secrets, and the names whose values follow."""
        line, above = self._line, self._above
        block = self._defines or _CONTROLS.match(line) or (_BLOCK.search(line) and not re.search(r"[=:]", line))
        frames = tuple(replace(frame, current=NameSecrecy.NONE) for frame in self._frames[:_MAX_FRAMES])
        if (block and not above.frames and self._language != "terraform") or not any(
            frame.secrecy or frame.call or frame.table for frame in frames[1:]
        ):
            frames = ()
        sql = self._language == "sql" and not line.rstrip().endswith(";")
        pair = self.peak if sql else self._named
        if not (current or pair or frames):
            return replace(above, left=above.left - 1) if self._language == "yaml" and above.frames else closed
        left = (above.left - 1 if above.frames else MAX_LINES) if frames else _MAX_PAIR_LINES
        depth = above.depth if above.frames else depth_of(line)
        return replace(closed, depth=depth, left=left, frames=frames, current=current, pair=pair)


def _is_plural(name: str) -> bool:
    return name.lower().endswith("s") and not name.lower().endswith(("pass", "settings"))


def _is_table(names: list[str]) -> bool:
    return bool(names) and not _TABLES.isdisjoint(name_words(names[-1])[-1:])
