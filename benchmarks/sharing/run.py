"""Runs `bench sharing`: each person alone, then all of them at once, over the same model and the same keys."""

import argparse
import asyncio
import statistics
import tempfile
from dataclasses import asdict, astuple, replace
from pathlib import Path
from typing import Any

from benchmarks.datasets import histories
from benchmarks.datasets.folder import require
from benchmarks.keystroke.subset import choose_runs
from benchmarks.sharing.person import Account
from benchmarks.sharing.reckoned import AMX, VNNI
from benchmarks.sharing.room import Hand, Text, type_at_once
from benchmarks.sharing.starts import start_all
from fastcoder_lsp.bench import report
from fastcoder_lsp.completion.question import policy_of
from fastcoder_lsp.config import Settings
from fastcoder_lsp.errors import UsageError
from fastcoder_lsp.runtime.load import load_model, make_runtime
from fastcoder_lsp.runtime.parts import ALONE

PATIENT_MS = 60_000
"""However busy the machine is, the first answer is whole."""


def run(arguments: argparse.Namespace) -> int:
    """Run the command."""
    return _starts(arguments) if arguments.part == "starts" else _people(arguments)


def _starts(arguments: argparse.Namespace) -> int:
    settings = {"model": arguments.model, "budget.automatic_ms": PATIENT_MS}
    with tempfile.TemporaryDirectory(prefix="fastcoder-starts-") as folder:
        started = asyncio.run(start_all(arguments.editors, settings, Path(folder).resolve()))
    rows = [
        [str(number), *(f"{value:.2f}" for value in astuple(start)), f"{size / 1e6:.0f}"]
        for number, (start, size) in enumerate(zip(started.starts, started.servers_bytes, strict=True), 1)
    ]
    every = sum(started.servers_bytes) + started.host_bytes
    title = f"the shared process has {started.host_bytes / 1e6:.0f} MB, all together {every / 1e9:.2f} GB"
    report.print_table(title, ("editor", "initialize, CPU s", "ghost text", "the process, for it", "MB"), rows)
    if arguments.json:
        report.write_json(arguments.json, "sharing", {"part": "starts", "model": arguments.model}, asdict(started))
    return 0


def _people(arguments: argparse.Namespace) -> int:
    folder = require("replay")
    texts = []
    for name in arguments.people.split(","):
        subset = choose_runs(tuple(histories.steps(folder, name)), arguments.limit, arguments.seed)
        if not subset.typed:
            raise UsageError(f"no run of {name} can be typed", "Without --limit only short runs are.")
        texts.append(Text(name, subset, histories.base(folder, name)))
    settings = replace(Settings(), model=arguments.model)
    hand = Hand(arguments.speed, arguments.seed, policy_of(settings))
    costs = {"amx": AMX, "vnni": VNNI}[arguments.costs]
    model = load_model(settings, lambda _share, _what: None)
    try:
        places = [
            type_at_once(model, lambda shared, seat: make_runtime(shared, settings, ALONE, seat), among, costs, hand)
            for among in (*([text] for text in texts), texts)
        ]
    finally:
        model.close()
    alone, together = [account for [account] in places[:-1]], places[-1]
    rows = [
        [text.name, how, *_figures(account)]
        for text, single, shared in zip(texts, alone, together, strict=True)
        for how, account in (("alone", single), ("together", shared))
    ]
    keys = sum(text.subset.keys for text in texts)
    title = f"{len(texts)} people, {keys} keys at {arguments.speed:g} a second each, times of {arguments.costs}"
    report.print_table(title, ("who", "", "accepted %", "requests", "shown %", "prompt tokens a key", "mean"), rows)
    if arguments.json:
        told: dict[str, Any] = {
            text.name: {"alone": asdict(single), "together": asdict(shared)}
            for text, single, shared in zip(texts, alone, together, strict=True)
        }
        given = ("people", "model", "costs", "speed", "limit", "seed")
        report.write_json(arguments.json, "sharing", {name: getattr(arguments, name) for name in given}, told)
    return 0


def _figures(account: Account) -> list[str]:
    """Of a row: shares in percent, prompt tokens from key to key (median, mean)."""
    computed = account.computed or [0]
    return [
        f"{100 * account.accepted:.1f}",
        str(account.asked),
        f"{100 * account.shown / max(1, account.asked):.1f}",
        f"{statistics.median(computed):g}",
        f"{statistics.fmean(computed):.1f}",
    ]
