r"""The model's output, made into the text to insert at the cursor; "" if nothing is worth showing.

Each rule is a function of its own (`overlap`, `indentation`, `balance`, `rubbish`). They are applied until nothing
changes, so finishing is idempotent. Texts have `\n` line ends.
"""

import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from itertools import takewhile

from fastcoder_lsp.postprocess.balance import balance
from fastcoder_lsp.postprocess.indentation import indentation
from fastcoder_lsp.postprocess.overwrite import written_over
from fastcoder_lsp.postprocess.text_around import NEAR, TextAround
from fastcoder_lsp.syntax import KNOWN, MARKUP, indent, is_comment, lex, width, without_bare_comment

_SURE = 4  # a repetition of the whole rest of the line with so many characters is not a coincidence
_OPERATORS = "*/-=+<>&|#~!."  # signs whose meaning depends on their neighbours
_TRIVIAL = 2  # a line of so few signs may occur twice
_SURE_PART = 12  # the same for the beginning of the rest of the line


def overlap(text: str, around: TextAround) -> str:
    """`text` without an end that repeats the text right of the cursor, or the lines below."""
    return _lines_below(_rest_of_line(text, around), around)


def _rest_of_line(text: str, around: TextAround) -> str:
    right = around.right.rstrip()
    if not right.strip():
        return text
    if around.closing:
        return _closers(text, around)
    return _words(text, right)


def _closers(text: str, around: TextAround) -> str:
    """`text` without closers at its end, after other text, that the editor has already inserted."""
    closing, tail = around.closing.strip(), text.rstrip()
    if not tail.endswith(closing) or not tail.rpartition("\n")[2][: -len(closing)].strip():
        return text if tail != closing else ""
    shorter = tail[: -len(closing)]
    doubled = written_over(text, around) == len(around.closing) or not closing.strip(";,")
    return shorter if doubled and not written_over(shorter, around) else text


def _words(text: str, right: str) -> str:
    """`text` without its common end with the beginning of the text right of the cursor."""
    tail = text.rstrip()
    for length in range(min(len(right), len(tail)), 0, -1):
        shared = right[:length]
        if not tail.endswith(shared) or _within_sign(tail[: len(tail) - length], shared):
            continue
        whole = length == len(right) and (length >= _SURE or not shared.strip().isalnum() or tail == shared)
        if whole or (length >= _SURE_PART and any(map(str.isalnum, shared)) and _at_word_ends(tail, right, length)):
            return tail[:-length]
    return text


def _within_sign(head: str, shared: str) -> bool:
    sign = shared[0]
    if sign in _OPERATORS:
        return len(shared) == 1 or (bool(head) and head[-1] in _OPERATORS)
    return not sign.isalnum() and head.endswith(sign)


def _at_word_ends(tail: str, right: str, length: int) -> bool:
    first = tail[-length:][:1]
    begins = length == len(tail) or not (_wordy(tail[-length - 1]) and _wordy(first))
    ends = length == len(right) or not (_wordy(right[length - 1]) and _wordy(right[length]))
    return begins and ends


def _wordy(char: str) -> bool:
    return char.isalnum() or char == "_"


def _lines_below(text: str, around: TextAround) -> str:
    """`text` up to the line from which it equals the lines below the cursor, to the end of either.

    Lines that equal those below only for a while are kept, because code repeats itself. Closers alone are left to
    `balance`: `}` may be needed although another one follows.
    """
    if around.right.strip() and not around.closing:
        return text
    below = [line.rstrip() for line in around.below if line.strip()]
    lines = text.split("\n")
    said = [index for index, line in enumerate(lines) if line.strip()]
    whole = [(around.left + line if not index else line).rstrip() for index, line in enumerate(lines)]
    for at, index in enumerate(said):
        if not index and around.left.strip():
            continue
        run = 0
        while run < min(len(said) - at, len(below)) and whole[said[at + run]] == below[run]:
            run += 1
        ends = at + run == len(said) or (run > 1 and run == len(below))
        if ends and _telling([lines[each] for each in said[at : at + run]], around, alone=not at):
            return "\n".join(lines[:index])
    return text


def _telling(lines: list[str], around: TextAround, *, alone: bool) -> bool:
    """Whether repeated lines are too distinctive to occur twice; `alone`: `text` has no other lines."""
    if around.language not in KNOWN or any(map(str.isalnum, "".join(lines))):
        return True
    return not alone and len(lines[-1].strip().strip("()[]{},;")) > _TRIVIAL


