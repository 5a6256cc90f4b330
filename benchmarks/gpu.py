"""`bench gpu`: the other benchmarks on the graph engine of an NVIDIA GPU, each in a process of its own, within minutes.

A process that dies or hangs costs its own part. The folder of results is written after every part: what each printed,
its report, and `report.json` with all of them.
"""

import argparse
import json
import re
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fastcoder_lsp.bench.report import head
from fastcoder_lsp.cli.options import add_options, filled, option

EXAMPLE = "gpu --first"
SECONDS, FIRST_SECONDS = 540.0, 120.0
"""The run's length at most, under ten minutes; a first look takes two."""
LEAST = 8.0
"""Seconds without which no part is begun."""
CHECKOUT = Path(__file__).parents[1]
_PRODUCT = ("--limit", "16", "--rounds", "1", "--nodes", "64", "--drafters", "suffix,auto")
_PAPER = ("--limit", "6", "--rounds", "1", "--nodes", "64", "--drafters", "auto", "--setting", "paper")
_EXACT = ("--limit", "20", "--tokens", "64", "--drafters", "suffix,auto")
FIRST: Mapping[str, Sequence[str]] = {
    "steps": ("engine", "--rounds", "3"),
    "exactness": ("exactness", "--limit", "4", "--tokens", "32", "--drafters", "auto"),
    "ghost text": ("keystroke", "--drafters", "auto", "--speed", "5", "--limit", "1"),
}
"""The parts of a first look: name → benchmark and options."""
ALL: Mapping[str, Sequence[str]] = {
    "steps": ("engine",),
    "exactness, strict": ("exactness", "--strict", *_EXACT),
    "exactness": ("exactness", *_EXACT),
    "RepoEval, product": ("decode", *_PRODUCT),
    "RepoEval, paper": ("decode", *_PAPER),
    "infilling": ("quality", "--limit", "100", "--suites", "start,boundary"),
    "ghost text": ("keystroke", "--drafters", "auto", "--speed", "5", "--limit", "3"),
}
SMOKE: Mapping[str, Sequence[str]] = {
    "steps": ("engine", "--rounds", "1", "--no-transformers"),
    "exactness": ("exactness", "--limit", "1", "--tokens", "4", "--drafters", "suffix"),
    "RepoEval, product": ("decode", "--limit", "1", "--rounds", "1", "--tokens", "4", "--drafters", "suffix"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """Run the other benchmarks on a GPU: a short look or everything, and shapes of larger models by random weights."""

    out: Path = option("folder for results", Path("bench_gpu"), metavar="FOLDER")
    seconds: float | None = option("longest run in seconds (default: 540; with --first 120)", None)
    first: bool = option("a first look in two minutes: does it work, how fast is it", False)
    smoke: bool = option("small, on the CPU: does every line run?", False)
    engine: str = option("as the setting `engine` (default: cuda-graphs)", "")
    model: str = option("as the setting `model`", "auto")
    models: str = option("shapes that are timed with random weights, by comma; none: leave them out", "0.5B,1.5B,7B")
    kernels: str = option("of the graph engine in these shapes, by comma", "torch,fused")
    no_peers: bool = option("leave transformers out", False)


def run(options: Options) -> int:
    """Run everything; 1 where nothing could be measured."""
    engine = options.engine or ("cpu-int8" if options.smoke else "cuda-graphs")
    chosen = SMOKE if options.smoke else FIRST if options.first else ALL
    until = time.monotonic() + (options.seconds or (FIRST_SECONDS if options.first else SECONDS))
    folder = options.out.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    report = head("gpu", {"engine": engine, "model": options.model}) | {"parts": {}, "skipped": {}}
    for number, (name, command) in enumerate(_commands(options, engine, chosen).items()):
        files = folder / f"{number:02d}-{re.sub(r'[^A-Za-z0-9]+', '-', name).lower()}"
        left = until - time.monotonic()
        why = _part(command, files, left) if left > LEAST else "no time left"
        result = files.with_suffix(".json")
        if result.exists():
            report["parts"][name] = json.loads(result.read_text(encoding="utf-8"))
        elif why:
            report["skipped"][name] = why
        print(f"{name}: {why or 'done'}, {until - time.monotonic():.0f} s left", flush=True)
        (folder / "report.json").write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    print(f"Everything is in {folder}: send it whole (docs/gpu.md).")
    return 0 if report["parts"] else 1


def _commands(options: Options, engine: str, chosen: Mapping[str, Sequence[str]]) -> dict[str, list[str]]:
    """The commands, the most useful first: a look at the machine, the real model, then shapes by random weights."""
    program = [sys.executable, "-m", "fastcoder_lsp.cli.main"]
    commands = {"doctor": [*program, "doctor"]}
    for name, (benchmark, *rest) in chosen.items():
        named = ["--engines" if benchmark == "quality" else "--engine", engine, "--model", options.model]
        if benchmark == "engine" and not options.smoke:
            named.append("--no-transformers" if options.no_peers else "--transformers")
        commands[name] = [*program, "bench", benchmark, *rest, *named]
    graphs, names = ("cpu-graphs", "tiny") if options.smoke else (engine, options.models)
    shapes = [sys.executable, "-m", "benchmarks.shapes", "--engine", graphs, "--kernels", options.kernels]
    for name in names.split(",") if names != "none" else ():
        commands[f"shape {name}"] = [*shapes, "--shapes", name]
    return commands


def _part(command: Sequence[str], files: Path, seconds: float) -> str:
    result, log = files.with_suffix(".json"), files.with_suffix(".log")
    result.unlink(missing_ok=True)
    written = [] if command[-1] == "doctor" else ["--json", str(result)]
    with log.open("w", encoding="utf-8") as words:
        try:
            done = subprocess.run(
                [*command, *written], cwd=CHECKOUT, stdout=words, stderr=subprocess.STDOUT, timeout=seconds, check=False
            )
        except subprocess.TimeoutExpired:
            return f"took more than {seconds:.0f} s; {log.name} says how far it came"
    said: list[str] = log.read_text(encoding="utf-8", errors="replace").strip().splitlines()
    return "" if done.returncode == 0 else f"ended with {done.returncode}: {said[-1][:300] if said else 'no word'}"


def main(words: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    add_options(parser, Options)
    arguments: Any = parser.parse_args(words)
    return run(filled(Options, arguments))
