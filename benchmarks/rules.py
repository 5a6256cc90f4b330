"""Published rules of quality benchmarks: how each asks a model, cuts its answer and compares it.

A rule is the authors' script, told anew: the prompt's bytes, the greedy answer's length and the comparison are
theirs, quirks included, so that a figure made here can stand beside a published one. Answers end early where no later
text can change the score.

Sources, read in November 2026: QwenLM/Qwen2.5-Coder at d5ead97 (`qwencoder-eval/base/benchmarks/fim-bench`),
amazon-science/cceval at 25f9cab (`scripts/eval.py`, `eval_utils.py`), microsoft/CodeT at 35f54d6
(`RepoCoder/compute_score.py`) and 08e8cc8 (`codegen_inference.py`).
"""

import difflib
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

from benchmarks.datasets.published import PublishedTask
from benchmarks.harness import edit_similarity
from fastcoder_lsp.errors import UsageError
from fastcoder_lsp.prompt import Template, template_of
from fastcoder_lsp.tokenizer import Tokenizer

Scores = Mapping[str, float]
"""Measure → score from 0 to 1."""
Cut = Callable[[str], int | None]
"""Where an answer may end: the length to keep once nothing later counts, else None (`DecodeRequest.cut`)."""
_CUT_AT = ("<|fim_pad|>", "<|file_sep|>")
"""Marks at which Qwen's scripts for whole repositories cut an answer."""


@dataclass(frozen=True, slots=True)
class PublishedRule:
    """How a published script asks and compares.

    Attributes:
        cut: where the answer to a task may end.
        score: of a task and the answer to it.
        needs: packages that the comparison takes.
    """

    name: str
    tokens: int
    context: int
    prompt: Callable[[Tokenizer, PublishedTask], tuple[int, ...]]
    cut: Callable[[PublishedTask], Cut]
    score: Callable[[PublishedTask, str], Scores]
    words: str
    needs: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class PromptBudget:
    """Tokens that Qwen's `prepare_prompt` keeps: the last `left` before, the first `right` after, `found` of others."""

    left: int
    right: int
    found: int = 0


FILE = PromptBudget(2048 - 64 - 512, 512)
REPOSITORY = PromptBudget(8192 - 50 - 2048 - 2048, 2048, 2048)


def infill_parts(tokenizer: Tokenizer, task: PublishedTask, window: PromptBudget) -> tuple[str, str]:
    """The texts before and behind the suffix mark, each cut by tokens and decoded again."""

    def kept(text: str, part: slice) -> str:
        return tokenizer.decode(tokenizer.encode(text)[part])

    behind = kept(task.after, slice(window.right))
    if window.found:
        behind += kept(f"\n\n{task.found}", slice(window.found))
    return kept(task.before, slice(-window.left, None)), behind


def infill_marks(tokenizer: Tokenizer) -> Template:
    """The model's marks for infilling. Qwen's scripts write the prefix first, whichever order a model was taught.

    Raises:
        UsageError: the model has none.
    """
    marks = template_of(tokenizer)
    if not marks.prefix:
        raise UsageError("this model has no marks for infilling", "Take another model, or the rule 'official'.")
    return marks


def infill_prompt(tokenizer: Tokenizer, task: PublishedTask, window: PromptBudget) -> tuple[int, ...]:
    """The ids of `prefix mark, before, suffix mark, behind, middle mark`, or in the order that the family knows."""
    marks, control = infill_marks(tokenizer), tokenizer.control
    before, behind = infill_parts(tokenizer, task, window)
    first, second, *last = (control[mark] for mark in marks.marks)
    one, two = marks.in_order(before, behind)
    return (*tokenizer.start_ids, first, *tokenizer.encode(one), second, *tokenizer.encode(two), *last)


def written_marks(tokenizer: Tokenizer) -> Mapping[int, bytes]:
    """Control tokens that stand in an answer as text, by id: the tokenizers of these models call them not special."""
    marks = template_of(tokenizer)
    names = {marks.prefix, marks.suffix, marks.middle, marks.repository, marks.file, *_CUT_AT}
    return {tokenizer.control[name]: name.encode() for name in names if name in tokenizer.control}


