"""Parts of a model's output that are no suggestion: control tokens, fences, loops, and copies of lines nearby."""

import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from itertools import chain, takewhile

from fastcoder_lsp.postprocess.text_around import NEAR, TextAround, in_word
from fastcoder_lsp.syntax import (
    COLON_BLOCKS,
    KNOWN,
    MARKUP,
    closes_block,
    indent,
    is_comment,
    lex,
    opens_block,
    width,
    without_bare_comment,
)

_CONTROL = re.compile(
    r"<\|[\w▁/-]+\|>|<｜[^｜\n]*｜>|<\[[^\]\n]*▁[^\]\n]*\]>|▁<(?:PRE|SUF|MID|EOT)>|</?fim[_-](?:prefix|middle|suffix|pad)>"
    r"|<(?:start|end)_of_\w+>|<extra_id_\d+>|<<SYS>>|<(?:file_sep|gh_stars|repo_?name|jupyter_\w+|commit_\w+|issue_\w+|empty_output)>"
    r"|\x00|\ufffd|(?P<doubtful></?(?P<word>s|bos|eos|pad|unk|mask|filename|PRE|SUF|MID|EOT)>|"
    r"\[/?(?P<name>PREFIX|SUFFIX|MIDDLE|INST|BOS|EOS|PAD|UNK|MASK)\])"
)
"""Control tokens of models, spelt out; doubtful ones may be code."""
_FENCE = re.compile(r"^[ \t]*```[\w+-]*[ \t]*$", re.MULTILINE)
_SHORTEST_LOOP = 3  # equal runs of lines in a row that make a loop
_LEAST_ROUNDS = 8  # equal pieces in a row at the end of a line that make a loop
_ROUNDS = range(2, 41)  # characters of such a piece
_TELLING = 40  # characters of a block's distinct lines that hardly repeat by chance
_LINES_ABOVE = 60
_ENTRIES = 3
_HALF_TYPED = 8
_OPEN_ENDS = tuple("=.+-*/%&|^")  # signs after which a line continues
_NAMES_ALONE = re.compile(r"\s*(?:[\w$]*$|(?:import|from|use|using|case|package)\b)")
"""Lines with little more than a name, which may begin another name."""
_IMPORT = re.compile(r"(?:import|from|use|using)\s|#\s*include\b")
_DECORATORS = ("@", "#[")
_OPENERS = ("(", "[", "{")
_QUOTES = ('"', "'")


def control_text(text: str, around: TextAround) -> str:
    """`text` up to a spelt-out control token, unless the document itself contains it."""
    for match in _CONTROL.finditer(text):
        known = match[0] in around.near_before or match[0] in around.near_after
        if not known and not (match["doubtful"] and _may_be_code(match, text, around)):
            whole = around.left + text[: match.start()]
            return without_bare_comment(whole, around.language)[len(around.left) :]
    return text


def _may_be_code(mark: re.Match[str], text: str, around: TextAround) -> bool:
    """Whether what looks like a control token may be a name in brackets, a tag, or a part of a string or comment."""
    lexed = around.lexed_with(text[: mark.start()])
    in_text = around.language in MARKUP or bool(lexed.quote or lexed.comment)
    return in_text or (mark["word"] or mark["name"]) in around.words


def fence(text: str, around: TextAround) -> str:
    """`text` up to a Markdown fence, in languages and places where that has no meaning."""
    if around.language not in KNOWN:
        return text
    for match in _FENCE.finditer(text):
        lexed = around.lexed_with(text[: match.start()])
        begins = match.start() or not around.left.strip()
        if begins and not (lexed.quote or lexed.comment or lexed.in_template):
            return text[: match.start()]
    return text


def without_header(text: str, around: TextAround) -> str:
    """`text` without a header or decorator as its last line, whose body is missing, and its comments and decorators.

    The end of a header that the user began stays.
    """
    language, lines = around.language, text.rstrip().split("\n")
    header = lines[-1] if len(lines) > 1 else around.left + lines[-1]
    below = next((line for line in around.below if line.strip()), "")
    has_body = width(indent(below)) > width(indent(header)) or (around.right.strip() and not around.closing)
    open_bracket = language in COLON_BLOCKS and header.rstrip().endswith(_OPENERS)
    if has_body or open_bracket or not (opens_block(header, language) or header.lstrip().startswith(_DECORATORS)):
        return text
    if len(lines) == 1:
        return text if around.left.strip() else ""
    lines.pop()
    while lines and _belongs_below(lines[-1], language) and indent(lines[-1]) == indent(header):
        lines.pop()
    return "\n".join(lines).rstrip()


def _belongs_below(line: str, language: str) -> bool:
    return is_comment(line, language) and not line.lstrip().startswith(_QUOTES)


def comment_before_code(text: str, around: TextAround) -> str:
    """`text` up to a comment that would hold the code right of the cursor."""
    head, line, begins = around.head, text.rstrip(), not around.left.strip()
    if begins or head.comment or head.quote or not around.right.strip() or "\n" in line:
        return text
    lexed = around.lexed_with(line)
    if lexed.comment != "\n" or len(lexed.stack) < len(head.stack):  # it may bring the closers there itself
        return text
    return text[: lexed.spans[-1][0] - len(around.near_before)].rstrip()


