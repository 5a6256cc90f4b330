"""Published rules by hand-worked cases, their files as they are fetched, and the gap taken apart."""

import io
import json
import tarfile
import zipfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from benchmarks import published, quality
from benchmarks.gap import KIND
from benchmarks.published import (
    FILE,
    RULES,
    FoundChunk,
    PromptBudget,
    PublishedRule,
    PublishedTask,
    chunks_text,
    infill_parts,
    written_marks,
)
from fastcoder_lsp.tokenizer import Tokenizer
from scripts import fetch_data
from tests.engine.tiny_models import make_model
from tests.prompt.toy_tokenizers import byte_level_json, of_family

LINE = PublishedTask("t", "python", "def f(x):", "", "    return x", "f")
FIM, TOKENS = RULES["humaneval-fim", "qwen"], RULES["crosscodeeval", "qwen"]
STATEMENT, REPOCODER = RULES["crosscodeeval", "official"], RULES["repoeval-line", "official"]


ANSWERS = (
    # The prompt lost its newline, and the answer begins with it; the script cuts at no mark.
    (FIM, "python", "    return x", "\n    return x\n    y", 1),
    (FIM, "python", "    return x", " \n    return x", 1),
    (FIM, "python", "    return x", "  \n    return x", 0),  # two blanks: the first line counts
    (FIM, "python", "    return x", "return x  \nmore", 1),
    (FIM, "python", "    return x", "\n\n    return x", 0),
    (FIM, "python", "    return x", "\n    return x<|fim_pad|>", 0),
    (FIM, "python", "    return x", "", 0),
    (TOKENS, "python", "f('x')", 'f("x")\nmore', 1),
    (TOKENS, "python", "a = 1\n\n  b = 2", "a=1\nb=2\nc", 1),
    (TOKENS, "python", "getName(a)", "get Name ( a )", 1),
    (TOKENS, "python", "a = 1", "\n\n  a = 1", 1),
    (TOKENS, "python", "a = 1", "a = 1<|fim_pad|> b", 1),
    (TOKENS, "python", "a = 1", "a = 1 # one", 0),
    (STATEMENT, "java", "int x = 1;", "int x = 1; // one\nint y;", 1),
    (STATEMENT, "java", "f(a, // first\n  b) {", "f(a,\nb) {\n}", 1),
    (STATEMENT, "csharp", "; x", "; x", 1),  # an end in the first place is none
    (STATEMENT, "typescript", "return x;", "return  x;", 0),
    (STATEMENT, "python", "x, 2)", "x, 2)  # why\ny", 1),
    (STATEMENT, "python", "[\n  x,\n])", "[\nx,\n])\nz = 1", 1),  # newlines inside brackets end nothing
    (STATEMENT, "python", "x)", "x)\n  y", 1),
    (STATEMENT, "python", "x)  // 2", "x)\n", 1),  # the script cuts at // in every language
    (REPOCODER, "python", "a = 1\nb = 2", " a = 1 \n\n b = 2\nc", 1),
    (REPOCODER, "python", "a = 1\nb = 2", "a = 1\nb =2", 0),
    (REPOCODER, "python", "a = 1\nb = 2", "a = 1", 0),
)


@pytest.mark.parametrize(("rule", "language", "expected", "answer", "exact"), ANSWERS)
def test_an_answer_is_exact(rule: PublishedRule, language: str, expected: str, answer: str, exact: int) -> None:
    if rule is STATEMENT and language == "python":
        pytest.importorskip("tree_sitter_python")
    task = replace(LINE, language=language, expected=expected, before="def f(x):\n    y = g(")
    assert rule.score(task, answer)["exact"] == exact


def test_prompts_are_the_scripts_bytes() -> None:
    tokenizer = of_family("Qwen2.5-Coder")
    task = replace(LINE, after="\nz = 1\n", found="# other\n", chunks=(FoundChunk("a.py", "x\n\ny"),))

    def text(rule_prompt: tuple[int, ...]) -> str:
        names = {id_: name for name, id_ in tokenizer.control.items()}
        return "".join(names.get(token) or tokenizer.decode([token]) for token in rule_prompt)

    marked = "<|fim_prefix|>def f(x):<|fim_suffix|>\nz = 1\n{}<|fim_middle|>"
    assert text(FIM.prompt(tokenizer, task)) == marked.format("")
    assert text(TOKENS.prompt(tokenizer, task)) == marked.format("\n\n# other\n")
    assert text(STATEMENT.prompt(tokenizer, task)) == (
        "# Here are some relevant code fragments from other files of the repo:\n\n"
        "# the below code fragment is found in a.py\n# x\n# y\n\ndef f(x):"
    )
    assert text(REPOCODER.prompt(tokenizer, task)) == "def f(x):\n"
    long = replace(task, before="word " * 3000, after="tail " * 3000)
    before, behind = infill_parts(tokenizer, long, FILE)
    assert (before, behind) == (
        tokenizer.decode(tokenizer.encode(long.before)[-1472:]),
        tokenizer.decode(tokenizer.encode(long.after)[:512]),
    )
    assert infill_parts(tokenizer, long, PromptBudget(4, 2, 3))[1] == (
        tokenizer.decode(tokenizer.encode(long.after)[:2]) + tokenizer.decode(tokenizer.encode("\n\n# other\n")[:3])
    )
    assert chunks_text(tokenizer, task, 5) == ""
    assert b"<|file_sep|>" in written_marks(tokenizer).values()
    assert tokenizer.control["<|endoftext|>"] not in written_marks(tokenizer)


