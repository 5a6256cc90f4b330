"""`bench quality` at work: asks the same tasks in several ways on several engines, and compares the answers pairwise.

Answers are kept, so a run that was stopped goes on where it ended, and arms can be added later.
"""

import argparse
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from benchmarks.common.answers import Answers
from benchmarks.quality.arms import ARMS, Arm, prompt_of
from benchmarks.quality.asked import LINE_TOKENS, AskedModel
from benchmarks.quality.evaluation import evaluate
from benchmarks.quality.suites import Suite, suites_of
from fastcoder_lsp.bench import report
from fastcoder_lsp.bench.model import find_model
from fastcoder_lsp.tokenizer import Tokenizer

OUTSIDE = "llama.cpp"
"""The name of answers that came from another program (--import)."""


def run(arguments: argparse.Namespace) -> int:
    """Run the benchmark."""
    model = find_model(arguments.model)
    arms = [ARMS[name] for name in arguments.arms.split(",")]
    suites = list(suites_of(arguments))
    if arguments.export:
        _export(arguments.export, suites, arms[0], model.tokenizer)
        return 0
    answers = Answers(arguments.answers or model.cache / "bench" / "quality.jsonl")
    given: dict[str, dict[str, dict[str, str]]] = {suite.name: {} for suite in suites}
    for kind in arguments.engines.split(","):
        asked = AskedModel(model, kind, answers)
        for suite in suites:
            for arm in arms:
                given[suite.name][f"{arm.name} {kind}"] = asked.ask(suite, arm)
        asked.close()
    if arguments.outside:
        _import(arguments.outside, given)
    results = {suite.name: evaluate(suite, given[suite.name]) for suite in suites}
    _print(results)
    if arguments.json:
        settings = {name: str(value) for name, value in vars(arguments).items() if name != "run"}
        report.write_json(arguments.json, "quality", settings, {"model": model.files.source, "suites": results})
    return 0


def _print(results: Mapping[str, Any]) -> None:
    rows = [
        [f"{suite} {column}", measure, score["tasks"], 100 * score["mean"], 100 * score["standard_error"]]
        for suite, result in results.items()
        for column, measures in result["arms"].items()
        for measure, score in measures.items()
    ]
    report.print_table("Quality, percent", ["suite, arm, engine", "measure", "tasks", "mean", "s.e."], rows)
    pairs = [
        [f"{suite} {pair['left']} → {pair['right']}", pair["measure"], 100 * pair["mean"], 100 * pair["standard_error"]]
        for suite, result in results.items()
        for pair in result["pairs"]
    ]
    if pairs:
        report.print_table("Differences, points", ["pair", "measure", "difference", "s.e."], pairs)


def _export(path: Path, suites: list[Suite], arm: Arm, tokenizer: Tokenizer) -> None:
    """Prompts for another program: a line each with suite, id, tokens, ends and max_tokens.

    Prompts with healing are left out: the other program cannot be held to it.
    """
    with path.open("w", encoding="utf-8") as file:
        for suite in suites:
            for question in suite.questions:
                prompt = prompt_of(arm, tokenizer, question)
                if prompt.healing or suite.body:
                    continue
                row = {"suite": suite.name, "id": question.id, "tokens": prompt.tokens, "max_tokens": LINE_TOKENS}
                file.write(json.dumps(row | {"ends": sorted(tokenizer.end_ids)}) + "\n")


def _import(path: Path, given: dict[str, dict[str, dict[str, str]]]) -> None:
    """Take in what another program said: lines with suite, id and text."""
    for line in path.read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        if row["suite"] in given:
            given[row["suite"]].setdefault(OUTSIDE, {})[row["id"]] = row["text"].partition("\n")[0]