def repetition(text: str, around: TextAround) -> str:
    """`text` up to where a loop begins its second round, or repeats the block right above."""
    lines = (around.left + text).split("\n")
    above = around.near_before[-NEAR:].split("\n")[:-1][-_LINES_ABOVE:]
    whole = [line.rstrip() for line in (*above, *lines)]
    loop = _second_round(lines, range(1, len(lines) + 1), _SHORTEST_LOOP, lambda tail: bool(tail.strip(" \t)]};,")))
    found = [
        *([] if loop is None else [loop]),
        *_blocks_again(whole, len(above), around),
        *_typed_above_again(whole[len(above) :], around),
    ]
    if found:
        kept = "\n".join(lines[: min(found)])[len(around.left) :]
        return kept if min(found) == loop else kept.rstrip()
    start = text.rfind("\n") + 1
    rounds = _second_round(text[start:], _ROUNDS, _LEAST_ROUNDS, lambda tail: len(set(tail.strip())) > 1)
    return text if rounds is None else text[: start + rounds]


def _second_round(row: Sequence[str], lengths: range, least: int, telling: Callable[[str], bool]) -> int | None:
    """Where in `row` the second of `least` or more equal rounds begins that reach to its end."""
    for length in lengths[: max(len(row) // least - lengths.start + 1, 0)]:
        run = 0
        while run < len(row) - length and row[-1 - run] == row[-1 - run - length]:
            run += 1
        if run >= length * (least - 1) and telling("".join(row[-length:])):
            return len(row) - run
    return None


def _blocks_again(whole: list[str], cursor: int, around: TextAround) -> Iterator[int]:
    """Lines, counted from the cursor's, that begin a block equal to the one right before it, or a list's entries."""
    opener = around.head.openers[-1][0] if around.head.openers else None
    in_code = opener is not None and not around.head.comment and not around.head.quote
    first = cursor - around.near_before.count("\n", opener) if in_code else len(whole)  # in the same bracket
    places = defaultdict[str, list[int]](list)
    periods = set[int]()
    for at, line in enumerate(whole):
        if any(map(str.isalnum, line)):
            periods |= {at - before for before in places[line]} if at >= cursor else set()
            places[line].append(at)
    for period in periods:
        run = 0
        for at in range(max(cursor, period), len(whole)):
            run = run + 1 if whole[at] == whole[at - period] else 0
            begins = at - _ENTRIES + 1
            if run == period > 1 and is_distinctive(whole[at - run + 1 : at + 1]):
                yield at - run + 1 - cursor
                break
            if (
                min(run, period) >= _ENTRIES
                and begins - period >= first
                and _are_entries(whole[cursor : at + 1], around)
            ):
                yield begins - cursor
                break


def _are_entries(lines: list[str], around: TextAround) -> bool:
    """Whether the last of `lines` are entries of the list that the first one is in."""
    own, said = width(indent(lines[0])), lines[-_ENTRIES:]
    code = [line for line in said if not is_comment(line, around.language)]
    if any(width(indent(line)) != own for line in said) or not all(line.endswith(",") for line in code[:-1]):
        return False  # or statements of a block in braces
    return is_distinctive(code) and all(width(indent(line)) >= own for line in lines if line.strip())


def _typed_above_again(lines: list[str], around: TextAround) -> Iterator[int]:
    """The cursor's line, if it repeats the incompletely typed line above, and completes it."""
    above, first = around.above.rstrip(), lines[0]
    if around.left.strip() or len(above.strip()) < _HALF_TYPED or not first.startswith(above) or first == above:
        return
    if _half_typed(above, first[len(above) :], around.language):
        yield 0


def _half_typed(line: str, rest: str, language: str) -> bool:
    """Whether `line` is incomplete, as its continuation `rest` shows; `import os` is complete."""
    if language in MARKUP:
        return False
    if line.endswith(_OPEN_ENDS) or lex(line, language).openers:
        return True
    return in_word(line, rest) and language in KNOWN and _NAMES_ALONE.match(line) is None


def is_distinctive(lines: Sequence[str]) -> bool:
    """Whether lines are too distinctive to be repeated on purpose."""
    words = {line.strip() for line in lines if any(map(str.isalnum, line))}
    return len(words) > 1 and sum(map(len, words)) >= _TELLING


def rubbish(text: str, around: TextAround) -> bool:
    """Whether `text` adds nothing: a copy of the line below or above, or of an import beside the cursor's."""
    said = text.strip()
    if around.left.strip():
        return _imports_again(around.left + text.partition("\n")[0], around)
    below = next((line for line in around.below if line.strip()), "")
    return said in {below.strip(), around.above.strip()} and not _structural(said)


def _imports_again(line: str, around: TextAround) -> bool:
    """Whether `line`, which completes the cursor's, is an import among those right above or below it."""
    if _IMPORT.match(line) is None or line == around.left:
        return False
    above = around.near_before.split("\n")[-2::-1]
    beside = chain(*(takewhile(_IMPORT.match, lines) for lines in (above, around.below)))
    return line.rstrip() in map(str.rstrip, beside)


def _structural(line: str) -> bool:
    """Whether a line may occur twice in a row: signs alone, or the end of a block."""
    return not any(map(str.isalnum, line)) or closes_block(line) or line.endswith("endif")