HUMANEVAL = [
    {
        "name": f"humaneval-HumanEval_{number}_f.json-L{line}",
        "language": language,
        "prompt": f"def f(x):\n    y = {number}",
        "suffix": "    return y",
        "canonical_solution": f"    y += {line}",
        "tests": "",
    }
    for number in range(2)
    for line in range(2)
    for language in ("py", "js")
]
CROSSFILE: Mapping[str, Any] = {
    "prompt": "import a\n\na.",
    "groundtruth": "b()",
    "right_context": "\nc = 1\n",
    "crossfile_context": {"text": "# b", "list": [{"retrieved_chunk": "def b(): 0", "filename": "a.py", "score": 0.5}]},
    "metadata": {"task_id": "project_cc/1", "repository": "r", "file": "main.py"},
}
REPOCODERS = {
    "prompt": "import a",
    "metadata": {"task_id": "r/1", "ground_truth": "a.b()", "fpath_tuple": ["r", "x.py"], "line_no": 1},
}


def lines(*rows: Mapping[str, Any]) -> bytes:
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows).encode()


def packed_tar() -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:xz") as tar:
        for language in published.CROSSCODEEVAL_LANGUAGES:
            for name in ("oracle_bm25", "rg1_unixcoder_cosine_sim", "rg1_bm25"):
                entry = tarfile.TarInfo(f"./{language}/line_completion_{name}.jsonl")
                content = lines(CROSSFILE)
                entry.size = len(content)
                tar.addfile(entry, io.BytesIO(content))
    return packed.getvalue()


def packed_zip() -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        for level in ("line", "api"):
            archive.writestr(f"datasets/{level}_level_completion_2k_context_codex.test.jsonl", lines(REPOCODERS))
    return packed.getvalue()


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What `scripts/fetch_data.py --published` leaves, of made-up archives in the published form."""
    answers = {
        "fim_singleline.jsonl": lines(*HUMANEVAL),
        "crosscodeeval_data.tar.xz": packed_tar(),
        "datasets.zip": packed_zip(),
    }
    qwens = {**CROSSFILE, "full_right_context": "\nd\n", "crossfile_context": "# b\u2028"}
    folder = tmp_path_factory.mktemp("data")
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(
            fetch_data, "_download", lambda address: answers.get(address.rpartition("/")[2]) or lines(qwens)
        )
        fetch_data.fetch_published(folder)
        patched.setattr(fetch_data, "_download", None)  # what is there is not fetched again
        fetch_data.fetch_published(folder)
    return folder


@pytest.mark.parametrize(("suite", "rule"), RULES)
def test_what_is_fetched_is_read(data: Path, suite: str, rule: str) -> None:
    tasks = published.load(data, suite, rule)
    assert len({task.id for task in tasks}) == len(tasks)
    if suite == "humaneval-fim":
        assert {task.group for task in tasks if task.language == "python"} == {
            f"humaneval-HumanEval_{number}_f.json python" for number in range(2)
        }
        assert tasks[0].before.endswith("y = 0")
    elif rule == "qwen" and suite != "crosscodeeval":
        assert (tasks[0].after, tasks[0].found) == ("\nd\n", "# b\u2028")
    elif suite == "crosscodeeval":
        assert {task.language for task in tasks} == set(published.CROSSCODEEVAL_LANGUAGES)
        assert (tasks[0].found, tasks[0].chunks) == ("# b", (FoundChunk("a.py", "def b(): 0"),))
    else:
        assert (tasks[0].expected, tasks[0].group) == ("a.b()", "r/x.py")


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A random model with a toy tokenizer that has Qwen's marks."""
    description = byte_level_json(True, (*of_family("Qwen2.5-Coder").control,))
    folder = make_model(tmp_path_factory.mktemp("tiny"), "qwen2", vocab_size=Tokenizer(description).vocabulary)
    (folder / "tokenizer.json").write_text(description)
    return folder


def test_one_command_fills_the_tables(
    data: Path, tiny: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Engines, rules and languages in one report; transformers answers by itself, and answers are kept."""
    monkeypatch.setenv("FASTCODER_CACHE", str(tmp_path / "cache"))
    report = tmp_path / "report.json"
    options = quality.Options(
        model=str(tiny),
        tasks=data,
        suites="humaneval-fim",
        rule="qwen,product",
        engines=f"cpu-fp32,{KIND}",
        arms="anchored",
        answers=tmp_path / "answers.jsonl",
        json=report,
    )
    assert quality.run(options) == 0
    said = capsys.readouterr().out
    assert "rounding: cpu-fp32 − transformers" in said
    assert "No figures are published" in said
    found = json.loads(report.read_text())["suites"]["humaneval-fim"]
    assert found["tasks"] == {"python": 4, "javascript": 4, "all": 8}
    assert [(column["rule"], column["engine"]) for column in found["columns"]] == [
        ("qwen", "cpu-fp32"),
        ("product, anchored", "cpu-fp32"),
        ("qwen", KIND),
    ]
    monkeypatch.setattr(quality.AskedModel, "_decode", lambda *_: pytest.fail("every answer is kept"))
    assert quality.run(replace(options, languages="python", json=None)) == 0
