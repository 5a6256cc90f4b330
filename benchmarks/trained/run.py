"""`bench trained` at work: the model that was tuned, and the one before, each measured in the parts asked for."""

import argparse
from typing import Any

from benchmarks.trained.answers import exact, functional
from benchmarks.trained.loaded import LoadedModel
from benchmarks.trained.speed import counts, requests_of, speed
from benchmarks.trained.tables import tell
from fastcoder_lsp.bench.model import BenchModel, find_model
from fastcoder_lsp.bench.report import write_json
from fastcoder_lsp.draft.base import load_trained
from fastcoder_lsp.errors import UsageError
from fastcoder_lsp.model.tuned import read_record

CONTEXT = 2048


def run(arguments: argparse.Namespace) -> int:
    """Run the command."""
    tuned = find_model(arguments.model).files
    record = read_record(tuned.folder, tuned.digest)
    if record is None:
        raise UsageError(
            f"{tuned.name} was not tuned by `fastcoder-lsp train`", "Name the folder that train wrote: OUT/model."
        )
    results: dict[str, Any] = {"record": {"method": record.method, "base": record.base, "figures": record.figures}}
    for side, name in (("before", arguments.before), ("after", arguments.model)):
        if name:
            results[side] = _measure(find_model(name), arguments)
    if "before" in results and results["before"]["digest"] != record.base_digest:
        results["note"] = "the model before is not the one that was tuned"
    tell(results)
    if arguments.json:
        settings = {name: str(value) for name, value in vars(arguments).items() if name != "run"}
        write_json(arguments.json, "trained", settings, results)
    return 0


def _measure(model: BenchModel, arguments: argparse.Namespace) -> dict[str, Any]:
    """All figures of one model."""
    engine = model.engine(arguments.engine, CONTEXT)
    files = model.files
    loaded = LoadedModel(model, engine, load_trained(files.folder, files.digest))
    try:
        found: dict[str, Any] = {"model": files.name, "digest": files.digest, "engine": engine.info.name}
        parts = arguments.parts.split(",")
        if "counts" in parts:
            found |= counts(loaded, requests_of(loaded, arguments), arguments)
        if "speed" in parts:
            found["speed"] = speed(loaded, requests_of(loaded, arguments), arguments.drafters.split(","))
        if "exact" in parts:
            found["exact"] = exact(loaded, arguments.quality_limit)
        if "functional" in parts:
            found["functional"] = functional(loaded, arguments.quality_limit)
    finally:
        engine.close()
    return found
