r"""Whether the user is typing the value of a secret, where nothing is suggested.

It decides about suggestions alone, so it may be narrower than `secret_lines`, which decides what reaches prompts and
remote servers: the value's own name has to say that it is a secret, or the text has a key's form.
"""

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Final

from fastcoder_lsp.workspace.secret_lines import ABROAD, BARE, KNOWN, MAX_LINE, REACH, RUN, is_random, is_value

_ABOVE: Final = 20  # lines above the cursor's that are looked at, at most
_NEAR: Final = 4  # of them, those that may hold the name of the cursor's value
_QUOTED: Final = r"""(?:"[^"]*"|'[^']*'|`[^`]*`)"""
_LITERAL: Final = re.compile(
    r'"(?:[^"\\]|\\(?:.|$))*+("?)|`(?:[^`\\]|\\(?:.|$))*+(`?)|'
    r"""(?:(?<![\w&<])|(?<=[^\w&][bBrRuUfFNL])|(?<=\W[rR][bB]))'(?:[^'\\]|\\(?:.|$))*+('?)"""
)
_WORD: Final = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[^\W\d_A-Z]+|\d+")
_SAYS: Final = re.compile(
    r"(?<![^\W_])(?:\w*(?:p[a4@]ssw(?:or[dt]|0rd|d|ort)?s?|passwd|passphrases?|pwd|pswd)|"
    r"(?:db|my|user|smtp|mail|key|store|require|root|admin|ftp|login)?pass(?:code|key)?|[^\W_]*secrets?|"
    r"[^\W_]*token|(?:access|auth|api|refresh|bearer|secret)_tokens|[^\W_]*credentials?|creds?|pw|psk|mdp|otp|"
    r"pin_?code|mnemonic|seed_?phrase|pepper|p_4_ssw\w*|"
    r"(?:api|access|private|signing|encryption|master|account|auth|aes|hmac|jwt|crypto|license|shared|symmetric|ssh|"
    rf"app)_?keys?)(?![^\W_])|{ABROAD}"
)
"""A secret's name, in words of lower case with `_` between them."""
_ABOUT: Final = re.compile(
    r"_(?:types?|names?|fields?|len|length|count|rate|id|ids|ur[li]s?|path|files?|class|errors?|hint|labels?|prompt|"
    r"max|min|size|regex|pattern|policy|expir\w*|ttl|provider|handler|manager|is|index|pos|position|stream|list|kind|"
    r"help|messages?|msg|placeholder|title|desc|description|column|header|format|prefix|suffix|scheme|version|alg|"
    r"algorithm|issuer|audience|scopes?|status|state|store|storage|service|endpoint|dir|folder|strength|rules?|env|"
    r"var|variable|param|parameter|arg|mode|method|source|view|form|input|page|template|route|bucket|limit|usage|"
    r"budget|model|validator|checker|generator|factory|parser|lexer|ref|reference|arn|location|region|group|role|"
    r"user|username|owner|email|date|time|at|required|enabled|flag|through|number|tags?|attr|attribute|selector|"
    r"icon|color|i18n)(?![^\W_])|(?:token|password|pass)_keys?(?![^\W_])"
)
"""Words after a secret's name where the value is something about it."""
_NO_TOKEN: Final = re.compile(
    r"(?<![^\W_])(?:pad|eos|bos|unk|cls|sep|mask|special|stop|start|begin|end|next|prev|previous|current|cur|last|first|"
    r"peek|page|lookahead|syntax|design|continuation)_token"
)
"""Tokens of a text, a page or a design."""
_PREFIX: Final = re.compile(r"(?<!\w)(?:[rbufnlRBUFNL@$&]|[rR][bB]|[bB][rR]|[fF][rR]|[rR][fF]|u8)$")
_WRAPS: Final = re.compile(
    r"(?:(?:^|(?<=[=:,(\s]))|\[\]byte|\b(?:String|string|str|bytes?|String::from|Some|SecretStr|SecretString\w*|"
    rf"SecretString::new|b64encode|Buffer\.from|md5|MD5|sha\d+))\($|(?<![\w\])])\[(?:{_QUOTED},\s*)*$"
)
"""Texts allowed between a name's sign and its value: a parenthesis, a conversion, the values before it in a list."""
_SPACES: Final = re.compile(r"\s{3,}")
_SCHEME: Final = re.compile(r"(?i)(?:bearer|basic|token)\s+$")
_BLOCK: Final = re.compile(r"\s*(?:!\w+\s*)?[|>][-+]?$")
_DEFAULTS: Final = re.compile(r"=\s*$|\$\{[\w.-]+:$")
_SIGN: Final = re.compile(r"(?<![<>!=])([:|?+&]{0,2}=>?|:|===?|-c?eq|->|<<<)$|(!==?)$")
_OTHERWISE: Final = re.compile(r"(?<![=!<>])=[^=,;]*(?:\|\||\?\?|\bor|\?:)$")
_TYPED: Final = re.compile(
    r"^(.*[\w$]\??)\s*:\s*[^=:,;(){}\"/-]{1,40}$|^.*\b(?:var|const)\s+(\w+)\s+(?:string|\[\]byte)$"
)
_NAME: Final = re.compile(
    r"""\[["'`]([^"'`]{1,80})["'`]\]$|["'`]([^"'`]{1,80})["'`]$|([\w$@.-]{1,80})(?:\[\w*\]|\*\*|[?!])?$"""
)
_NO_NAME: Final = re.compile(r"\s\?\s*[\w.]+$|\b(?:type|lambda|case)\s+\w+$")
_OPTION: Final = re.compile(
    r"""(?:^|[\s"'`])--?([\w-]{2,40})["'`]?,?$|#define\s+(\w+)$|\bENV\s+(\w+)$|\((?:setq|def\w*)\s+([\w-]+)$|"""
    r"\bset (?:-\w+ )?([\w.-]+)$"
)
_BESIDE: Final = re.compile(r"(?:^|\s|[$])([\w-]{2,40})$")
_SPACED: Final = frozenset(("nginx", "groovy", "gradle", "sql", "dockerfile", "plaintext"))
"""Languages in which a space may be between a name and its value."""
_PAIR: Final = re.compile(
    r"""(?i)\b(?:set\w*|put\w*|define|option|\w*env|fetch|get\w*|fill|header\w*|append|add\w*|pop|string|property|insert|"""
    r"""\w*compare\w*)\(\s*["'`]\W{0,2}([^"'`]{1,80})["'`]\s*,$"""
)
"""Calls with a name and its value, or with a name and what there is without it."""
_CALL: Final = re.compile(
    r"(?i)(?:basic_?auth|credentials?|plain_?auth|digest_?auth|mysqli_connect|create_?hmac|\bauth\s*=\s*|\bftp)"
    r"(?:::new)?\s*\((?:[^()]|\(\)){1,200},\s*(?:Some)?\(?$|\bjwt\.(?:sign|encode|decode|verify)\((?:[\w.]+|\{[^{}]*\}),$|"
    r"\bidentified by$|\bmachine\s.{1,80}\spassword$|\bset password for .{1,80}=$"
)
_SETS: Final = re.compile(
    r"\.(passw\w*|api_?[kK]ey|secret)\($|"
    r"\b(?:set|with|hash|check|verify|change|reset|update|encrypt)_?([\w]{2,40})!?\($"
)
_COMMAND: Final = re.compile(
    r"\b(?:curl|http|wget)\b.*\s(?:-u|--user)[ =][\"']?[^\s:\"']+:[^\s\"']*$|\b(?:mysql\w*|mariadb)\s.*\s-p\S*$|"
    r"\bsshpass\s+-p\s*[\"']?\S*$|\b(?:docker|podman)\s+login\s.*\s-p\s*\S*$|\bredis-cli\s.*-a\s*\S*$"
)
_VALUE_OF: Final = re.compile(r"(?i)value|val|default|content|string")
_NAMED: Final = re.compile(
    r"""(?i)\b(?:name|key|id|type|variable)["']?\s*[:=]?\s*["']?([\w.-]{2,80})|["']--([\w-]{2,80})["']"""
)
_ROW: Final = re.compile(r"(?i)\(([^()]{1,400})\)\s*values\s*\((.*)$")
_OPENS: Final = re.compile(r"""^(.*)(\"""|'''|`)[^"'`]*$|^(.*?)<<[-~<]*\s*["']?(\w+)["']?\s*$""")
_ITEM: Final = re.compile(rf"\s*(?:-\s+)?{_QUOTED},?\s*$")
_RETURNS: Final = re.compile(r"^\s*return$")
_DEFINED: Final = re.compile(r"(?:get|load|read)?_?(\w+)\s*\([^()]*\).*[:{]\s*$")


