"""`bench trained` at work: tokens a pass, guesses accepted, speed, and quality, before tuning and after.

Owns the order of the measurements and the report. Counts are of `forward_counts`, speed is measured in interleaved
pairs as in `bench decode`, answers are asked for as in `bench quality`, and tests run in `sandbox`.
"""

import argparse
import gzip
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fastcoder_lsp import engine as engines
from fastcoder_lsp import model as models
from fastcoder_lsp.bench import infilling, repoeval, sandbox
from fastcoder_lsp.bench.arms import ARMS, Question, prompt_of
from fastcoder_lsp.bench.data import data_folder, require
from fastcoder_lsp.bench.decode import Pair, figures, run_once
from fastcoder_lsp.bench.forward_counts import count_accepted, count_jacobi, distinct_share
from fastcoder_lsp.bench.report import print_table, write_json
from fastcoder_lsp.bench.scores import Mean, paired
from fastcoder_lsp.config import cache_folder
from fastcoder_lsp.core import Engine
from fastcoder_lsp.decode.loop import DecodeRequest, decode
from fastcoder_lsp.draft.none import NoDrafter
from fastcoder_lsp.draft.registry import DrafterParts, make
from fastcoder_lsp.draft.trained import Trained, load_trained
from fastcoder_lsp.errors import UsageError
from fastcoder_lsp.model import ModelFiles
from fastcoder_lsp.model.tuned import read_record
from fastcoder_lsp.prompt import allowed
from fastcoder_lsp.tokenizer import Tokenizer
from fastcoder_lsp.workspace.corpus_files import texts_of

CONTEXT = 2048
PROMPT_TOKENS = 512
LINE_TOKENS = 64
DISTINCT_LEAST = 0.7
"""Outputs below it loop, which flatters every drafter: they are counted apart."""


@dataclass(frozen=True, slots=True)
class Loaded:
    """One model with its engine, and what it was tuned for."""

    files: ModelFiles
    tokenizer: Tokenizer
    engine: Engine
    trained: Trained

    def request(
        self, prompt: tuple[int, ...], tokens: int, cut: Callable[[str], int | None], healing: bytes = b""
    ) -> DecodeRequest:
        """A decode of `tokens` at most."""
        tokenizer = self.tokenizer
        return DecodeRequest(
            prompt=prompt,
            max_tokens=tokens,
            end_ids=tokenizer.end_ids,
            piece=tokenizer.piece,
            allow=lambda remaining: allowed(tokenizer, remaining),
            cut=cut,
            healing=healing,
        )


def run(arguments: argparse.Namespace) -> int:
    """Run the command."""
    tuned = models.find(arguments.model, cache_folder())
    record = read_record(tuned.folder, tuned.digest)
    if record is None:
        raise UsageError(
            f"{tuned.name} was not tuned by `fastcoder-lsp train`", "Name the folder that train wrote: OUT/model."
        )
    results: dict[str, Any] = {"record": {"method": record.method, "base": record.base, "figures": record.figures}}
    for side, name in (("before", arguments.before), ("after", arguments.model)):
        if name:
            results[side] = _measure(models.find(name, cache_folder()), arguments)
    if "before" in results and results["before"]["digest"] != record.base_digest:
        results["note"] = "the model before is not the one that was tuned"
    _tell(results)
    if arguments.json:
        settings = {name: str(value) for name, value in vars(arguments).items() if name != "run"}
        write_json(arguments.json, "trained", settings, results)
    return 0


def _measure(files: ModelFiles, arguments: argparse.Namespace) -> dict[str, Any]:
    """All figures of one model."""
    tokenizer = Tokenizer.load(files.folder)
    engine = engines.load(
        files.folder,
        name=files.name,
        source=files.source,
        digest=files.digest,
        options=engines.EngineOptions(kind=arguments.engine, context=CONTEXT, threads=None),
        cache=cache_folder(),
        progress=lambda _share, _what: None,
    )
    loaded = Loaded(files, tokenizer, engine, load_trained(files.folder, files.digest))
    try:
        found: dict[str, Any] = {"model": files.name, "digest": files.digest, "engine": engine.info.name}
        parts = arguments.parts.split(",")
        if "counts" in parts:
            found |= _counts(loaded, arguments)
        if "speed" in parts:
            found["speed"] = _speed(loaded, arguments)
        if "exact" in parts:
            found["exact"] = _exact(loaded, arguments)
        if "functional" in parts:
            found["functional"] = _functional(loaded, arguments)
    finally:
        engine.close()
    return found


