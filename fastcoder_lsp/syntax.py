"""Approximate lexical facts about code in any language: brackets, strings, comments, indentation, blocks.

Pure functions of text, without a parser. A `Lexis` describes the strings and comments of a language; languages without
one are read as C. Only for those in `KNOWN` does a surplus bracket mean an error in the text, not in the reading.

The lexer reads a text once, in linear time, and can resume at the last line of an earlier scan. In languages whose
strings end on their line, a quote without a partner on its line is no quote: one apostrophe does not invert the rest of
the text.
"""

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Literal

MARKUP = frozenset({"html", "xml", "vue", "svelte", "markdown", "plaintext", "latex", "restructuredtext", "astro"})
"""Languages of prose and tags, where brackets and apostrophes have no meaning."""
SCRIPT = frozenset({"javascript", "javascriptreact", "typescript", "typescriptreact"})
_C_LIKE = frozenset({"c", "cpp", "cuda-cpp", "objective-c", "objective-cpp"})
_SLASHED = frozenset(
    {"csharp", "dart", "glsl", "groovy", "java", "jsonc", "kotlin", "proto3", "scala", "solidity", "swift"}
)
KNOWN = (
    SCRIPT | _C_LIKE | _SLASHED | {"css", "go", "json", "less", "lua", "python", "rust", "scss", "toml", "wgsl", "zig"}
)
"""Languages whose brackets balance in every valid text, and whose strings and comments are all described here."""


class Quote(Enum):
    """Where a string ends that begins with a quote."""

    LINE = "at the same quote on its line"
    LINES = "at the same quote on any line"
    RAW = "at the same quote on any line, without escapes"
    CHAR = "after one character; otherwise it is no quote"
    TEMPLATE = "at the same quote, with code in ${}"


@dataclass(frozen=True, slots=True)
class Lexis:
    """The strings and comments of a language."""

    start: re.Pattern[str]  # finds the next sign that matters
    line: tuple[str, ...]  # signs that begin a comment to the end of the line
    block: Mapping[str, str]  # sign that begins a comment of several lines → sign that ends it
    quotes: Mapping[str, Quote]  # quote → where its string ends
    special: tuple[tuple[re.Pattern[str], str], ...]
    """(beginning, end) of strings whose end depends on their beginning; the end is for `Match.expand`."""
    spaced: bool  # whether a line comment begins only after a blank, and a backslash outside strings escapes
    nested: bool  # whether comments of several lines nest


def _lexis(
    line: str,
    block: str,
    quotes: Mapping[str, Quote],
    *,
    special: tuple[str, str] | None = None,
    spaced: bool = False,
    nested: bool = False,
    more: tuple[str, ...] = (),
) -> Lexis:
    """`line`: signs that begin comments; `block`: signs that begin and end them, in turns; `more`: other patterns."""
    lines, ends = tuple(line.split()), block.split()
    blocks = dict(zip(ends[::2], ends[1::2], strict=True))
    signs = map(re.escape, sorted((*lines, *blocks, *quotes), key=len, reverse=True))
    parts = [*([special[0]] if special else []), *([r"\\."] if spaced else []), *signs, *more, r"[()\[\]{}]"]
    start = re.compile("|".join(parts), re.MULTILINE | re.DOTALL)
    specials = ((re.compile(special[0]), special[1]),) if special else ()
    return Lexis(start, lines, blocks, quotes, specials, spaced, nested)


