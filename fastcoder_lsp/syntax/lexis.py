"""The strings and comments of each language, so that the lexer can skip the brackets inside them.

Languages without an entry are read as C. Only for those in `KNOWN` does a surplus bracket mean an error in the text,
not in the reading.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

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
_HEREDOC = r"(?<!<)<<[~-]?[\"']?[A-Za-z_]\w*[\"']?"
_BRANCH = r"^[ \t]*\#[ \t]*(?:if|el|endif)\w*"
_C = _lexis("//", "/* */", {**_LITERAL, "`": Quote.RAW})
_HASH = _lexis("#", "", {**_BOTH, **_TRIPLE})
_SHELL = _lexis("#", "", {'"': Quote.LINES, "'": Quote.RAW}, spaced=True, more=(_HEREDOC,))
_BY_LANGUAGE: Mapping[str, Lexis] = {
    **dict.fromkeys(SCRIPT, _lexis("//", "/* */", {**_BOTH, "`": Quote.TEMPLATE}, more=("/",))),
    **dict.fromkeys(
        _C_LIKE, _lexis("//", "/* */", _LITERAL, special=(r'R"([^()\\ \n]{0,16})\(', r')\1"'), more=(_BRANCH,))
    ),
    **dict.fromkeys(_SLASHED, _lexis("//", "/* */", {**_LITERAL, '"""': Quote.LINES})),
    **dict.fromkeys(MARKUP, _lexis("", "<!-- -->", {})),
    **dict.fromkeys(("toml", "nim", "gdscript", "starlark", "julia", "elixir", "cmake", "perl", "r"), _HASH),
    **dict.fromkeys(("shellscript", "fish", "makefile", "dockerfile"), _SHELL),
    **dict.fromkeys(("scss", "less"), _lexis("//", "/* */", _BOTH)),
    **dict.fromkeys(("haskell", "elm", "ada"), _lexis("--", "{- -}", _LITERAL)),
    **dict.fromkeys(("dart", "groovy"), _lexis("//", "/* */", {**_BOTH, **_TRIPLE})),
    "python": _HASH,
    "css": _lexis("", "/* */", _BOTH),
    "rust": _lexis("//", "/* */", {'"': Quote.LINES, "'": Quote.CHAR}, special=(r'\bb?c?r(#*)"', r'"\1'), nested=True),
    "go": _lexis("//", "/* */", {**_LITERAL, "`": Quote.RAW}),
    "zig": _lexis("// \\\\", "", _LITERAL),
    "php": _lexis("// #", "/* */", _LONG),
    "ruby": _lexis("#", "=begin =end", _LONG, more=("/", _HEREDOC)),
    "yaml": _lexis("#", "", _BOTH, spaced=True),
    "lua": _lexis("--", "", _BOTH, special=(r"(?:--)?\[(=*)\[", r"]\1]")),
    "sql": _lexis("--", "/* */", _BOTH),
}


def lexis_of(language: str) -> Lexis:
    """The strings and comments of `language`."""
    return _BY_LANGUAGE.get(language, _C)
