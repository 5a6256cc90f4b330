"""The signs beside a word that tell a variable's name from other words, for each language that has its own.

`before` is the text of a line up to a word, `after` the rest of its line.
"""

import re
from typing import Final

from fastcoder_lsp.syntax import INDENTED, SCRIPT

_OTHER_BEFORE: Final = {
    "ruby": re.compile(r"[@$]$|(?<![\w\":]):$|\bdef\s+(?:self\.)?$|\b(?:alias|undef)\b.*$"),
    "dart": re.compile(r"(?<!\.)\.\.$"),
    "kotlin": re.compile(r"\bfun\s+(?:<[^>]*>\s*)?(?:[\w<>?]+\.)?$"),
    "lua": re.compile(r":\s*$|\bgoto\s+$"),
    **dict.fromkeys(
        ("c", "cpp", "cuda-cpp", "objective-c", "objective-cpp"), re.compile(r"\b(?:struct|union|enum|goto)\s+$")
    ),
    **dict.fromkeys(SCRIPT, re.compile(r"#$|(?:^|[{,;}])\s*(?:static\s+)?(?:get|set|static)\s+$")),
}
"""The text before another kind of name."""
_VARIABLE_BEFORE: Final = {
    "php": re.compile(r"(?<!::)\$\{?$"),
    "perl": re.compile(r"\$\{?$"),
    "shellscript": re.compile(r"\$\{?[#!]?$|\(\([^()]*$"),
}
"""The text before every variable."""
_OTHER_AFTER: Final = {
    "ruby": re.compile(r"[?!](?!=)|\(|:(?!:)"),
    "perl": re.compile(r"[\[{]"),  # an element of another variable
    **dict.fromkeys(("java", "elixir"), re.compile(r"\s*\(")),  # no call calls a variable
    **dict.fromkeys(("rust", "cpp", "cuda-cpp", "objective-cpp"), re.compile("::")),
}
"""The text after another kind of name."""
_NAMES_ITSELF: Final = re.compile(r"\$\$$|@\$$|%\$$|\{$")  # in Perl: the name of a reference
_TERNARY: Final = re.compile(r"\?[^:]*$")
_OUTER: Final = {
    "php": re.compile(r"\bfunction\s*&?\s*\([^{}]*\)\s*use\s*\([^()]*$|^\s*global\b[^;]*$"),
    "python": re.compile(r"^[ \t]*(?:global|nonlocal)\b[^\n]*$"),
}
"""The text before a name that a scope around binds."""
_BINDING: Final = {
    "lua": re.compile(r"\blocal\s+(?:function\s+|[\w\s,<>]*,\s*)?$|\bfor\s+[\w\s,]*$"),
    "perl": re.compile(r"\b(?:my|our|state|local)\s*(?:\([\s\w$@%,]*)?\$$"),
    "php": re.compile(r"\bas\s+(?:[^=;{}]*=>\s*)?&?\$$|\bcatch\s*\([^)]*\$$|\bstatic\s+\$$"),
    "shellscript": re.compile(
        r"(?:^|[;&|({\s])(?:local|declare|typeset|readonly|export)\b"
        r"(?:\s+-\w+|\s+\w+(?:=(?:\"[^\"]*\"|'[^']*'|[^\s\"'(]*))?)*\s+$"
    ),
    "ruby": re.compile(r"\brescue\b.*=>\s*$|^\s*for\s[\w\s,]*$"),
}
"""The text before a name that is bound there."""
_COMMANDS: Final = re.compile(
    r"\b(?:read|unset|mapfile|readarray|getopts|let)\b[^;|&]*\s$|\bprintf\s+-v\s+$|\s-v\s+$|\b(?:for|select)\s+$"
)
_COMMAND: Final = re.compile(r"(?:^|[;&|({]|\b(?:then|do|else))\s*$")
_SET: Final = re.compile(r"(?:\[[^\]]*\])?\+?=")
_UNCLEAR: Final = {
    "php": (re.compile(r"\bcompact\([^()]*['\"]$"), re.compile("")),
    "ruby": (re.compile(""), re.compile(r":(?!:)\s*(?:[,)}\]|;]|$)")),
    "rust": (re.compile(r"[(,]\s*$"), re.compile(r"\s*=(?!=)")),  # a macro's argument, which its text may name
    "swift": (re.compile(r"\b(?:if|guard|while|,)\s*(?:let|var)\s+$"), re.compile(r"\s*(?:[{,]|else\b|$)")),
    **dict.fromkeys(("java", "csharp"), (re.compile(r"\bcase\s+[\w.<>]+\s+$"), re.compile(""))),
}
"""The text before and after a name that is a variable's and another one's at once, or whose scope is unknown."""
_CALLED: Final = frozenset({"kotlin", "csharp", "cpp", "cuda-cpp", "objective-cpp", "dart", "groovy"})
"""Languages where a call of a name may call a variable, or a method of the class around it."""
_VALUE: Final = (
    r"(?:std::)?(?:u?int\d*(?:_t)?|u?long|u?short|s?byte|u?char|bool(?:ean)?|float|double|decimal|string(?:_view)?|size_t"
    r"|num|U?Int|U?Long|U?Short|U?Byte|Char|Boolean|Float|Double|String|Integer|list|vector|map|set|List|Map|Set)"
    r"\b(?:<[^()]*>)?"
)
"""Types whose values nobody calls."""
_VALUE_BEFORE: Final = re.compile(rf"(?<![\w.:<]){_VALUE}(?:\[\])*[\s?&*]+$")
_VALUE_AFTER: Final = re.compile(rf"\s*:\s*{_VALUE}")
_FUNCTION_AFTER: Final = re.compile(
    r"\s*:\s*(?:@\w+\s+)*(?:suspend\s+)?(?:[\w.<>?]+\.)?\((?:[^()]|\((?:[^()]|\([^()]*\))*\))*\)\s*->"
)
_PROPERTY: Final = re.compile(
    r"\b(?:class|record|object)\s+\w+(?:<[^()\n]*>)?[^(){};=\n]*\((?:[^(){};]|\((?:[^()]|\([^()]*\))*\))*$"
    r"|[(,]\s*(?:(?:public|private|protected|internal|readonly|override)\s+)+(?:(?:val|var)\s+)?[\w?|\\]*\s*\$?$"
)