_BOTH = {'"': Quote.LINE, "'": Quote.LINE}
_LITERAL = {'"': Quote.LINE, "'": Quote.CHAR}
_TRIPLE = {'"""': Quote.LINES, "'''": Quote.LINES}
_LONG = {'"': Quote.LINES, "'": Quote.LINES}
_HEREDOC_SIGN = r"(?<!<)<<[~-]?[\"']?[A-Za-z_]\w*[\"']?"
_BRANCH_SIGN = r"^[ \t]*\#[ \t]*(?:if|el|endif)\w*"
_C = _lexis("//", "/* */", {**_LITERAL, "`": Quote.RAW})
_HASH = _lexis("#", "", {**_BOTH, **_TRIPLE})
_SHELL = _lexis("#", "", {'"': Quote.LINES, "'": Quote.RAW}, spaced=True, more=(_HEREDOC_SIGN,))
_BY_LANGUAGE: Mapping[str, Lexis] = {
    **dict.fromkeys(SCRIPT, _lexis("//", "/* */", {**_BOTH, "`": Quote.TEMPLATE}, more=("/",))),
    **dict.fromkeys(
        _C_LIKE, _lexis("//", "/* */", _LITERAL, special=(r'R"([^()\\ \n]{0,16})\(', r')\1"'), more=(_BRANCH_SIGN,))
    ),
    **dict.fromkeys(_SLASHED, _lexis("//", "/* */", {**_LITERAL, '"""': Quote.LINES})),
    **dict.fromkeys(MARKUP, _lexis("", "<!-- -->", {})),
    **dict.fromkeys(("toml", "nim", "gdscript", "starlark", "julia", "elixir", "cmake", "r"), _HASH),
    **dict.fromkeys(("shellscript", "fish", "makefile", "dockerfile"), _SHELL),
    **dict.fromkeys(("scss", "less"), _lexis("//", "/* */", _BOTH)),
    **dict.fromkeys(("haskell", "elm", "ada"), _lexis("--", "{- -}", _LITERAL)),
    **dict.fromkeys(("dart", "groovy"), _lexis("//", "/* */", {**_BOTH, **_TRIPLE})),
    "python": _HASH,
    "css": _lexis("", "/* */", _BOTH),
    "rust": _lexis("//", "/* */", {'"': Quote.LINES, "'": Quote.CHAR}, special=(r'\bb?c?r(#*)"', r'"\1'), nested=True),
    "go": _lexis("//", "/* */", {**_LITERAL, "`": Quote.RAW}),
    "swift": _lexis("//", "/* */", {**_LITERAL, '"""': Quote.LINES}, special=(r'(#+)"', r'"\1'), nested=True),
    "zig": _lexis("// \\\\", "", _LITERAL),
    "perl": _lexis("#", "", _BOTH, spaced=True, more=(_HEREDOC_SIGN,)),
    "php": _lexis("// #", "/* */", _LONG, more=(r"(?<=<)<<[\"']?[A-Za-z_]\w*[\"']?",)),
    "ruby": _lexis("#", "=begin =end", {**_LONG, "`": Quote.RAW}, special=(r"#\{", "}"), more=("/", _HEREDOC_SIGN)),
    "yaml": _lexis("#", "", _BOTH, spaced=True),
    "lua": _lexis("--", "", _BOTH, special=(r"(?:--)?\[(=*)\[", r"]\1]")),
    "sql": _lexis("--", "/* */", _BOTH),
}


def lexis_of(language: str) -> Lexis:
    """The strings and comments of `language`."""
    return _BY_LANGUAGE.get(language, _C)


CLOSER_OF = {"(": ")", "[": "]", "{": "}"}  # opening bracket → closing bracket

