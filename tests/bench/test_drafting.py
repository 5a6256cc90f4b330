"""The drafting benchmarks' own arithmetic: where a body ends, what a replay accepts, what a recording keeps."""

import json
import random
from dataclasses import replace
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from benchmarks import edit_passes
from benchmarks.datasets import EditCase, FunctionTask, RecordedAnswer, TaskSet, function_end
from benchmarks.draft import Replayed, blank_share, draw, positions, retrieved_share
from benchmarks.drafting import drafter_names
from benchmarks.drafting.traces import Recorder, Trace, replay
from fastcoder_lsp.core import Change, Engine
from fastcoder_lsp.decode.loop import DecodeRequest, decode
from fastcoder_lsp.draft.base import NoDrafter
from fastcoder_lsp.draft.registry import SPECIFICATIONS, make
from fastcoder_lsp.tokenizer import Tokenizer
from tests.draft.toys import RepetitiveEngine

PIECES = (b"x", b" y", b"\n", b"    ", b"\n\n", b"    z", b"(", b"\xc3\xa9")


class ToyTokenizer:
    """Eight tokens and an end."""

    identity = "toy"
    start_ids: tuple[int, ...] = ()
    end_ids = frozenset({8})
    vocabulary = 9

    def encode(self, text: str) -> list[int]:
        return [byte % 8 for byte in text.encode()]

    def piece(self, token: int) -> bytes:
        return PIECES[token] if token < len(PIECES) else b""

    def starting_with(self, prefix: bytes) -> npt.NDArray[np.int64]:
        return np.arange(9)


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("    return 1\n", None),
        ("    return 1\n\n\nd", "    return 1\n\n\n"),
        ("    if x:\n        y\n    z\n  q", "    if x:\n        y\n    z\n"),
        ("    x\n\n   ", None),
        ("\n\n    x\n  \n    y", None),
        ("x = 1\ny = 2\n", None),
        ("        x\n    ", None),
    ],
)
def test_a_body_ends_where_a_line_stands_further_left(text: str, kept: str | None) -> None:
    end = function_end(text)
    assert (None if end is None else text[:end]) == kept


TRAITS = {name: known.traits for name, known in SPECIFICATIONS.items()}


@pytest.mark.parametrize("name", [name for name, of in TRAITS.items() if not (of.top_k or of.layers or of.skims)])
def test_a_replay_takes_the_steps_that_decoding_takes(name: str) -> None:
    chance, engine = random.Random(4), RepetitiveEngine()
    for nodes in (2, 16, 64):
        prompt = tuple(chance.randrange(40) for _ in range(30))
        asked = DecodeRequest(
            prompt, 60, frozenset(), lambda _: b"w", lambda _: np.arange(40), lambda _: None, document="d", nodes=nodes
        )
        said = decode(engine, NoDrafter(), asked, lambda: False).tokens
        steps = replay(make(name), (prompt, said), nodes, "d", 40)
        decoded = decode(engine, make(name), asked, lambda: False)
        assert sum(step.emitted for step in steps) == len(said)
        assert len(steps) == decoded.counts.steps


TASKS = TaskSet(
    (
        FunctionTask("a", "r", "p.py", 5, 9),
        FunctionTask("b", "r", "p.py", 12, 15),
        FunctionTask("c", "r", "q.py", 1, 2),
    ),
    {"r": {"p.py": "def f():\n  body\n", "q.py": "xyz"}},
)


def test_the_body_is_in_no_index_and_no_prompt() -> None:
    text = TASKS.files["r"]["p.py"]
    task = TASKS.tasks[0]
    assert TASKS.before(task) == text[:5]
    assert TASKS.without_body(task) == text[:5] + "\n" + text[9:]


def recorder(cache: Path, engine: Engine | None) -> Recorder:
    def make_engine() -> Engine:
        assert engine is not None, "everything is recorded already"
        return engine

    tokenizer = ToyTokenizer()
    return Recorder(TASKS, tokenizer, make_engine, "model", cache)  # type: ignore[arg-type]