def fuzz_ratio(left: str, right: str) -> float:
    """`fuzzywuzzy.fuzz.ratio` over 100, as the package by itself computes it: by difflib, rounded to a hundredth.

    With python-Levenshtein beside it, which none of the scripts' requirements name, it counts matching characters
    otherwise, and a mean may differ by a point.
    """
    if left == right:
        return 1.0
    if not left or not right:
        return 0.0
    return round(100 * difflib.SequenceMatcher(None, left, right).ratio()) / 100


# HumanEval-FIM, `hm_fim/humaneval_fim.py`.


def _begins_below(text: str) -> bool:
    """Whether the answer is its second line: most prompts lost the newline before the line that is asked for."""
    return text.startswith(("\n", " \n"))


def line_cut(text: str) -> int | None:
    """The end of the line that counts."""
    first = text.find("\n")
    end = text.find("\n", first + 1) if _begins_below(text) else first
    return end if end >= 0 else None


def score_line(task: PublishedTask, answer: str) -> Scores:
    """The line that counts, stripped, against the line as it was written."""
    said = answer.split("\n")[1 if _begins_below(answer) else 0].strip()
    expected = task.expected.strip()
    return {"exact": float(said == expected), "edit_similarity": fuzz_ratio(said, expected)}


# CrossCodeEval and RepoEval, `eval_metric.py`.


def code_lines(text: str) -> list[str]:
    return [line for line in text.split("\n") if line.strip()]


def lines_cut(count: int, text: str) -> int | None:
    """The end of the `count`-th line that is not blank."""
    offset = 0
    for line in text.split("\n")[:-1]:
        count -= bool(line.strip())
        if count <= 0:
            return offset + len(line)
        offset += len(line) + 1
    return None


def code_tokens(code: str) -> list[str]:
    """Words split at signs and at humps, all quotes alike; blanks do not count."""
    code = re.sub(r"([^A-Za-z0-9_])", r" \1 ", code)
    code = re.sub(r"([a-z])([A-Z])", r"\1 \2", code)
    return re.sub(r"['\"]", "`", code).split()


def score_tokens(task: PublishedTask, answer: str) -> Scores:
    """As many lines as were written, compared by words. Both edit similarities of the script, for none was named."""
    for mark in _CUT_AT:
        answer = answer.partition(mark)[0]
    said = "\n".join(code_lines(answer)[: len(code_lines(task.expected))])
    stripped, expected = said.strip(), task.expected.strip()
    return {
        "exact": float(code_tokens(said) == code_tokens(task.expected)),
        "edit_similarity": fuzz_ratio(stripped, expected),
        "levenshtein_similarity": edit_similarity(stripped, expected),
    }


# CrossCodeEval's own, `scripts/eval.py` (model type codelm_cfc, greedy) and `eval_utils.py`.

_COMMENT = {"python": "#"}
_OFFICIAL_LENGTH, _OFFICIAL_FOUND, _OFFICIAL_TOKENS = 2048, 512, 50


def chunks_text(tokenizer: Tokenizer, task: PublishedTask, budget: int) -> str:
    """Pieces of other files as comments, in their order, as long as they fit the budget; "" for none."""
    sign = _COMMENT.get(task.language, "//")
    head = f"{sign} Here are some relevant code fragments from other files of the repo:\n\n"
    text, used = "", len(tokenizer.encode(head))
    for chunk in task.chunks:
        lines = "\n".join(f"{sign} {line}" for line in chunk.text.split("\n") if line)
        piece = f"{sign} the below code fragment is found in {chunk.path}\n{lines}\n\n"
        used += len(tokenizer.encode(piece))
        if used > budget:
            break
        text += piece
    return head + text if text else ""


def continuing_prompt(tokenizer: Tokenizer, task: PublishedTask) -> tuple[int, ...]:
    """Pieces of other files, then the text before, its last tokens if there are more; nothing of the text after."""
    found = tokenizer.encode(chunks_text(tokenizer, task, _OFFICIAL_FOUND))[:_OFFICIAL_FOUND]
    room = _OFFICIAL_LENGTH - _OFFICIAL_TOKENS - len(found) - len(tokenizer.start_ids)
    return (*tokenizer.start_ids, *found, *tokenizer.encode(task.before)[-room:])


