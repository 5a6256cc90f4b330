"""`fastcoder-lsp bench`: the measurements, one subcommand each.

The package has `bench engine`. The other benchmarks need data and tools that only a checkout has: they are in its
folder `benchmarks`, beside the package.
"""

import argparse
import shlex
import sys
from collections.abc import Callable
from functools import partial
from importlib import import_module
from pathlib import Path

from fastcoder_lsp.cli.outputs import require_writable
from fastcoder_lsp.errors import UsageError

BENCHMARKS = {
    "engine": "time verification steps and prefills",
    "prompt": "prompt tokens to compute a keystroke, by replaying real edits",
    "quality": "exact match and edit similarity of each way of asking, compared pairwise",
    "draft": "replay drafters over recorded text: tokens a pass, cost of a draft",
    "decode": "drafters against plain decoding, with the model",
    "exactness": "compare tokens with and without drafting, greedy and sampled",
    "priors": "fit the priors of the drafter `auto`, held out by repository",
    "index": "the datastore: build, search, update, size",
    "keystroke": "time to ghost text and accepted characters, by typing real edits",
    "leisure": "suggestions requested by key with ample time, compared with `complete`",
    "wire": "time that messages to the shared process add to a request",
    "sharing": "accepted text and prompt tokens of people who share one model, against each alone",
    "typing": "code of other files on and off, over the same keys: accepted share, prompt tokens, waits, reckoned",
    "team": "time to text and fairness of a team's server, through killed and upgraded replicas",
    "trained": "a model before and after `train`: tokens a pass, accepted guesses, speed, quality",
}
"""Name → a line for people. A benchmark is a package of that name, with the modules `options` and `run`."""
CHECKOUT = Path(__file__).parents[2]
"""The folder that the package is in: a checkout of the repository, or any folder of installed packages."""
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
        if (folder := _package(name)) is not None:
            benchmark = benchmarks.add_parser(name, help=words)
            import_module(f"{folder}.options").add_options(benchmark)
            benchmark.set_defaults(run=partial(_run, folder))
        else:
            # It takes every word, `--help` too: with a sign that nobody types for the dash, none is an option.
            benchmark = benchmarks.add_parser(name, help=f"{words} (in a checkout)", add_help=False, prefix_chars="\0")
            benchmark.add_argument("words", nargs="*")
            benchmark.set_defaults(run=partial(_refuse, name))


def _package(name: str) -> str | None:
    """The package of a benchmark, ready to import; None where it is not in this installation."""
    if name == "engine":
        return "fastcoder_lsp.bench.engine"
    if not (CHECKOUT / "pyproject.toml").is_file() or not (CHECKOUT / "benchmarks" / name / "run.py").is_file():
        return None
    if str(CHECKOUT) not in sys.path:
        sys.path.append(str(CHECKOUT))
    return f"benchmarks.{name}"


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
