"""`fastcoder-lsp bench`: the measurements, one subcommand each.

A checkout has them all. The installed package has `bench engine`, what a model costs on this machine; the others need
data and tools that only a checkout has, and say so.
"""

import argparse
import shlex
from collections.abc import Callable
from functools import partial
from importlib import import_module
from importlib.util import find_spec

from fastcoder_lsp.cli.outputs import require_writable
from fastcoder_lsp.errors import UsageError

BENCHMARKS = {
    "engine": "time verification steps and prefills",
    "prompt": "prompt tokens to compute a keystroke, by replaying real edits",
    "quality": "exact match and edit similarity of each way of asking, compared pairwise",
    "draft": "replay drafters over recorded text: tokens a pass, cost of a draft",
    "decode": "drafters against plain decoding, with the model",
    "exactness": "the same tokens whatever drafts, greedy and sampled",
    "priors": "learn what the drafter `auto` believes at first; held out by repository",
    "index": "the datastore: build, search, update, size",
    "keystroke": "time to ghost text and accepted characters, by typing real edits",
    "leisure": "texts asked for by key with ample time: right, empty, soon; and whether `complete` says the same",
    "wire": "what passes between an editor's server and the shared process adds to a request",
    "sharing": "people who share one model: what each accepts, and computes of prompts, beside what they do alone",
    "typing": "code of other files on and off, over the same keys: accepted share, prompt tokens, waits, reckoned",
    "team": "people who type at a team's server: time to text, fairness, what kills and upgrades cost",
    "trained": "what `train` did to a model: tokens a pass, guesses accepted, speed, quality before and after",
}
"""Name → a line for people. A benchmark is the folder of its name in `bench/`: `options` and `run`."""
_WRITTEN = ("json", "html", "heatmap", "out", "export")
"""Options that name a file to write."""


def add_parser(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command and its subcommands."""
    parser = commands.add_parser(
        "bench",
        help="measure speed and quality on this machine",
        description="Measure speed and quality on this machine. Every benchmark prints a short table; --json FILE "
        "writes the full results with machine, versions and settings.",
        epilog="Example: fastcoder-lsp bench engine --json engine.json",
    )
    benchmarks = parser.add_subparsers(title="benchmarks", metavar="BENCHMARK", required=True)
    for name, words in BENCHMARKS.items():
        folder = f"fastcoder_lsp.bench.{name}"
        if (found := find_spec(folder)) is not None and found.has_location:
            benchmark = benchmarks.add_parser(name, help=words)
            import_module(f"{folder}.options").add_options(benchmark)
            benchmark.set_defaults(run=partial(_run, folder))
        else:
            # It takes every word, `--help` too: with a sign that nobody types for the dash, none is an option.
            benchmark = benchmarks.add_parser(name, help=f"{words} (in a checkout)", add_help=False, prefix_chars="\0")
            benchmark.add_argument("words", nargs="*")
            benchmark.set_defaults(run=partial(_refuse, name))


def _run(folder: str, arguments: argparse.Namespace) -> int:
    """Run a benchmark; it is loaded now, for some bring a compiler and a model along."""
    for option in _WRITTEN:
        require_writable(getattr(arguments, option, None))
    run: Callable[[argparse.Namespace], int] = import_module(f"{folder}.run").run
    return run(arguments)


def _refuse(name: str, arguments: argparse.Namespace) -> int:
    """Say where a benchmark is that this installation lacks."""
    line = shlex.join(["fastcoder-lsp", "bench", name, *arguments.words])
    raise UsageError(
        f"`bench {name}` is not in the installed package, which has `bench engine` only",
        f"Clone the repository, and run in its folder: pip install --editable . && {line}",
    )