def types_secret(before: str, language: str) -> bool:
    """Whether the text left of the cursor ends in a secret's value, or where one begins."""
    *above, line = before[-REACH:].split("\n")
    begins = before.rfind("-----BEGIN", max(len(before) - REACH, 0))
    if begins >= 0 and "PRIVATE" in before[begins : begins + 40] and "-----END" not in before[begins:]:
        return True
    return _ends_in_secret(tuple(map(_shortened, above[-_ABOVE:])), _shortened(line), language)


def _shortened(line: str) -> str:
    """The end of a line without long spaces, so that no pattern takes long."""
    return _SPACES.sub("  ", line[-MAX_LINE:])


@lru_cache(maxsize=64)
def _ends_in_secret(above: Sequence[str], line: str, language: str) -> bool:
    bare = BARE.fullmatch(language) is not None
    opened = _open_quote(line)
    text = line[opened + 1 :] if opened is not None else line if bare else line[line.rfind(" ") + 1 :]
    if KNOWN.search(text) or any(map(is_random, RUN.findall(text))):
        return True
    if bare and (_COMMAND.search(line) or _in_secret_object(above, line, language)):
        return True
    if opened is None and _in_open_string(above):
        return True
    return any(
        _may_be_value(value) and _gives_secret(_from_above(head, above), value, language, above)
        for head, value in _open_values(line, bare)
    )