def statement_cut(task: PublishedTask, text: str) -> int | None:
    """The end of the first statement.

    Python: the first newline up to which prompt and answer parse. Else: the first of `;`, `{` and `}`, unless it is
    the very first character, which the script takes for none.
    """
    if task.language != "python":
        end = next((place for place, sign in enumerate(text) if sign in ";{}"), 0)
        return end + 1 if end else None
    parses = _python_parser()
    for match in re.finditer("\n", text):
        if match.start() and parses(task.before + text[: match.start()]):
            return match.start()
    return None


@cache
def _python_parser() -> Callable[[str], bool]:
    """Whether tree-sitter's tree of Python code holds no error."""
    import tree_sitter_python
    from tree_sitter import Language, Parser

    parser = Parser(Language(tree_sitter_python.language()))

    def faulty(node: Any) -> bool:
        # A missing node is an error to `has_error` but not to the script, which looks for the type alone.
        return bool(node.has_error) and (node.type == "ERROR" or any(faulty(child) for child in node.children))

    def parses(code: str) -> bool:
        try:
            return not faulty(parser.parse(code.encode()).root_node)
        except RecursionError:
            return False

    return parses


def without_comments(code: str) -> str:
    """Nothing from `#` or `//` to the line's end, in every language."""
    return re.sub(r"//.*", "", re.sub(r"#.*", "", code))


def score_statement(task: PublishedTask, answer: str) -> Scores:
    """The first statement without comments, its stripped lines equal to the written ones."""
    end = statement_cut(task, answer)
    said, expected = without_comments(answer[:end].rstrip() if end else answer), without_comments(task.expected)
    return {
        "exact": float(_stripped(said) == _stripped(expected)),
        "edit_similarity": fuzz_ratio(said.strip(), expected.strip()),
    }


def _stripped(code: str) -> list[str]:
    return [line.strip() for line in code_lines(code)]


# RepoEval's own, RepoCoder's `compute_score.py`.


def infile_prompt(tokenizer: Tokenizer, task: PublishedTask) -> tuple[int, ...]:
    """The text before, whose length the data set has limited, and the newline that it lacks."""
    return (*tokenizer.start_ids, *tokenizer.encode(f"{task.before}\n"))


def score_lines(task: PublishedTask, answer: str) -> Scores:
    """As many stripped lines as were written; 1 - Levenshtein / longer."""
    expected = [line.strip() for line in task.expected.splitlines() if line.strip()]
    said = [line.strip() for line in answer.splitlines() if line.strip()][: len(expected)]
    similar = edit_similarity("\n".join(said), "\n".join(expected))
    return {"exact": float(said == expected), "edit_similarity": similar}


def _as_many_lines(task: PublishedTask) -> Cut:
    # `splitlines` knows more ends of lines: RepoCoder's script may want more lines than Qwen's, never fewer.
    return partial(lines_cut, len([line for line in task.expected.splitlines() if line.strip()]))


_BY_TOKENS = PublishedRule(
    "qwen",
    50,
    8192,
    partial(infill_prompt, window=REPOSITORY),
    _as_many_lines,
    score_tokens,
    "Qwen's script: infilling with retrieval that saw the answer, as many lines as were written, compared by words",
)
_REPOCODER = PublishedRule(
    "official",
    100,
    4096,
    infile_prompt,
    _as_many_lines,
    score_lines,
    "RepoCoder's script: the file up to the line alone, as many lines as were written, stripped",
)
RULES: Mapping[tuple[str, str], PublishedRule] = {
    ("humaneval-fim", "qwen"): PublishedRule(
        "qwen",
        64,
        2048,
        partial(infill_prompt, window=FILE),
        lambda _: line_cut,
        score_line,
        "Qwen's script: infilling, the first line (the second, if the first is empty), stripped",
    ),
    ("crosscodeeval", "official"): PublishedRule(
        "official",
        _OFFICIAL_TOKENS,
        _OFFICIAL_LENGTH,
        continuing_prompt,
        lambda task: partial(statement_cut, task),
        score_statement,
        "CrossCodeEval's script: no suffix, retrieval by UniXcoder, the first statement without comments",
        ("tree_sitter", "tree_sitter_python"),
    ),
    ("crosscodeeval", "qwen"): _BY_TOKENS,
    ("repoeval-line", "official"): _REPOCODER,
    ("repoeval-line", "qwen"): _BY_TOKENS,
    ("repoeval-api", "official"): _REPOCODER,
    ("repoeval-api", "qwen"): _BY_TOKENS,
}
"""(suite, rule) → the rule. A suite's first one is its default."""
