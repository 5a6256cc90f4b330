"""The drafting benchmarks' own arithmetic: where a body ends, what a replay accepts, what a recording keeps."""

import random
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import numpy as np
import pytest

from benchmarks.datasets import FunctionTask, TaskSet
from benchmarks.drafting import TaskParts, TaskStores
from benchmarks.drafting.traces import replay
from benchmarks.exactness import prompts
from fastcoder_lsp.decode.loop import DecodeRequest, decode
from fastcoder_lsp.draft.base import NoDrafter
from fastcoder_lsp.draft.registry import make, specifications
from fastcoder_lsp.errors import UsageError
from fastcoder_lsp.index.corpus import Corpora
from tests.draft.toys import RepetitiveEngine
from tests.index.toy_encoder import ToyEncoder

TRAITS = {name: known.traits for name, known in specifications().items()}


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


def test_exactness_names_the_size_of_files_that_it_needs() -> None:
    parts = cast("TaskParts", SimpleNamespace(tasks=TASKS))
    with pytest.raises(UsageError, match="more than 400 characters"):
        next(prompts(parts, 1, seed=0))


def test_common_code_is_that_of_the_corpora_that_are_named(tmp_path: Path) -> None:
    encoder, text = ToyEncoder(), "common code\n"
    Corpora(tmp_path).build("mine", (), [("a.py", text)], encoder)
    stores = TaskStores(encoder, TASKS, tmp_path, ["mine"])
    tokens = encoder.encode(text)
    assert stores.corpus_tokens() >= len(tokens)
    for pinned in (stores.common(), stores.pin(TASKS.tasks[0])):
        assert pinned.corpus is not None
        assert pinned.corpus.longest(tokens[:-1], len(tokens)) == (len(tokens) - 1, 1)
    assert TaskStores(encoder, TASKS, tmp_path, []).common().corpus is None
    with pytest.raises(UsageError, match="no corpus 'other'"):
        TaskStores(encoder, TASKS, tmp_path, ["other"]).common()
