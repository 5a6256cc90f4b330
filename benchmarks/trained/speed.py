"""Tokens a pass, guesses accepted, and speed of one model, over the same prompts.

Counts are of `forward_counts`; speed is measured in interleaved pairs as in `bench decode`.
"""

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.common.requests import decode_request
from benchmarks.datasets import repoeval
from benchmarks.datasets.folder import data_folder, require
from benchmarks.datasets.spread import spread
from benchmarks.drafting.drafters import DrafterParts, make
from benchmarks.drafting.pairs import Pair, figures, run_once
from benchmarks.trained.forward_counts import count_accepted, count_jacobi, distinct_share
from benchmarks.trained.loaded import LoadedModel
from fastcoder_lsp.decode.loop import DecodeRequest, decode
from fastcoder_lsp.draft.none import NoDrafter
from fastcoder_lsp.errors import UsageError
from fastcoder_lsp.workspace.corpus_files import texts_of

PROMPT_TOKENS = 512
DISTINCT_LEAST = 0.7
"""Outputs below it loop, which flatters every drafter: they are counted apart."""


def requests_of(loaded: LoadedModel, arguments: argparse.Namespace) -> list[DecodeRequest]:
    """What is decoded for counts and speed: functions of RepoEval, or places in the user's own files."""
    prompts: list[tuple[int, ...]] = []
    if arguments.data or data_folder() is None:
        sources = [Path(source) for source in arguments.data or ()]
        if not sources:
            raise UsageError("there are no benchmark tasks on this machine", "Name folders of code with --data.")
        for _, text in texts_of(sources):
            ids = loaded.model.tokenizer.encode(text)
            if len(ids) > 2 * arguments.tokens:
                start = len(ids) // 2
                prompts.append(tuple(ids[max(0, start - PROMPT_TOKENS) : start]))
    else:
        tasks = repoeval.load(require("repoeval"))
        prompts = [
            tuple(repoeval.prompt(loaded.model.tokenizer, tasks.before(task))[-PROMPT_TOKENS:]) for task in tasks.tasks
        ]
    chosen = spread(prompts, arguments.limit)
    return [decode_request(loaded.model.tokenizer, prompt, arguments.tokens) for prompt in chosen]


def counts(loaded: LoadedModel, requests: Sequence[DecodeRequest], arguments: argparse.Namespace) -> dict[str, Any]:
    """Fast-forward and stationary tokens for each n, guesses accepted for each k; loops are left out."""
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


def speed(loaded: LoadedModel, requests: Sequence[DecodeRequest], drafters: Sequence[str]) -> dict[str, Any]:
    """Each drafter against plain decoding, in interleaved pairs."""
    names = [name for name in drafters if name != "sdsat" or loaded.trained.adaptive]
    parts = DrafterParts(piece=loaded.model.tokenizer.piece, trained=loaded.trained)
    pairs: dict[str, list[Pair]] = {name: [] for name in names}
    for place, request in enumerate(requests):
        for name in names:
            plain = run_once(loaded.engine, NoDrafter(), request)
            drafted = run_once(loaded.engine, make(name, parts), request)
            if plain.emitted:
                pairs[name].append(Pair(str(place), plain, drafted))
    return {name: figures(of_name) for name, of_name in pairs.items() if of_name}
