"""Published suites of completion: their files, the rules by which their authors ask and compare, and printed figures.

A rule is the authors' script, told anew: the prompt's bytes, the greedy answer's length and the comparison are theirs,
quirks included, so that a figure made here can stand beside a published one. Answers end early where no later text can
change the score. `scripts/fetch_data.py --published` fetches the files.

Sources, read in November 2026: QwenLM/Qwen2.5-Coder at d5ead97 (`qwencoder-eval/base/benchmarks/fim-bench`),
amazon-science/cceval at 25f9cab (`scripts/eval.py`, `eval_utils.py`), microsoft/CodeT at 35f54d6
(`RepoCoder/compute_score.py`) and 08e8cc8 (`codegen_inference.py`).
"""

import difflib
import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any

from benchmarks.harness import edit_similarity
from fastcoder_lsp.errors import UsageError
from fastcoder_lsp.prompt import template_of
from fastcoder_lsp.tokenizer import Tokenizer

CROSSCODEEVAL_LANGUAGES = ("python", "java", "csharp", "typescript")
_SHORT = {"py": "python", "js": "javascript"}
"""MultiPL-E's names of languages."""
Scores = Mapping[str, float]
"""Measure → score from 0 to 1."""
EndOfAnswer = Callable[[str], int | None]
"""Where an answer may end: the length to keep once nothing later counts, else None (`DecodeRequest.cut`)."""
_CUT_AT = ("<|fim_pad|>", "<|file_sep|>")
"""Marks at which Qwen's scripts for whole repositories cut an answer."""


@dataclass(frozen=True, slots=True)
class FoundChunk:
    """Code of another file that the benchmark's retrieval found."""

    path: str
    text: str


@dataclass(frozen=True, slots=True)
class PublishedTask:
    """Code to write between `before` and `after`.

    Attributes:
        id: the authors', with the language where they need it to tell tasks apart.
        group: its file or problem, by which errors are clustered.
        found: code of other files as one text, as the benchmark wrote it into the prompt.
        chunks: the same in pieces.
    """

    id: str
    language: str
    before: str
    after: str
    expected: str
    group: str
    found: str = ""
    chunks: tuple[FoundChunk, ...] = ()


@dataclass(frozen=True, slots=True)
class SuiteFiles:
    """Files of a suite: language → path in the data folder; `read` makes a task of a row."""

    paths: Mapping[str, str]
    read: Callable[[Mapping[str, Any], str], PublishedTask]


@dataclass(frozen=True, slots=True)
class PublishedRule:
    """How a published script asks and compares; `cut`: where the answer to a task may end; `needs`: packages."""

    name: str
    files: SuiteFiles
    tokens: int
    prompt: Callable[[Tokenizer, PublishedTask], tuple[int, ...]]
    cut: Callable[[PublishedTask], EndOfAnswer]
    score: Callable[[PublishedTask, str], Scores]
    needs: tuple[str, ...] = ()


def _humaneval(row: Mapping[str, Any], _: str) -> PublishedTask:
    problem = str(row["name"]).rpartition("-L")[0]
    language = _SHORT.get(row["language"], row["language"])
    around, written = (row["prompt"], row["suffix"]), row["canonical_solution"]
    return PublishedTask(f"{row['name']} {language}", language, *around, written, f"{problem} {language}")


def _crosscodeeval(row: Mapping[str, Any], language: str) -> PublishedTask:
    """A row of CrossCodeEval, and of Qwen's RepoEval, which has the same form."""
    about, found = row["metadata"], row.get("crossfile_context") or ""
    pieces = [] if isinstance(found, str) else found.get("list") or []
    path = about.get("file") or about.get("fpath_tuple") or about["task_id"].rpartition("/")[0]
    return PublishedTask(
        f"{about['task_id']} {language}",
        language,
        row["prompt"],
        row.get("full_right_context", row.get("right_context", "")),
        row["groundtruth"],
        f"{about.get('repository', '')} {path if isinstance(path, str) else '/'.join(path)}",
        found if isinstance(found, str) else found["text"],
        tuple(FoundChunk(piece["filename"], piece["retrieved_chunk"]) for piece in pieces),
    )


def _repocoder(row: Mapping[str, Any], language: str) -> PublishedTask:
    about = row["metadata"]
    group = "/".join(about["fpath_tuple"])
    return PublishedTask(f"{about['task_id']} {language}", language, row["prompt"], "", about["ground_truth"], group)


def _rows(path: Path) -> Iterator[Mapping[str, Any]]:
    # Not `splitlines`: texts hold other ends of lines, which JSON does not escape.
    for line in path.read_text(encoding="utf-8").split("\n"):
        if line.strip():
            yield json.loads(line)


