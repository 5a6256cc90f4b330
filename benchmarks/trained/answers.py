"""Quality of one model: missing lines said exactly, and programs with the model's line that pass their tests.

Answers are asked for as in `bench quality`; tests run in `sandbox`.
"""

import gzip
import json

from benchmarks.common.requests import decode_request, line_end
from benchmarks.datasets import infilling
from benchmarks.datasets.folder import require
from benchmarks.datasets.spread import spread
from benchmarks.quality.arms import ARMS, Question, prompt_of
from benchmarks.trained import sandbox
from benchmarks.trained.loaded import LoadedModel
from fastcoder_lsp.decode.loop import decode
from fastcoder_lsp.draft.none import NoDrafter

LINE_TOKENS = 64


def exact(loaded: LoadedModel, limit: int) -> dict[str, float]:
    """Task → 1 where the missing line of a program was said exactly, of single-line infilling."""
    cases = infilling.load(require("humaneval_infilling"), "start")
    found = {}
    for case in spread(cases, limit):
        text = _answer(loaded, case.before, case.after)
        found[case.id] = float(text.rstrip() == case.expected)
    return found


def functional(loaded: LoadedModel, limit: int) -> dict[str, float]:
    """Task → 1 where the program with the model's line passes its tests."""
    path = require("humaneval_infilling") / infilling.FILE
    rows = [json.loads(line) for line in gzip.decompress(path.read_bytes()).decode().splitlines()]
    found = {}
    for row in spread(rows, limit):
        line = _answer(loaded, row["prompt"], "\n" + row["suffix"])
        program = f"{row['prompt']}{line}\n{row['suffix']}\n{row['test']}\ncheck({row['entry_point']})\n"
        found[row["task_id"]] = float(sandbox.passes(program))
    return found


def _answer(loaded: LoadedModel, before: str, after: str) -> str:
    """The line that the model puts between `before` and `after`, asked as the product asks."""
    prompt = prompt_of(ARMS["anchored"], loaded.model.tokenizer, Question("", before, after))
    request = decode_request(loaded.model.tokenizer, prompt.tokens, LINE_TOKENS, cut=line_end, healing=prompt.healing)
    return decode(loaded.engine, NoDrafter(), request, lambda: False).text