_TEMPLATE = "`"
_BRACKETS = frozenset("()[]{}")
_TEMPLATE_SIGN = re.compile(r"\\.|`|\$\{", re.DOTALL)
_CHAR = re.compile(r"'(?:\\[^\n][^\n'\\]{0,9}|[^'\\\n]{1,4})'")
_BODY = {
    ('"', Quote.LINE): re.compile(r'[^"\\\n]*+(?:\\.[^"\\\n]*+)*+', re.DOTALL),
    ("'", Quote.LINE): re.compile(r"[^'\\\n]*+(?:\\.[^'\\\n]*+)*+", re.DOTALL),
    ('"', Quote.LINES): re.compile(r'[^"\\]*+(?:\\.[^"\\]*+)*+', re.DOTALL),
    ("'", Quote.LINES): re.compile(r"[^'\\]*+(?:\\.[^'\\]*+)*+", re.DOTALL),
    ('"""', Quote.LINES): re.compile(r'(?:[^"\\]++|\\.|"(?!""))*+', re.DOTALL),
    ("'''", Quote.LINES): re.compile(r"(?:[^'\\]++|\\.|'(?!''))*+", re.DOTALL),
}
"""The text between a quote and the end of its string."""
_REGEX = re.compile(r"(?:[^/\\\[\n]|\\[^\n]|\[(?:[^\]\\\n]|\\[^\n])*+\])++")
_REGEX_AFTER = frozenset("(,=:[!&|?{;+-*%^~")
_REGEX_AFTER_WORD = re.compile(
    r"\b(?:return|typeof|case|in|of|delete|void|throw|do|else|yield|await|when|if|unless|and|or)$"
)
_FAR = 80  # characters before a slash that are searched for the sign or word that makes it a division or a pattern
_HEREDOC = re.compile(r"<<([~-]?[\"']?)(\w+)")
_BRANCH = re.compile(r"^[ \t]*#[ \t]*(if|el|endif)", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class LexerState:
    """A place to resume a scan: its offset, the open brackets there, and those that were open at each `#if`."""

    at: int = 0
    stack: tuple[tuple[int, str], ...] = ()
    branches: tuple[tuple[tuple[int, str], ...], ...] = ()


@dataclass(slots=True)
class Lexed:
    """The result of a scan."""

    signs: list[tuple[int, str]] = field(default_factory=list)
    """(offset, sign) of brackets outside strings and comments."""
    closers: list[tuple[int, str]] = field(default_factory=list)  # those without an opening bracket
    stack: list[tuple[int, str]] = field(default_factory=list)
    """(offset, sign) of the open ones, outermost first; a backtick for a template."""
    spans: list[tuple[int, int]] = field(default_factory=list)  # (begin, end) of strings and comments
    quote: str = ""  # the end of the string that the text ends in, or ""
    comment: str = ""  # the end of the comment that it ends in, or ""
    last_line: LexerState = field(default_factory=LexerState)
    """Where a scan may resume: at the beginning of the last line, or before the string that crosses it."""

    @property
    def openers(self) -> tuple[tuple[int, str], ...]:
        """The open brackets, outermost first."""
        return tuple(entry for entry in self.stack if entry[1] != _TEMPLATE)

    @property
    def complete(self) -> bool:
        """Whether a statement may end here: no bracket or string is open."""
        return not self.openers and not self.quote

    @property
    def in_template(self) -> bool:
        """Whether the text ends in a template, or in code inside one."""
        return any(sign == _TEMPLATE for _, sign in self.stack)


def lex(text: str, language: str, start: LexerState | None = None) -> Lexed:
    """Scan `text` from `start`, by default its beginning."""
    return _LexerScan(text, language, start or LexerState()).scan()


class _LexerScan:
    """One scan. `_dead`: for each quote, the offset up to which its line does not end a string that it begins."""

    def __init__(self, text: str, language: str, start: LexerState) -> None:
        self._text, self._lexis, self._begin = text, lexis_of(language), start.at
        self._last = max(text.rfind("\n") + 1, start.at)
        self._branches = [list(branch) for branch in start.branches]
        self._dead: dict[str, int] = {}
        self._heredoc: tuple[int, int] | None = None
        self._saved: LexerState | None = None
        self._lexed = Lexed(stack=list(start.stack))

    def scan(self) -> Lexed:
        text, lexed, find = self._text, self._lexed, self._lexis.start
        at = self._begin
        while True:
            inside = bool(lexed.stack) and lexed.stack[-1][1] == _TEMPLATE
            found = (_TEMPLATE_SIGN if inside else find).search(text, at)
            begin = found.start() if found else len(text)
            if self._heredoc and begin > self._heredoc[0]:
                at = self._skip(*self._heredoc)
                self._heredoc = None
                continue
            if found is None:
                break
            if self._saved is None and begin >= self._last:
                self._saved = self._start(self._last)
            at = self._in_template(found) if inside else self._next(found)
            if self._saved is None and (at > self._last or self._last <= at == len(text)):
                self._saved = self._start(begin)
        lexed.quote = lexed.quote or (_TEMPLATE if inside else "")
        lexed.last_line = self._saved or self._start(self._last)
        return lexed

    def _start(self, at: int) -> LexerState:
        return LexerState(at, tuple(self._lexed.stack), tuple(map(tuple, self._branches)))

    def _skip(self, begin: int, end: int) -> int:
        if self._saved is None and (end > self._last or end == len(self._text)):
            self._saved = self._start(min(begin, self._last))
        return self._string(begin, end)

    def _next(self, found: re.Match[str]) -> int:
        """Handle a sign outside strings and comments; returns where the scan goes on."""
        sign, begin, lexis = found[0], found.start(), self._lexis
        if sign in _BRACKETS:
            return self._bracket(begin, sign)
        if (quote := lexis.quotes.get(sign)) is not None:
            return self._quoted(begin, sign, quote)
        if sign in lexis.line:
            if lexis.spaced and begin and self._text[begin - 1] not in " \t\n":
                return found.end()
            end = self._text.find("\n", begin)
            return self._comment(begin, end, "\n")
        if sign in lexis.block:
            return self._block_comment(begin, sign)
        return self._rare(found)

    def _rare(self, found: re.Match[str]) -> int:
        sign, begin = found[0], found.start()
        if sign == "/":
            return self._slash(begin)
        for pattern, end_of in self._lexis.special:
            if special := pattern.match(self._text, begin):
                closer = special.expand(end_of)
                at = self._text.find(closer, special.end())
                if sign.startswith("--"):
                    return self._comment(begin, at, closer)
                return self._string(begin, at + len(closer)) if at >= 0 else self._open(begin, closer)
        if sign.startswith("<<"):
            return self._here(found)
        return found.end() if sign.startswith("\\") else self._branch(found)

    def _bracket(self, at: int, sign: str) -> int:
        lexed = self._lexed
        lexed.signs.append((at, sign))
        if sign in CLOSER_OF:
            lexed.stack.append((at, sign))
        elif lexed.stack and CLOSER_OF.get(lexed.stack[-1][1]) == sign:
            lexed.stack.pop()
        else:
            lexed.closers.append((at, sign))
        return at + 1

    def _block_comment(self, begin: int, sign: str) -> int:
        closer, after = self._lexis.block[sign], begin + len(sign)
        end = self._text.find(closer, after)
        if self._lexis.nested and self._text.find(sign, after, max(end, 0)) >= 0:
            depth = 0
            for found in re.finditer(f"{re.escape(sign)}|{re.escape(closer)}", self._text[begin:]):
                depth += 1 if found[0] == sign else -1
                if not depth:
                    return self._comment(begin, begin + found.start(), closer)
            return self._comment(begin, -1, closer)
        return self._comment(begin, end, closer)

    def _comment(self, begin: int, end: int, closer: str) -> int:
        if end < 0:
            self._lexed.comment = closer
            return self._string(begin, len(self._text))
        return self._string(begin, end + (len(closer) if closer != "\n" else 0))

    def _string(self, begin: int, end: int) -> int:
        self._lexed.spans.append((begin, end))
        return end

    def _open(self, begin: int, quote: str) -> int:
        self._lexed.quote = quote
        return self._string(begin, len(self._text))

    def _quoted(self, begin: int, sign: str, quote: Quote) -> int:
        text, inner = self._text, begin + len(sign)
        if quote is Quote.CHAR:
            char = _CHAR.match(text, begin)
            return self._string(begin, char.end()) if char else inner
        if quote is Quote.TEMPLATE:
            self._lexed.stack.append((begin, sign))
            return inner
        if quote is Quote.RAW:
            end = text.find(sign, inner)
            return self._string(begin, end + len(sign)) if end >= 0 else self._open(begin, sign)
        if begin < self._dead.get(sign, 0):
            return inner
        body = _BODY[sign, quote].match(text, inner)
        assert body is not None, "it may be empty"
        if text.startswith(sign, body.end()):
            return self._string(begin, body.end() + len(sign))
        if body.end() >= len(text) - (quote is Quote.LINES):
            return self._open(begin, sign)
        self._dead[sign] = body.end()
        return inner

    def _slash(self, begin: int) -> int:
        """Handle a slash: a regular expression or a division."""
        text = self._text
        head = text[max(0, begin - _FAR) : begin].rstrip()
        if begin < self._dead.get("/", 0) or not (
            not head or head[-1] in _REGEX_AFTER or _REGEX_AFTER_WORD.search(head)
        ):
            return begin + 1
        body = _REGEX.match(text, begin + 1)
        if body and text.startswith("/", body.end()):
            return self._string(begin, body.end() + 1)
        if text.find("\n", begin) < 0:
            return self._open(begin, "/")
        self._dead["/"] = body.end() if body else begin
        return begin + 1

    def _here(self, found: re.Match[str]) -> int:
        """Handle `<<`: a heredoc, whose lines begin below this one, or an operator."""
        here = _HEREDOC.match(self._text, found.start())
        line_end = self._text.find("\n", found.end())
        if here is None or line_end < 0 or self._heredoc:
            return found.end()
        end = re.compile(rf"^[ \t]*{here[2]}\b", re.MULTILINE).search(self._text, line_end + 1)
        if end is not None:
            self._heredoc = line_end, end.end()
        elif here[1]:
            self._lexed.quote = here[2]
            self._heredoc = line_end, len(self._text)
        return found.end()

    def _branch(self, found: re.Match[str]) -> int:
        """Handle `#if`, `#else` or `#endif`: every branch begins with the brackets that were open at the first one."""
        word = found[0].lstrip(" \t#")
        if word.startswith("if"):
            self._branches.append(list(self._lexed.stack))
        elif word.startswith("endif"):
            if self._branches:
                self._branches.pop()
        elif self._branches:
            self._lexed.stack[:] = self._branches[-1]
        else:
            return self._beyond_branches(found.end())
        return found.end()

    def _beyond_branches(self, at: int) -> int:
        """Skip to the `#endif` of a branch that the scan began in: the other branches are another text."""
        depth = 1
        for branch in _BRANCH.finditer(self._text, at):
            depth += {"if": 1, "endif": -1}.get(branch[1], 0)
            if not depth:
                return branch.end()
        return len(self._text)

    def _in_template(self, found: re.Match[str]) -> int:
        stack, begin = self._lexed.stack, found.start()
        if found[0] == _TEMPLATE:
            opened, _ = stack.pop()
            self._lexed.spans.append((opened, begin + 1))
        elif found[0] == "${":
            stack.append((begin + 1, "{"))
            self._lexed.signs.append((begin + 1, "{"))
        return found.end()


Region = Literal["code", "comment", "string", "prose"]

_PROSE = frozenset({"markdown", "plaintext", "text", "restructuredtext", "rst", "git-commit", "gitcommit"})
"""The language ids of prose, as VS Code, Neovim and Emacs send them."""
_COMMIT_FILES = ("COMMIT_EDITMSG", "MERGE_MSG", "TAG_EDITMSG")
_FENCE = re.compile(r"^ {0,3}(`{3,}|~{3,})(.*)$", re.MULTILINE)


class Regions:
    """Finds the region at the end of a text; a text that continues the last one is scanned from its last line on."""

    def __init__(self) -> None:
        self._language, self._head, self._start = "", "", LexerState()

    def region(self, before: str, language: str, path: str | None = None) -> Region:
        """The region at the end of `before`, the beginning of a document in `language` at `path`."""
        if language in _PROSE or (path or "").endswith(_COMMIT_FILES):
            return "code" if language == "markdown" and _in_fence(before) else "prose"
        continues = language == self._language and before.startswith(self._head)
        lexed = lex(before, language, self._start if continues else None)
        self._language, self._start = language, lexed.last_line
        self._head = before[: self._start.at]
        return "comment" if lexed.comment else "string" if lexed.quote else "code"


def _in_fence(before: str) -> bool:
    fence = ""
    for mark, info in _FENCE.findall(before[: before.rfind("\n") + 1]):
        if not fence:
            fence = mark if mark[0] == "~" or "`" not in info else ""
        elif mark.startswith(fence) and not info.strip():
            fence = ""
    return bool(fence)


COLON_BLOCKS = frozenset({"python", "yaml", "nim", "gdscript", "starlark"})
_END_BLOCKS = frozenset({"ruby", "lua", "shellscript", "elixir", "julia", "pascal", "vb", "fish", "crystal"})
INDENTED = COLON_BLOCKS | _END_BLOCKS
"""Languages whose blocks have no brackets, so that indentation shows them."""

_OPENING_TAG = re.compile(r"<([A-Za-z][\w:.-]*)(?:\s[^<>]*)?(?<!/)>\s*$")
_TAG = re.compile(r"<(/?)([A-Za-z][\w:.-]*)(?:\s[^<>]*)?(?<!/)>")
_VOID_TAGS = frozenset({"br", "hr", "img", "input", "link", "meta", "area", "base", "col", "embed", "source", "wbr"})
_END_OPENER = re.compile(
    r"^\s*(?:def|class|module|function|local function|if|unless|while|until|for|case|begin|defmodule|struct|let)\b"
    r"|\b(?:do|then|else|begin|repeat|function\s*\([^)]*\))(?:\s*\|[^|]*\|)?\s*$"
)
_CLOSING_WORD = re.compile(r"^\s*(?:end\b|fi\b|done\b|esac\b|until\b|</|[)\]}])")
_CONTINUING_WORD = re.compile(r"^\s*(?:elif|else|elsif|elseif|except|finally|rescue|ensure|catch|case|when)\b")
_MAKE_RULE = re.compile(r"[^\s#=:][^=]*:[^=]*$")
_CASE_LABEL = re.compile(r"^\s*(?:case\b.*|default\s*|public|private|protected):$")

_LONGEST_HEADER = 300
_CONTROL_WORDS = "if|for|while|switch|catch|with|match|when|else|do|try|return|using|lock|unless|until|synchronized"
_DEFINITION = re.compile(
    r"\s*(?:(?:export|default|public|private|protected|internal|static|async|abstract|override|virtual|final|inline|"
    r"unsafe|const|extern|pub(?:\([^)]*\))?)\s+)*"
    r"(?:(?:def|defp|class|fn|func|fun|function|interface|struct|enum|trait|impl|module)\b"
    rf"|(?!(?:{_CONTROL_WORDS})\b)(?:[\w<>\[\],.?&*:]+\s+)*(?!(?:{_CONTROL_WORDS})\b)[\w~#]+(?:<[^<>()]*>)?\([^;{{]*\)[^;=(]*\{{\s*$)"
)


def code_only(line: str, language: str) -> str:
    """`line` without comments and trailing blanks, and with its strings emptied."""
    kept, at = [], 0
    for begin, end in lex(line, language).spans:
        if begin < at:
            continue
        quote = line[begin] if line[begin] in "\"'`" else ""
        kept += [line[at:begin], quote * 2]
        at = end
    return ("".join(kept) + line[at:]).rstrip()


def is_comment(line: str, language: str) -> bool:
    """Whether `line` is only a comment, an attribute or a decorator, and so belongs to the next line."""
    code = code_only(line, language).strip()
    return bool(line.strip()) and (not code or code.startswith(("@", "#[")) or code.strip("\"'") == "")


def without_bare_comment(text: str, language: str) -> str:
    """`text`, cut short in a comment, without lines of it that hold only its marks: a bare `# ` or `/**`."""
    lexed = lex(text, language)
    if not lexed.comment:
        return text
    begin = max(lexed.spans[-1][0], text.rfind("\n") + 1)
    if any(map(str.isalnum, text[begin:])):
        return text
    return without_bare_comment(text[:begin].rstrip(), language)


def opens_block(line: str, language: str) -> bool:
    """Whether `line` opens a block that the code below belongs to."""
    code = code_only(line, language)
    if not code.strip():
        return False
    if code.endswith(("{", "(", "[")):
        return True
    if language in COLON_BLOCKS:
        return code.endswith(":")
    if language == "makefile":
        return bool(_MAKE_RULE.match(code))
    if language in MARKUP:
        tag = _OPENING_TAG.search(code)
        return bool(tag) and tag is not None and tag[1].lower() not in _VOID_TAGS
    if language in _END_BLOCKS:
        return bool(_END_OPENER.search(code)) and not re.search(r"\bend\s*$", code)
    return code.endswith(("=>", "->")) or bool(_CASE_LABEL.match(code))


def defines(line: str, language: str) -> bool:
    """Whether `line` begins the definition of a function, a class or the like."""
    return len(line) <= _LONGEST_HEADER and _DEFINITION.match(code_only(line, language)) is not None


def closes_block(line: str) -> bool:
    """Whether `line` begins with the end of a block: a closing bracket or tag, or `end`."""
    return bool(_CLOSING_WORD.match(line))


def continues_block(line: str) -> bool:
    """Whether `line` begins another branch of the block above, such as `else` or `except`."""
    return bool(_CONTINUING_WORD.match(line))


def open_tags(text: str) -> list[str]:
    """The names of the tags that markup opens and does not close."""
    names: list[str] = []
    for closing, name in _TAG.findall(text):
        if closing and name in names:
            del names[len(names) - 1 - names[::-1].index(name) :]
        elif not closing and name.lower() not in _VOID_TAGS:
            names.append(name)
    return names


def indent(line: str) -> str:
    """The leading blanks of `line`."""
    return line[: len(line) - len(line.lstrip(" \t"))]


def width(blanks: str) -> int:
    """The width of `blanks` in columns, with tab stops every four."""
    column = 0
    for blank in blanks:
        column = column + 1 if blank == " " else column // 4 * 4 + 4
    return column


_STEPS = frozenset({1, 2, 3, 4, 8})  # columns of one level of indentation
_DEEPEST_STEP = 8


def steps(lines: Iterable[str]) -> Counter[int]:
    """How often each step of indentation occurs between `lines`, which have text, by its columns."""
    found, last = Counter[int](), 0
    for line in lines:
        columns = width(indent(line))
        if columns <= last + _DEEPEST_STEP:
            found[columns - last] += columns - last in _STEPS
            last = columns
    return +found


def indentation_of(lines: Iterable[str]) -> str:
    """The indentation of one level in `lines`: a tab, or spaces; "" where they show none."""
    indented = [line for line in lines if line.strip()]
    kinds = Counter(line[0] for line in indented if line[0] in " \t" and line.lstrip()[0] != "*")
    if kinds["\t"] > kinds[" "]:
        return "\t"
    found = steps(indented)
    return " " * max(found, key=lambda step: found[step]) if found and kinds else ""