_CONTROL = re.compile(
    r"<\|[a-z_]+\|>|<(?:fim_(?:prefix|middle|suffix|pad)|file_sep)>|<｜[^｜\n]*｜>|▁<(?:PRE|SUF|MID|EOT)>|\x00|\ufffd"
)
_FENCE = re.compile(r"^[ \t]*```[\w+-]*[ \t]*$", re.MULTILINE)
_SHORTEST_LOOP = 3  # equal runs of lines in a row that make a loop
_LEAST_ROUNDS, _LONGEST_ROUND = (
    8,
    40,
)  # equal pieces in a row at the end of a line that make a loop, and the longest piece


_TELLING = 40  # characters of a block's distinct lines that hardly repeat by chance
_LINES_ABOVE = 60
_ENTRIES = 3
_BELOW = 3
_HALF_TYPED = 8
_OPEN_ENDS = tuple("=.+-*/%&|^")  # signs after which a line continues
_NAMES_ALONE = re.compile(r"\s*(?:[\w$]*$|(?:import|from|use|using|case|package)\b)")
"""Lines with little more than a name, which may begin another name."""
_ENDS = frozenset({"end", "end;", "end,", "end)", "fi", "done", "esac", "endif", "#endif"})
_DATA = frozenset({"css", "json", "jsonc", "less", "scss", "sql", "toml", "xml", "yaml"})
"""Languages whose texts are rows of like entries."""
_CLOSING_TAG = re.compile(r"</[\w:.-]*>")


def control_text(text: str, around: TextAround) -> str:
    """`text` up to a spelt-out control token, unless the document itself contains it."""
    for match in _CONTROL.finditer(text):
        if match[0] not in around.near_before and match[0] not in around.near_after:
            whole = around.left + text[: match.start()]
            return without_bare_comment(whole, around.language)[len(around.left) :]
    return text


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


