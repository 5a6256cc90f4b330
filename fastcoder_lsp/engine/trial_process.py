"""The trial's own process: loads two kinds of engine, one after the other, and times a step of each."""

import json
import os
import statistics
import sys
import threading
import time
from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from fastcoder_lsp.core import DraftTree, Engine
from fastcoder_lsp.engine.job import LoadJob
from fastcoder_lsp.engine.loader import load_engine
from fastcoder_lsp.engine.options import EngineOptions
from fastcoder_lsp.engine.trial import TrialResult, write_json
from fastcoder_lsp.model.files import ModelFiles

PROMPT, ROWS, TIMED = 200, 16, 20


def main(folder: Path) -> None:
    """The trial's process."""
    threading.Thread(target=_end_with_parent, daemon=True).start()
    request: Mapping[str, Any] = json.loads((folder / "request.json").read_text(encoding="utf-8"))
    files = ModelFiles(request["name"], Path(request["folder"]), request["source"], "", request["digest"])
    options, cache, kernels = EngineOptions(**request["options"]), Path(request["cache"]), Path(request["kernels"])
    job = LoadJob.of(files, options, cache, kernels, lambda _share, _what: None)
    first, second = request["kinds"]
    write_json(folder / "outcome.json", asdict(compare(job, (first, second))))


def _end_with_parent() -> None:
    sys.stdin.read()
    os._exit(0)


def compare(job: LoadJob, kinds: tuple[str, str]) -> TrialResult:
    """Time both engines, one after the other."""
    found: list[tuple[float, float]] = []
    for kind in kinds:
        options = replace(job.options, kind=kind)  # type: ignore[arg-type]  # a key of `Kind`
        engine = load_engine(replace(job, options=options))
        if engine.info.name.split()[0] != kind:
            return TrialResult(kinds[0], f"{kinds[1]} is not used: {kind} fell back to {engine.info.name}", {})
        found.append(_listen(engine))
        engine.close()
        del engine
    return judge(kinds, found[0], found[1])


def judge(kinds: tuple[str, str], first: tuple[float, float], second: tuple[float, float]) -> TrialResult:
    """The second kind, if a step of one row and one of many take less time together.

    Only time decides: their weights are rounded differently, so that their texts may differ.
    """
    ms = {
        f"{kind}, {rows} rows": each
        for kind, taken in zip(kinds, (first, second), strict=True)
        for rows, each in zip((1, ROWS), taken, strict=True)
    }
    times = ", ".join(f"{name} {each:.2f} ms" for name, each in ms.items())
    if sum(second) >= sum(first):
        return TrialResult(kinds[0], f"{kinds[1]} is not faster here: {times}", ms)
    return TrialResult(kinds[1], f"{kinds[1]} is faster here: {times}", ms)


def _listen(engine: Engine) -> tuple[float, float]:
    """Milliseconds of a step of one row, and of many."""
    vocabulary = engine.info.vocabulary
    prompt = [(31 * place + 7) % min(vocabulary, 997) for place in range(min(PROMPT, engine.info.context // 2))]
    return _step_ms(engine, prompt, 1), _step_ms(engine, prompt, ROWS)


def _step_ms(engine: Engine, prompt: list[int], rows: int) -> float:
    """Median milliseconds of a step, whatever it accepts."""
    tree = DraftTree((prompt[-1], *range(rows - 1)), (-1, *[0] * (rows - 1)))
    taken = []
    for _ in range(TIMED):
        engine.prefill(prompt[:-1], lambda: False)
        started = time.perf_counter()
        engine.step(tree)
        taken.append((time.perf_counter() - started) * 1e3)
    return statistics.median(taken)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
