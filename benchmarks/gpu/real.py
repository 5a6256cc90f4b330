"""Part 4: the real model, where its files are on the machine: the product's own benchmarks on the graph engine.

Owns the calls; what is measured and reported is `bench decode`, `bench quality` and `bench exactness`' own.
"""

import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.gpu.machine import Bench, say

COMMANDS: Mapping[str, Sequence[str]] = {
    "RepoEval, product": ("decode", "--limit", "16", "--rounds", "1", "--nodes", "64", "--drafters", "suffix,auto"),
    "RepoEval, paper": (
        *("decode", "--limit", "6", "--rounds", "1", "--nodes", "64", "--setting", "paper", "--drafters", "auto"),
    ),
    "exactness": ("exactness", "--limit", "20", "--tokens", "64", "--drafters", "suffix,auto"),
    "exactness, strict": ("exactness", "--strict", "--limit", "20", "--tokens", "64", "--drafters", "suffix,auto"),
    "infilling": ("quality", "--limit", "100", "--suites", "start,boundary"),
    "ghost text": ("keystroke", "--drafters", "auto", "--speed", "5", "--limit", "3"),
}
FIRST: Mapping[str, Sequence[str]] = {
    "exactness": ("exactness", "--limit", "4", "--tokens", "32", "--drafters", "auto"),
    "ghost text": ("keystroke", "--drafters", "auto", "--speed", "5", "--limit", "1"),
}
"""Of a first look, for which there are two minutes."""
LEAST_SECONDS = 25.0
CHECKOUT = Path(__file__).parents[2]


def measure(bench: Bench, folder: Path, engine: str, *, brief: bool = False) -> dict[str, Any]:
    """Every benchmark that time is left for, or the few of a first look; its report, as it wrote it."""
    found: dict[str, Any] = {}
    for name, command in (FIRST if brief else COMMANDS).items():
        if bench.left() < LEAST_SECONDS:
            bench.skip(name, "no time left")
            continue
        report = folder / f"real-{command[0]}-{len(found)}.json"
        option = "--engines" if command[0] == "quality" else "--engine"
        done = _call([*command, option, engine, "--json", str(report)], bench.left())
        if report.exists():
            found[name] = json.loads(report.read_text(encoding="utf-8"))
            say(f"real model, {name}: done")
        else:
            bench.skip(f"real model, {name}", done)
    return found


def why_not() -> str:
    """Why the real model cannot be run here; empty if it can."""
    try:
        from fastcoder_lsp import model  # noqa: PLC0415 packages that may be absent
        from fastcoder_lsp.errors import FastcoderError  # noqa: PLC0415
    except ImportError as why:
        return f"a package is missing: {why}"
    try:
        model.find("auto")
    except FastcoderError as why:
        return why.message
    return ""


def _call(arguments: Sequence[str], seconds: float) -> str:
    """Run `fastcoder-lsp bench …`; the last line of what it complained about."""
    command = [sys.executable, "-m", "fastcoder_lsp.cli.main", "bench", *arguments]
    try:
        done = subprocess.run(command, cwd=CHECKOUT, capture_output=True, text=True, timeout=seconds, check=False)
    except subprocess.TimeoutExpired:
        return "no time left"
    return (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1]