def repetition(text: str, around: TextAround) -> str:
    """`text` up to where a loop begins its second round, or repeats the block right above or below."""
    lines = (around.left + text).split("\n")
    for period in range(1, len(lines) // _SHORTEST_LOOP + 1):
        tail = lines[len(lines) - period :]
        rounds = 1
        while len(lines) >= period * (rounds + 1) and lines[-period * (rounds + 1) :][:period] == tail:
            rounds += 1
        if rounds >= _SHORTEST_LOOP and "".join(tail).strip(" \t)]};,"):
            return "\n".join(lines[: len(lines) - period * (rounds - 1)])[len(around.left) :]
    first = _first_repeated(lines, around)
    if first is not None:
        return "\n".join(lines[:first])[len(around.left) :].rstrip() if first else ""
    return _within_line(text)


def _first_repeated(lines: list[str], around: TextAround) -> int | None:
    """The first of `lines`, from the cursor's on, that begins a repetition; None if there is none."""
    above = around.near_before[-NEAR:].split("\n")[:-1][-_LINES_ABOVE:]
    whole = [line.rstrip() for line in (*above, *lines)]
    found = [
        *_blocks_again(whole, len(above)),
        *_entries_again(whole, len(above), around),
        *_below_again(whole[len(above) :], around),
        *_typed_above_again(whole[len(above) :], around),
    ]
    return min(found, default=None)


def _blocks_again(whole: list[str], cursor: int) -> Iterator[int]:
    """Lines, counted from the cursor's, that begin a block equal to the block right before it."""
    places = defaultdict[str, list[int]](list)
    periods = set[int]()
    for at, line in enumerate(whole):
        if any(map(str.isalnum, line)):
            periods |= {at - before for before in places[line]} if at >= cursor else set()
            places[line].append(at)
    for period in periods - {1}:
        run = 0
        for at in range(max(cursor, period), len(whole)):
            run = run + 1 if whole[at] == whole[at - period] else 0
            if run == period and _is_distinctive(whole[at - run + 1 : at + 1]):
                yield at - run + 1 - cursor
                break


def _entries_again(whole: list[str], cursor: int, around: TextAround) -> Iterator[int]:
    """Lines that begin to repeat a list's entries, in their order, inside the same bracket."""
    if not around.head.openers or around.head.comment or around.head.quote:
        return
    opened = around.near_before.count("\n", around.head.openers[-1][0]) + 1
    own = width(indent(whole[cursor]))
    entries, first = whole[max(cursor - opened + 1, 0) :], min(cursor, opened - 1)
    for at in range(first, len(entries) - _ENTRIES + 1):
        said = entries[at : at + _ENTRIES]
        if entries[at].strip() and width(indent(entries[at])) < own:
            return  # the bracket is closed
        code = [line for line in said if not is_comment(line, around.language)]
        if any(width(indent(line)) != own for line in said) or not _is_distinctive(code):
            continue
        if not all(line.endswith(",") for line in code[:-1]):
            continue  # statements of a block in braces
        if any(entries[one : one + _ENTRIES] == said for one in range(at - _ENTRIES + 1)):
            yield at - first
            return


def _below_again(lines: list[str], around: TextAround) -> Iterator[int]:
    """The cursor's line, if it and the next ones are the lines right below, however the text continues.

    In data, entries often differ by a name only: there, a text may leave the entry and begin another one.
    """
    if around.left.strip() or (around.right.strip() and not around.closing):
        return
    said, below = ([line.rstrip() for line in side if line.strip()] for side in (lines, around.below))
    block = list(takewhile(lambda line: any(map(str.isalnum, line)), below[:_BELOW]))
    if not block or said[: len(block)] != block or not _is_distinctive(block):
        return
    leaves = any(width(indent(line)) < width(indent(said[0])) for line in said[len(block) :])
    if not (leaves and around.language in _DATA):
        yield 0


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
    in_word = _wordy(line[-1]) and _wordy(rest[0])
    return in_word and language in KNOWN and _NAMES_ALONE.match(line) is None


def _is_distinctive(lines: Sequence[str]) -> bool:
    """Whether lines are too distinctive to be repeated on purpose."""
    words = {line.strip() for line in lines if any(map(str.isalnum, line))}
    return len(words) > 1 and sum(map(len, words)) >= _TELLING


def _within_line(text: str) -> str:
    """`text` without a loop at the end of its last line: eight or more rounds of two or more characters."""
    start = text.rfind("\n") + 1
    for length in range(2, min(_LONGEST_ROUND, (len(text) - start) // _LEAST_ROUNDS) + 1):
        unit = text[-length:]
        rounds = 1
        while text.endswith(unit, start, len(text) - rounds * length):
            rounds += 1
        if rounds >= _LEAST_ROUNDS and len(set(unit.strip())) > 1:
            # The loop may end in the middle of a round, so rounds are counted from the start of the first one.
            first = len(text) - rounds * length
            while first > start and text[first - 1] == text[first - 1 + length]:
                first -= 1
            return text[: first + length]
    return text


def rubbish(text: str, around: TextAround) -> bool:
    """Whether `text` adds nothing: blanks, the rest of the line, or a copy of the line below or above."""
    said = text.strip()
    if not said:
        return True
    right = around.right.strip()
    if right and said == right:
        return True
    below = next((line for line in around.below if line.strip()), "")
    if around.left.strip():
        return False
    if _CLOSING_TAG.fullmatch(said):  # the line below closes an outer element, unless it is as deep
        return said == below.strip() and width(indent(below)) >= width(around.left)
    return said in {below.strip(), around.above.strip()} and not _structural(said)


def _structural(line: str) -> bool:
    """Whether a line may occur twice in a row: signs alone, `end`."""
    return not any(map(str.isalnum, line)) or line in _ENDS


Rule = Callable[[str, TextAround], str]
_RULES: tuple[Rule, ...] = (control_text, fence, repetition, indentation, overlap, balance)
_ROUNDS = 8
_TRAILING = re.compile(r"(?<![^\S\n])[^\S\n]++(?=\n)")


def finish(raw: str, before: str, after: str, language: str) -> str:
    """The text to insert between `before` and `after`.

    It does not repeat the text that follows, is indented like the document, closes its own brackets and no more, has no
    trailing blanks, and is empty rather than rubbish. Idempotent. `raw`: the model's output, up to the end that the
    stop rule found. `language`: the document's LSP language id.
    """
    return finish_at(raw, TextAround(before, after, language))


def finish_at(raw: str, around: TextAround) -> str:
    """`finish` for a text around the cursor that is already read."""
    text = raw.replace("\r\n", "\n").replace("\r", "\n")
    for _ in range(_ROUNDS):
        finished = _once(text, around)
        if finished == text:
            return text
        text = finished
    return ""


def whole_lines(text: str, before: str) -> str:
    """An incomplete `text` up to its last complete line; a single incomplete line loses its last word."""
    lines, newline, rest = text.rpartition("\n")
    if newline and (lines.strip() or not before.rpartition("\n")[2].strip()):
        return lines
    return text[: len(text) - len(re.split(r"\W", rest)[-1])].rstrip() if rest else text


def _once(text: str, around: TextAround) -> str:
    for rule in _RULES:
        text = rule(text, around)
    text = _without_trailing_blanks(text, around)
    return "" if rubbish(text, around) else text


def _without_trailing_blanks(text: str, around: TextAround) -> str:
    """`text` without blanks at line ends; before text right of the cursor one blank, or its new line, stays."""
    stripped = _TRAILING.sub("", text).rstrip()
    tail = text[len(text.rstrip()) :]
    _, newline, blanks = tail.rpartition("\n")
    if newline and stripped and around.right.strip() and not written_over(text, around):
        return f"{stripped}\n{blanks}"
    parted = tail.startswith(" ") and around.right[:1].strip() and around.closing[:1] in {"", "}", '"', "'", "`"}
    return stripped + " " if stripped and parted else stripped
