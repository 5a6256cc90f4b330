"""The places where a text uses a name that nothing in it binds."""

import re
from functools import lru_cache
from typing import Final

from fastcoder_lsp.edits.names import scopes_of
from fastcoder_lsp.edits.syntax_tree import parsed, quoting

_BY_WORDS: Final = frozenset({"php", "ruby", "c", "cpp", "cuda-cpp"})
_MOST_USES: Final = 1_000
_TYPE: Final = (
    r"(?:(?:\b(?:class|interface|enum|record|struct|trait|type|object|typealias|union|mod|module|const|static|define)\s+"
    r"|@interface\s+)(?:mut\s+)?"
    r"|(?:\b(?:class|interface|record|struct|enum|trait|type|fn)\s+\w+|\bfun|\bimpl)\s*<(?:[^<>\n]*,\s*)?)"
)
_OTHER: Final = (
    r"(?:\b(?:fn|fun|val|var|let|mut|const|def|for|func|ref|move)\s+|[|(]\s*(?=\w+\s*(?:[|:]|\)\s*->))"
    r"|[\w>\]?](?<!\breturn)(?<!\bnew)(?<!\belse)(?<!\bthrow)(?<!\bawait)(?<!\bin)(?<!\bmatch)(?<!\bif)(?<![-=]>)\s+)"
)
_OTHER_AFTER: Final = r"(?:\s*(?:=(?!=)|[;,:)]|\|)|\([^)\n]*\)\s*(?:\{|throws|->|=(?!=)|:))"


def unbound_uses(text: str, language: str, name: str) -> list[int]:
    """The offsets of the uses of a name; none where the text binds it.

    By the syntax tree's scopes where they tell types, too; else by the words that declare a name.
    """
    by_words = language in _BY_WORDS or (language == "java" and name[0].islower())  # a method of any class's
    if not by_words and (found := _by_tree(text, language)) is not None:
        return found.get(name, [])
    if by_words or name[0].isupper():
        quoted, word = quoting(text, language), re.escape(name)
        declared = [rf"{_TYPE}({word})(?!\w)"] * name[0].isupper()
        if name[0].islower() or language not in ("java", "php", "ruby"):
            declared.append(rf"{_OTHER}({word})(?:{_OTHER_AFTER})")
        if language not in ("java", "php", "ruby", "kotlin", "rust"):
            declared.append(rf"\w\s*[*&]+\s*({word})(?:{_OTHER_AFTER}|\[)")
        if language == "ruby":
            declared += [rf"^[ \t]*({word})[ \t]*(?:\|\|)?=(?![=~>])", rf"\bautoload[ \t(]+:({word})\b"]
        if language in ("c", "cpp", "cuda-cpp"):
            declared.append(rf"^(?!return\b|else\b)[A-Za-z_][\w:<>,*& \t]*?[ \t*&]({word})[ \t]*\([^;{{}}]*\)\s*;")
        if any(not quoted(one.start(1)) for pattern in declared for one in re.finditer(pattern, text, re.MULTILINE)):
            return []
        places = [one.start() for one in re.finditer(rf"(?<![\w$]){word}(?![\w$])", text)]
        return [at for at in places[:_MOST_USES] if not quoted(at)]
    return []


def in_types(text: str, language: str, name: str) -> bool:
    """Whether all uses of a name that nothing binds are in annotations or other types."""
    tree, spans = parsed(text, language), [(at, at + len(name)) for at in unbound_uses(text, language, name)]
    if tree is None:
        return False
    kinds = ([step.kind for step in path] for _, _, path in tree.paths(spans, lambda *_: 0, 0))
    if language == "python":
        return all("type" in one for one in kinds)
    return all(one[-1] == "type_identifier" or "type_query" in one for one in kinds)


@lru_cache(maxsize=2)
def _by_tree(text: str, language: str) -> dict[str, list[int]] | None:
    """Name → the offsets of its uses that nothing binds."""
    if (scopes := scopes_of(text, language)) is None:
        return None
    found = dict[str, list[int]]()
    for one in scopes.unbound():
        if not one.broken:
            found.setdefault(one.name, []).append(one.at)
    return found