def _open_values(line: str, bare: bool) -> Iterator[tuple[str, str]]:
    """The text left of each value that the cursor is in, and the value so far: a string, and values in its text."""
    inside = False
    while (opened := _open_quote(line)) is not None:
        head, value = line[:opened], line[opened + 1 :]
        yield (head[:-2] if head[-2:] == line[opened] * 2 else head), value
        line, inside = value.replace("\\", ""), True
    if bare or inside:
        start = max(map(line.rfind, " \t?&;,>")) + 1
        signs = [at for at in (line.find("=", start), line.find(":", start)) if at >= 0]
        cut = min(signs, default=start - 1) + 1
        # In a string of code, `Password: ` is a text that is shown.
        if not inside or bare or _DEFAULTS.search(line[:cut]):
            scheme = _SCHEME.search(line[:cut])
            cut = scheme.start() if scheme else cut
            yield line[:cut], line[cut:]


def _open_quote(line: str) -> int | None:
    """Where the string begins that the end of `line` is in."""
    last = next(reversed(list(_LITERAL.finditer(line))), None)
    if last is None or last.end() < len(line) or any(last.groups()):
        return None
    return last.start() if line[last.start()] in "\"'`" else last.start() + 1


def _may_be_value(value: str) -> bool:
    value = re.sub(r"(?i)^(?:bearer|basic|token)\s+", "", value)
    if "{" in value or value[:1] in {"$", "<", "%"}:
        return False
    return is_value(value) if len(value.strip()) > 2 else value.strip(" -_") == value.strip() or not value.strip()