def test_a_recording_is_made_once_and_resumed(tmp_path: Path) -> None:
    """The paper's setting goes on where the product's ended; a second run needs no engine; a torn line is no loss."""
    task = TASKS.tasks[0]
    product = recorder(tmp_path, RepetitiveEngine(vocabulary=9)).trace(task, "product")
    paper = recorder(tmp_path, RepetitiveEngine(vocabulary=9)).trace(task, "paper")
    assert paper.tokens[: len(product.tokens)] == product.tokens
    assert len(paper.tokens) == 512 or paper.tokens[-1] == 8
    (file,) = (tmp_path / "bench").glob("traces-*.jsonl")
    with file.open("a") as lines:
        lines.write('{"key": "torn')
    again = recorder(tmp_path, None)
    assert again.trace(task, "product") == product
    assert again.trace(task, "paper") == paper


def test_figures_are_pooled_over_tasks() -> None:
    task = FunctionTask("t", "r", "p", 0, 0)
    loop = Trace(task, (1, 2), (3, 1, 2, 3, 1, 2, 3, 1, 2, 3))
    odd = Trace(FunctionTask("u", "r", "p", 0, 0), (1, 2), (5, 6))
    drafter = make("lookup")
    replayed = Replayed(drafter, {trace.task.id: replay(drafter, trace.text, 64, "", 40) for trace in (loop, odd)})
    figures = replayed.figures()
    assert figures["mat"] == pytest.approx(12 / (len(replayed.steps["t"]) + 2))
    assert figures["mat_median"] == pytest.approx((10 / len(replayed.steps["t"]) + 1) / 2)
    assert set(figures["draft_us"]) == {"p50", "p99"}
    assert json.dumps(figures)


def test_names_with_parameters_are_told_apart() -> None:
    names = drafter_names("lookup,fastcoder:merge=true,growth=2,rest,ablation")
    assert names[:3] == ["lookup", "fastcoder:merge=true,growth=2", "rest"]
    assert len(names) == 7


def test_a_heat_map_counts_by_place_in_the_line(tmp_path: Path) -> None:
    piece = ToyTokenizer().piece
    assert positions([0, 1, 2, 3, 0, 4, 0], piece) == [(0, 0), (0, 1), (0, 2), (1, 0), (1, 1), (1, 2), (3, 0)]
    trace = Trace(TASKS.tasks[0], (0, 1, 2), (0, 1, 2, 0, 1, 2, 0))
    steps = {"a": replay(make("lookup"), trace.text, 64, "", 9)}
    shares = retrieved_share([trace], steps, piece)
    assert (shares[0, 0], shares[0, 1]) == (0.0, 1.0)
    assert np.isnan(shares[5, 5])
    blank = blank_share([trace], piece)
    assert (blank[0, 0], blank[0, 2]) == (0.0, 1.0)
    pytest.importorskip("matplotlib")
    draw({"lookup": shares, "white <space>": blank}, tmp_path / "map.svg")
    assert (tmp_path / "map.svg").read_text().count("<svg") == 1


EDITED = """<|file_sep|>current/a.py:1:3
one = 1
two =<|cursor|> 2
<|file_sep|>updated/a.py:1:3
"""
"""A prompt of Sweep's, without its earlier parts."""


def test_recorded_answers_of_edit_models_are_replayed(model_folder: Path) -> None:
    """The old text is cut from the prompt; an answer that repeats it takes as many passes as it has rows."""
    tokenizer = Tokenizer.load(model_folder)
    answers = [RecordedAnswer(EDITED, "one = 1\ntwo = 2\n")]
    changes = (Change("a.py", 0, "a\n", "b\n"),)
    case = EditCase("c", "python", "a.py", "", 0, changes, True, (), None, {"m": answers, "other": answers})
    (trace,) = edit_passes.traces([case], "m", tokenizer)
    assert trace.tokens == (*trace.rewrite.old, *trace.rewrite.ends)
    steps = edit_passes.replay_edit("rewrite", trace, 4, tokenizer)
    full, rest = divmod(len(trace.tokens), 4)
    assert [step.emitted for step in steps] == [4] * full + [rest] * bool(rest)
    found = edit_passes.figures([steps, [replace(steps[0], emitted=1)] * 2])
    assert found["passes"] == len(steps) + 2
    assert found["tokens_a_pass"] == (len(trace.tokens) + 2) / (len(steps) + 2)