def is_other(language: str, before: str, after: str, *, embedded: bool) -> bool:
    """Whether signs say that a word names no variable; `embedded`: whether it is in a string."""
    if (sign := _VARIABLE_BEFORE.get(language)) is not None and sign.search(before) is None:
        return language != "shellscript" or not (
            binds(language, before)
            or _COMMANDS.search(before) is not None
            or (_COMMAND.search(before) is not None and _SET.match(after) is not None)
        )
    if embedded and sign is not None and re.search(r"\\\$\{?$", before) is not None:
        return True
    if (other := _OTHER_BEFORE.get(language)) is not None and other.search(before) is not None:
        return True
    if (other := _OTHER_AFTER.get(language)) is None or other.match(after) is None:
        return False
    if language == "perl":
        return _NAMES_ITSELF.search(before) is None
    return not (re.match(":(?!:)", after) is not None and _TERNARY.search(before) is not None)


def is_called(language: str, after: str) -> bool:
    """Whether a name is called, and may be a method's."""
    return language in _CALLED and after.lstrip().startswith("(")


def holds_function(language: str, before: str, after: str, *, declared: bool) -> bool | None:
    """Whether the variable that is declared here is what a call of its name calls; None where nothing tells.

    `declared`: whether the document declares a function of its name.
    """
    if language != "kotlin":  # a variable hides a method of its name
        return _VALUE_BEFORE.search(before) is None or after.lstrip().startswith("(")
    if _FUNCTION_AFTER.match(after) is not None:
        return True
    if _VALUE_AFTER.match(after) is not None:
        return False
    typed = after.lstrip().startswith(":")
    return None if typed != declared else not declared


def is_outer(language: str, before: str) -> bool:
    """Whether a statement says that a scope around binds the name."""
    return (outer := _OUTER.get(language)) is not None and outer.search(before) is not None


def binds(language: str, before: str) -> bool:
    """Whether a name is bound after `before`."""
    return (binding := _BINDING.get(language)) is not None and binding.search(before) is not None


def has_own_bindings(language: str) -> bool:
    """Whether only `binds` tells where a variable is bound, apart from parameters."""
    return language in ("lua", "perl", "shellscript")


def is_unclear(language: str, before: str, after: str) -> bool:
    """Whether a name is another thing's, too, or has an unknown scope, so that no rename is certain."""
    sides = _UNCLEAR.get(language)
    return sides is not None and sides[0].search(before) is not None and sides[1].match(after) is not None


def is_property(language: str, lead: str) -> bool:
    """Whether a parameter after `lead`, the text of its statement, is a property, too."""
    return language not in INDENTED and _PROPERTY.search(lead) is not None