def _gives_secret(head: str, value: str, language: str, above: Sequence[str]) -> bool:
    """Whether the value right of `head` is one of a secret."""
    head = _PREFIX.sub("", head.rstrip()).rstrip()
    pair = _PAIR.search(head)
    if _CALL.search(head) or _names(pair) or _names(_SETS.search(head)) or _names(_OPTION.search(head)):
        return True
    if (language == "sql" and _in_secret_column(head)) or (language in _SPACED and _names(_BESIDE.search(head))):
        return True
    if language in {"xml", "html"} and head.endswith(">"):
        return any(map(says_secret, re.findall(r"[\w.-]+", head[head.rfind("<") :])))
    if _RETURNS.match(head) and (lines := [line for line in above[-2:] if line.strip()]):
        return _names(_DEFINED.search(lines[-1]))
    for _ in range(3):
        head = _WRAPS.sub("", head).rstrip()
    if language in {"c", "cpp"}:
        head = re.sub(r"=?\s*\{$", "=", head)
    name, sign = (pair[1], ",") if pair else _name_left_of(head)
    if name.lower().endswith("authorization"):
        return re.match(r"(?i)(?:bearer|basic|token)\s", value) is not None
    if _VALUE_OF.fullmatch(name):
        near = " ".join((*above[-_NEAR:], head))
        return any(map(_names, _NAMED.finditer(near[max(near.rfind("}"), near.rfind("/>")) + 1 :])))
    if name.endswith("redentials") and language.startswith(("javascript", "typescript")) and sign == ":":
        return False  # the option of `fetch`
    compared = sign in {"==", "===", "!=", "!==", "-eq", "-ceq"}
    return says_secret(name) and not (compared and "token" in name.lower())


def _name_left_of(head: str) -> tuple[str, str]:
    """The name that a value right of `head` is given to, and the sign between them; empty if there is none."""
    head = head.rstrip("* ")
    otherwise, signed = _OTHERWISE.search(head), _SIGN.search(head)
    if otherwise is not None:
        target, sign = head[: otherwise.start()].rstrip(":|? "), "="
    elif signed is not None:
        target, sign = head[: signed.start()].rstrip(), signed[1] or signed[2]
    else:
        return "", ""
    if sign == "=" and (typed := _TYPED.match(target)) is not None:
        target = typed[1] or typed[2]
    named = _NAME.search(target)
    if named is None or _NO_NAME.search(target):
        return "", sign
    return (named[1] or named[2] or named[3]).rpartition(".")[2], sign


def says_secret(name: str) -> bool:
    """Whether a name is one of a secret's value, and not of something about a secret."""
    words = "_".join(_WORD.findall(name)).lower()
    said = _SAYS.search(words)
    return said is not None and not _ABOUT.search(words, said.start()) and not _NO_TOKEN.search(words)


def _names(match: re.Match[str] | None) -> bool:
    return match is not None and any(says_secret(name) for name in match.groups() if name)


def _from_above(head: str, above: Sequence[str]) -> str:
    """What is left of a value, with the line above that names it if its own line does not."""
    if head.strip() not in {"", "-"}:
        return head
    for line in reversed(above[-_NEAR:]):
        if line.strip() and not _ITEM.match(line):
            return _BLOCK.sub("", line.rstrip()) + head.strip(" \t-")
    return head


def _in_open_string(above: Sequence[str]) -> bool:
    """Whether a secret's name opens a string above that has no end yet."""
    for at in range(len(above) - 1, -1, -1):
        if (opened := _OPENS.match(above[at])) is not None:
            head, mark = (opened[1], opened[2]) if opened[2] else (opened[3], opened[4])
            if (opened[4] or above[at].count(mark) % 2) and not any(mark in line for line in above[at + 1 :]):
                head = head.replace("$(cat", "")
                return says_secret(_name_left_of(_PREFIX.sub("", head.rstrip()).rstrip(" ("))[0])
    return False


def _in_secret_column(head: str) -> bool:
    row = _ROW.search(head)
    if row is None:
        return False
    column = re.sub(_QUOTED, "", row[2]).count(",")
    columns = row[1].split(",")
    return column < len(columns) and says_secret(columns[column].strip(" `\"'[]"))


def _in_secret_object(above: Sequence[str], line: str, language: str) -> bool:
    """Whether the value is one of a Kubernetes secret."""
    if language != "yaml" or not re.match(r"\s+[\w.-]+:\s", line) or "kind: Secret" not in above:
        return False
    return any(one.rstrip() in {"data:", "stringData:"} for one in above)