def _requests(loaded: Loaded, arguments: argparse.Namespace) -> list[DecodeRequest]:
    """What is decoded for counts and speed: functions of RepoEval, or places in the user's own files."""
    prompts: list[tuple[int, ...]] = []
    if arguments.data or data_folder() is None:
        sources = [Path(source) for source in arguments.data or ()]
        if not sources:
            raise UsageError("there are no benchmark tasks on this machine", "Name folders of code with --data.")
        for _, text in texts_of(sources):
            ids = loaded.tokenizer.encode(text)
            if len(ids) > 2 * arguments.tokens:
                start = len(ids) // 2
                prompts.append(tuple(ids[max(0, start - PROMPT_TOKENS) : start]))
    else:
        tasks = repoeval.load(require("repoeval"))
        prompts = [
            tuple(repoeval.prompt(loaded.tokenizer, tasks.before(task))[-PROMPT_TOKENS:]) for task in tasks.tasks
        ]
    count = min(arguments.limit, len(prompts))
    chosen = [prompts[place * len(prompts) // count] for place in range(count)]
    return [loaded.request(prompt, arguments.tokens, lambda _text: None) for prompt in chosen]


def _counts(loaded: Loaded, arguments: argparse.Namespace) -> dict[str, Any]:
    """Fast-forward and stationary tokens for each n, guesses accepted for each k; loops are left out."""
    requests = _requests(loaded, arguments)
    outputs = [decode(loaded.engine, NoDrafter(), request, lambda: False).tokens for request in requests]
    lively = [
        request for request, output in zip(requests, outputs, strict=True) if distinct_share([output]) >= DISTINCT_LEAST
    ]
    found: dict[str, Any] = {
        "outputs": len(outputs),
        "outputs_that_loop": len(outputs) - len(lively),
        "distinct_4_grams": distinct_share(outputs),
        "jacobi": {},
        "sdsat": {},
    }
    for block in map(int, arguments.blocks.split(",")):
        count = count_jacobi(loaded.engine, lively, block)
        found["jacobi"][block] = {"fast_forward": count.fast_forward, "stationary": count.stationary_mean}
    for k in map(int, arguments.ks.split(",")) if loaded.trained.adaptive else ():
        accepted = count_accepted(loaded.engine, lively, loaded.trained.adaptive, k)
        found["sdsat"][k] = {
            "accepted": accepted.accepted,
            "tokens_a_pass": accepted.tokens_a_pass,
            "histogram": dict(sorted(accepted.histogram.items())),
        }
    return found


def _speed(loaded: Loaded, arguments: argparse.Namespace) -> dict[str, Any]:
    """Each drafter against plain decoding, in interleaved pairs."""
    names = [name for name in arguments.drafters.split(",") if name != "sdsat" or loaded.trained.adaptive]
    parts = DrafterParts(piece=loaded.tokenizer.piece, trained=loaded.trained)
    pairs: dict[str, list[Pair]] = {name: [] for name in names}
    for place, request in enumerate(_requests(loaded, arguments)):
        for name in names:
            plain = run_once(loaded.engine, NoDrafter(), request)
            drafted = run_once(loaded.engine, make(name, parts), request)
            if plain.emitted:
                pairs[name].append(Pair(str(place), plain, drafted))
    return {name: figures(of_name) for name, of_name in pairs.items() if of_name}


def _exact(loaded: Loaded, arguments: argparse.Namespace) -> dict[str, float]:
    """Task → 1 where the missing line of a program was said exactly, of single-line infilling."""
    cases = infilling.load(require("humaneval_infilling"), "start")
    found = {}
    for case in _spread(cases, arguments.quality_limit):
        text = _answer(loaded, case.before, case.after)
        found[case.id] = float(text.rstrip() == case.expected)
    return found


def _functional(loaded: Loaded, arguments: argparse.Namespace) -> dict[str, float]:
    """Task → 1 where the program with the model's line passes its tests."""
    path = require("humaneval_infilling") / infilling.FILE
    rows = [json.loads(line) for line in gzip.decompress(path.read_bytes()).decode().splitlines()]
    found = {}
    for row in _spread(rows, arguments.quality_limit):
        line = _answer(loaded, row["prompt"], "\n" + row["suffix"])
        program = f"{row['prompt']}{line}\n{row['suffix']}\n{row['test']}\ncheck({row['entry_point']})\n"
        found[row["task_id"]] = float(sandbox.passes(program))
    return found


def _answer(loaded: Loaded, before: str, after: str) -> str:
    """The line that the model puts between `before` and `after`, asked as the product asks."""
    prompt = prompt_of(ARMS["anchored"], loaded.tokenizer, Question("", before, after))
    request = loaded.request(prompt.tokens, LINE_TOKENS, _line_end, prompt.healing)
    return decode(loaded.engine, NoDrafter(), request, lambda: False).text


def _line_end(text: str) -> int | None:
    end = text.find("\n")
    return end if end >= 0 else None


def _spread(rows: Sequence[Any], limit: int) -> list[Any]:
    count = min(limit, len(rows))
    return [rows[place * len(rows) // count] for place in range(count)]


def _tell(results: Mapping[str, Any]) -> None:
    """Short tables."""
    sides = [side for side in ("before", "after") if side in results]
    if "note" in results:
        print(f"Note: {results['note']}.")  # noqa: T201 a benchmark's result
    rows: list[tuple[object, ...]] = []
    for side in sides:
        found = results[side]
        for block, count in found.get("jacobi", {}).items():
            rows.append((f"{side}: jacobi n={block}", count["fast_forward"], count["stationary"], ""))
        for k, count in found.get("sdsat", {}).items():
            rows.append((f"{side}: sdsat k={k}", count["tokens_a_pass"], "", count["accepted"]))
    if rows:
        loops = ", ".join(f"{side} {results[side]['distinct_4_grams']:.2f}" for side in sides)
        print_table(
            f"Counts; distinct 4-grams: {loops}", ("what", "tokens a pass", "stationary", "accepted of k"), rows
        )
    speeds = [
        (f"{side}: {name}", r["plain_ms_per_token"], r["ms_per_token"], r["speedup"], r["mat"], r["identical"])
        for side in sides
        for name, r in results[side].get("speed", {}).items()
    ]
    if speeds:
        print_table("Speed", ("drafter", "plain ms/token", "ms/token", "speed-up", "MAT", "identical"), speeds)
    for measure in ("exact", "functional"):
        scored = {side: results[side][measure] for side in sides if measure in results[side]}
        means = {side: Mean.of(list(values.values())) for side, values in scored.items()}
        lines = [(side, 100 * mean.mean, 100 * mean.standard_error, mean.tasks) for side, mean in means.items()]
        if len(scored) == 2 and (change := paired(scored["before"], scored["after"])) is not None:
            lines.append(("change", 100 * change.mean, 100 * change.standard_error, change.tasks))
        if lines:
            print_table(f"Single-line infilling, {measure}, percent", ("model", "mean", "s.e.", "tasks"), lines)
