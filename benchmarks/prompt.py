"""`bench prompt`: prompt tokens that a keystroke has to compute, without a model.

Types the recorded runs of real histories into the prompt builder, one character at a time, and compares each prompt
with the document's one before, as the KV cache does. A run's line is opened first, as a person does.
"""

import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from benchmarks.datasets import histories, require
from benchmarks.harness import Reported, percentiles, write
from benchmarks.typist import cursors
from fastcoder_lsp.bench.model import find_model
from fastcoder_lsp.bench.report import print_table
from fastcoder_lsp.cli.options import option
from fastcoder_lsp.core import Snapshot, at_once
from fastcoder_lsp.core.differences import common_prefix
from fastcoder_lsp.prompt import PromptBuilder, PromptOptions
from fastcoder_lsp.tokenizer import Tokenizer

EXAMPLE = "prompt --json prompt.json"
KINDS = ("line", "enter", "place", "file", "behind")
"""A character typed on a line; Enter between two lines of a run; the first prompt at another place of a known file; the
first prompt of a file; the whole prompt of a place whose first one was short, which no key waits for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Options(Reported):
    """Type recorded runs of real histories and count the prompt tokens that are not in the KV cache.

    Needs the model's tokenizer only.
    """

    model: str = option("the model whose tokenizer to use", "auto")
    limit: int | None = option("only the first N typed runs of each history", None, metavar="N")
    room: int | None = option("tokens that a first prompt may read (default: no limit)", None, metavar="N")


@dataclass(slots=True)
class KeystrokeCosts:
    """Tokens to prefill and milliseconds to build the prompt, of each keystroke by kind."""

    tokens: dict[str, list[int]] = field(default_factory=lambda: {kind: [] for kind in KINDS})
    ms: list[float] = field(default_factory=list)

    def summary(self) -> dict[str, Any]:
        """Median and mean by kind; `typing` holds all keystrokes on a line, those after a move to a new place too."""
        first = self.tokens["place"] + self.tokens["file"]
        groups = {**self.tokens, "typing": self.tokens["line"] + first}
        rows: dict[str, Any] = {
            kind: {"keystrokes": len(costs), "median": statistics.median(costs), "mean": statistics.fmean(costs)}
            for kind, costs in groups.items()
            if costs
        }
        rows["build_ms"] = percentiles(self.ms, 50, 95)
        return rows


def run(options: Options) -> int:
    folder = require("replay")
    tokenizer = find_model(options.model).tokenizer
    results = {}
    for name in histories.NAMES:
        runs = list(histories.typed_runs(folder, name))[: options.limit]
        results[name] = replay(tokenizer, PromptOptions(), runs, room=options.room).summary()
    rows = [
        [name, kind, row["keystrokes"], row["median"], row["mean"]]
        for name, kinds in results.items()
        for kind, row in kinds.items()
        if kind != "build_ms"
    ]
    print_table("Prompt tokens to prefill", ["history", "keystroke", "count", "median", "mean"], rows)
    write(options, "prompt", {"histories": results})
    return 0


def replay(
    tokenizer: Tokenizer,
    options: PromptOptions,
    runs: Sequence[histories.TypedRun],
    room: int | None = None,
) -> KeystrokeCosts:
    """Type `runs` one after the other, with a KV cache for each document; a first prompt may read `room` tokens.

    The whole prompt of a place replaces a shorter one at the end of its run, as in a pause.
    """
    builder, costs = PromptBuilder(tokenizer, options), KeystrokeCosts()
    caches: dict[str, tuple[int, ...]] = {}
    for typed in runs:
        cached = caches.get(typed.path, ())
        for key, before, after in cursors(typed):
            first = "place" if typed.path in caches else "file"
            kind = first if not key else "enter" if key.startswith("\n") else "line"
            now, offset = Snapshot(typed.path, typed.path, typed.language, 0, before + after), len(before)
            started = time.perf_counter()
            prompt = at_once(builder.build(now, offset, room=room)).tokens
            costs.ms.append((time.perf_counter() - started) * 1e3)
            # The last token is always run again: its logits are what is asked for.
            costs.tokens[kind].append(max(1, len(prompt) - common_prefix(cached, prompt)))
            cached = prompt
        if builder.is_short(typed.path):
            at_once(builder.plan(now, offset))
            prompt = builder.exchange(now, offset).tokens
            costs.tokens["behind"].append(len(prompt) - common_prefix(cached, prompt))
            cached = prompt
        caches[typed.path] = cached
    return costs