def load(folder: Path, suite: str, rule: str, languages: frozenset[str] = frozenset()) -> list[PublishedTask]:
    """The tasks of a suite by the files of a rule, in their order; of these languages, or of all for none.

    Raises:
        UsageError: a file is not in the folder, or is not the benchmark's.
    """
    source = RULES[suite, rule].files
    tasks: list[PublishedTask] = []
    for language, path in source.paths.items():
        if language and languages and language not in languages:
            continue
        try:
            tasks += [source.read(row, language) for row in _rows(folder / path)]
        except OSError as failure:
            raise UsageError(
                f"the data of {suite} by the rule '{rule}' is not there: {failure}",
                f"Run scripts/fetch_data.py --published {folder}, or name the folder that holds it: --data FOLDER",
            ) from failure
        except (ValueError, KeyError, TypeError, AttributeError) as failure:
            raise UsageError(
                f"{folder / path} is not in the form of {suite}: {type(failure).__name__}: {failure}",
                "Delete it, and run scripts/fetch_data.py --published again.",
            ) from failure
    kept = [task for task in tasks if not languages or task.language in languages]
    if not kept:
        known = ", ".join(sorted({*source.paths, *(task.language for task in tasks)} - {""}))
        raise UsageError(f"{suite} has no task in {', '.join(sorted(languages))}", f"Its languages: {known}")
    return kept


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


def infill_prompt(tokenizer: Tokenizer, task: PublishedTask, window: PromptBudget) -> tuple[int, ...]:
    """The ids of `prefix mark, before, suffix mark, behind, middle mark`, or in the order that the family knows.

    Raises:
        UsageError: the model has no marks for infilling.
    """
    marks, control = template_of(tokenizer), tokenizer.control
    if not marks.prefix:
        raise UsageError("this model has no marks for infilling", "Take another model, or the rule 'official'.")
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

_OFFICIAL_LENGTH, _OFFICIAL_FOUND, _OFFICIAL_TOKENS = 2048, 512, 50


def chunks_text(tokenizer: Tokenizer, task: PublishedTask, budget: int) -> str:
    """Pieces of other files as comments, in their order, as long as they fit the budget; "" for none."""
    sign = "#" if task.language == "python" else "//"
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


def score_statement(task: PublishedTask, answer: str) -> Scores:
    """The first statement without comments, its stripped lines equal to the written ones."""

    def plain(code: str) -> str:
        return re.sub(r"//.*", "", re.sub(r"#.*", "", code))  # both signs, in every language

    def stripped(code: str) -> list[str]:
        return [line.strip() for line in code_lines(code)]

    end = statement_cut(task, answer)
    said, expected = plain(answer[:end].rstrip() if end else answer), plain(task.expected)
    similar = fuzz_ratio(said.strip(), expected.strip())
    return {"exact": float(stripped(said) == stripped(expected)), "edit_similarity": similar}


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


def _as_many_lines(task: PublishedTask) -> EndOfAnswer:
    # `splitlines` knows more ends of lines: RepoCoder's script may want more lines than Qwen's, never fewer.
    return partial(lines_cut, len([line for line in task.expected.splitlines() if line.strip()]))


def _crosscodeeval_files(retrieval: str) -> SuiteFiles:
    paths = {name: f"crosscodeeval/{name}/line_completion_{retrieval}.jsonl" for name in CROSSCODEEVAL_LANGUAGES}
    return SuiteFiles(paths, _crosscodeeval)


def _by_tokens(files: SuiteFiles) -> PublishedRule:
    """Qwen's script: infilling with retrieval that saw the answer, as many lines as were written, by words."""
    prompt = partial(infill_prompt, window=REPOSITORY)
    return PublishedRule("qwen", files, 50, prompt, _as_many_lines, score_tokens)


def _by_repocoder(level: str) -> PublishedRule:
    """RepoCoder's script: the file up to the line alone, as many lines as were written, stripped."""
    paths = {"python": f"repoeval_lines/{level}_level_completion_2k_context_codex.test.jsonl"}
    return PublishedRule("official", SuiteFiles(paths, _repocoder), 100, infile_prompt, _as_many_lines, score_lines)


def _repoeval_files(level: str) -> SuiteFiles:
    return SuiteFiles({"python": f"repoeval_lines/python_{level}_completion_sparse_oracle.jsonl"}, _crosscodeeval)


RULES: Mapping[tuple[str, str], PublishedRule] = {
    ("humaneval-fim", "qwen"): PublishedRule(
        "qwen",
        SuiteFiles({"": "humaneval_fim/fim_singleline.jsonl"}, _humaneval),
        64,
        partial(infill_prompt, window=FILE),
        lambda _: line_cut,
        score_line,
    ),
    ("crosscodeeval", "official"): PublishedRule(
        "official",
        _crosscodeeval_files("rg1_unixcoder_cosine_sim"),
        _OFFICIAL_TOKENS,
        continuing_prompt,
        lambda task: partial(statement_cut, task),
        score_statement,
        ("tree_sitter", "tree_sitter_python"),
    ),
    ("crosscodeeval", "qwen"): _by_tokens(_crosscodeeval_files("oracle_bm25")),
    ("repoeval-line", "official"): _by_repocoder("line"),
    ("repoeval-line", "qwen"): _by_tokens(_repoeval_files("line")),
    ("repoeval-api", "official"): _by_repocoder("api"),
    ("repoeval-api", "qwen"): _by_tokens(_repoeval_files("api")),
}
"""(suite, rule) → the rule. A suite's first one is its default."""
SUITES = tuple(dict.fromkeys(suite for suite, _ in RULES))
