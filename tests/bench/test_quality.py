"""The quality benchmark: its tasks, its arithmetic, and that a stopped run goes on where it ended."""

import gzip
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.datasets import infilling
from benchmarks.harness import Answers, Mean, edit_similarity, key, paired
from benchmarks.quality import Suite, evaluate
from benchmarks.questions import InfillQuestion, RepositoryFiles, arm, prompt_of
from fastcoder_lsp.errors import UsageError
from fastcoder_lsp.prompt import Prompt
from tests.prompt.toy_tokenizers import of_family

ROWS = [
    {
        "task_id": f"t/{number}",
        "prompt": "def f(a):\n",
        "canonical_solution": f"    return a + {number}\n",
        "suffix": "x = 1\n",
    }
    for number in range(30)
]


@pytest.fixture
def tasks(tmp_path: Path) -> Path:
    """A folder with infilling tasks."""
    lines = "".join(json.dumps(row) + "\n" for row in ROWS)
    (tmp_path / infilling.FILE).write_bytes(gzip.compress(lines.encode()))
    return tmp_path


@pytest.mark.parametrize("cut", infilling.CUTS)
def test_cuts(tasks: Path, cut: infilling.Cut) -> None:
    """A cut loses nothing of the line, stands where its name says, and is the same every time."""
    cases = infilling.load(tasks, cut)
    assert cases == infilling.load(tasks, cut)
    assert len(cases) == len(ROWS)
    for case, row in zip(cases, ROWS, strict=True):
        assert case.before + case.expected == str(row["prompt"]) + str(row["canonical_solution"]).rstrip()
        assert case.after == "\nx = 1\n"
        left, right = case.before[-1].isalnum(), case.expected[0].isalnum()
        assert {"start": not left, "boundary": left != right, "word": left and right}[cut]


def test_absent_tasks(tmp_path: Path) -> None:
    """A folder without tasks is a clear error."""
    with pytest.raises(UsageError, match=infilling.FILE):
        infilling.load(tmp_path, "start")


def test_answers_survive_a_stop(tmp_path: Path) -> None:
    """What was answered is there after a stop, a half-written line at the end is not."""
    path = tmp_path / "deep" / "answers.jsonl"
    name = key("engine", Prompt((1, 2), b"a", "", "t"), "line")
    Answers(path).put(name, "text\nmore")
    with path.open("a") as file:
        file.write('{"key": "x", "te')
    assert Answers(path).get(name) == "text\nmore"
    assert Answers(path).get("x") is None
    assert name != key("engine", Prompt((1, 2), b"b", "", "t"), "line")


@given(st.lists(st.sampled_from([0.0, 1.0]), min_size=2, max_size=20))
def test_differences_are_paired(values: list[float]) -> None:
    """The difference of an arm to itself is 0 with no error; to its opposite, what the means say."""
    left = {str(index): value for index, value in enumerate(values)}
    assert paired(left, left) == Mean(0.0, 0.0, len(values))
    opposite = paired(left, {task: 1 - value for task, value in left.items()})
    assert opposite is not None
    assert opposite.mean == pytest.approx(1 - 2 * Mean.of(values).mean)
    assert paired(left, {}) is None


@given(st.text("ab\n", max_size=12), st.text("ab\n", max_size=12))
def test_edit_similarity(left: str, right: str) -> None:
    """Symmetric, 1 for equal texts only, 0 where nothing is shared."""
    assert edit_similarity(left, right) == edit_similarity(right, left)
    assert (edit_similarity(left, right) == 1) == (left == right)
    assert edit_similarity("aaa", "bbb") == 0


def test_known_edit_similarity() -> None:
    """kitten → sitting takes three edits of seven characters."""
    assert edit_similarity("kitten", "sitting") == pytest.approx(4 / 7)


def test_arms_ask_what_they_say() -> None:
    """Plain: all before the cursor stands before the suffix. Anchored: the typed lines stand after the middle mark."""
    question = InfillQuestion("q", "a = 0\n" * 4 + "b = 2\nc = 3\nd = 4\ne = fo", "\nz = 9\n")
    tokenizer = of_family("Qwen2.5-Coder")
    typed = {name: prompt_of(arm(name), tokenizer, question).typed for name in ("plain", "anchored+0", "anchored+3")}
    assert typed == {"plain": "", "anchored+0": "e =", "anchored+3": "b = 2\nc = 3\nd = 4\ne ="}


def test_the_arm_of_words_shows_other_files() -> None:
    """Its prompt holds the piece that has the words at the cursor; a name that means nothing is refused."""
    question = InfillQuestion(
        "q",
        "from lib import helper\nx = helper(",
        "\n",
        "main.py",
        RepositoryFiles("project", {"lib.py": "def helper(deep):\n    pass\n"}),
    )
    tokenizer = of_family("Qwen2.5-Coder")
    assert "def helper(deep)" in tokenizer.decode(prompt_of(arm("words"), tokenizer, question).tokens)
    assert "def helper" not in tokenizer.decode(prompt_of(arm("plain"), tokenizer, question).tokens)
    assert [arm(name).context_tokens for name in ("words", "words-400", "anchored+3")] == [600, 400, 0]
    for name in ("names", "words-", "plain+1"):
        with pytest.raises(UsageError):
            arm(name)


def test_evaluation() -> None:
    """Exact by the rest of the line, shown by what the product would insert, pairs over shared tasks only."""
    suite = Suite(
        "start", (InfillQuestion("a", "x = ", "\n"), InfillQuestion("b", "f(", ")\n")), {"a": "1", "b": "2"}, body=False
    )
    result = evaluate(suite, {"left": {"a": "1", "b": "2)"}, "right": {"a": "0"}})
    assert result["arms"]["left"]["exact"]["mean"] == 0.5
    assert result["arms"]["left"]["shown_exact"]["mean"] == 1.0
    exact = next(pair for pair in result["pairs"] if pair["measure"] == "exact")
    assert (exact["mean"], exact["tasks"]) == (-1.0, 1)
