"""`fastcoder-lsp bench`: the measurements, one subcommand each.

The package has `bench engine`. The other benchmarks need data and tools that only a checkout has: they are in its
folder `benchmarks`, beside the package. A benchmark is a module with `Options`, a dataclass, and `run`.
"""

import argparse
import inspect
import shlex
import sys
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

from fastcoder_lsp.cli.options import add_options, filled, require_writable
from fastcoder_lsp.errors import UsageError

BENCHMARKS = {
    "engine": "time verification steps and prefills",
    "prompt": "prompt tokens to compute a keystroke, by replaying real edits",
    "quality": "exact match and edit similarity of each way of asking, compared pairwise",
    "draft": "replay drafters over recorded text: tokens a pass, cost of a draft",
    "decode": "drafters against plain decoding, with the model",
    "papers": "every published method on all tasks, with the model, resumable",
    "exactness": "compare tokens with and without drafting, greedy and sampled",
    "priors": "fit the priors of the drafter `auto`, held out by repository",
    "index": "the datastore: build, search, update, size",
    "keystroke": "time to ghost text and accepted characters, by typing real edits",
    "leisure": "suggestions requested by key with ample time, compared with `complete`",
    "typing": "code of other files on and off, over the same keys: accepted share, prompt tokens, waits, reckoned",
    "team": "time to text and fairness of a team's server, through killed and upgraded replicas",
    "trained": "a model before and after `train`: tokens a pass, accepted guesses, speed, quality",
    "edits": "next edits: recorded answers of published models, by cursortab's cases and rule",
    "imports": "missing imports: removed ones offered again, offers where none is missing",
    "peers": "our engine beside llama.cpp's server, transformers and Ollama, on the same prompts and keys",
}
"""Name → a line of help."""
CHECKOUT = Path(__file__).parents[2]
"""The folder that contains the package: a checkout of the repository, or a folder of installed packages."""
_WRITTEN = ("json", "html", "heatmap", "out", "export", "markdown")  # options that name a file to write


def add_parser(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command and its subcommands."""
    parser = commands.add_parser(
        "bench",
        help="measure speed and quality on this machine",
        description="Measure speed and quality on this machine. Every benchmark prints a short table; --json FILE "
        "writes the full results with machine, versions and settings.",
        epilog="Example: fastcoder-lsp bench engine --json engine.json",
    )
    # Errors are reported by the parser of this command.
    lazy: type[argparse.ArgumentParser] = type("BenchmarkParser", (_BenchmarkParser, type(parser)), {})
    benchmarks = parser.add_subparsers(title="benchmarks", metavar="BENCHMARK", required=True, parser_class=lazy)
    for name, words in BENCHMARKS.items():
        if (module := _module(name)) is not None:
            benchmark = benchmarks.add_parser(name, help=words)
            benchmark.set_defaults(module=module)
        else:
            # It takes every word, `--help` too: with an untypable prefix character, no word is an option.
            benchmark = benchmarks.add_parser(name, help=f"{words} (in a checkout)", add_help=False, prefix_chars="\0")
            benchmark.add_argument("words", nargs="*")
            benchmark.set_defaults(run=partial(_refuse, name))


class _BenchmarkParser(argparse.ArgumentParser):
    """Adds a benchmark's options only when its name is typed: its module may import a compiler and a model."""

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        if (name := self.get_default("module")) is not None:
            benchmark = import_module(name)
            self.description = inspect.cleandoc(benchmark.Options.__doc__)
            self.epilog = f"Example: fastcoder-lsp bench {benchmark.EXAMPLE}"
            add_options(self, benchmark.Options)
            self.set_defaults(module=None, run=partial(_run, name))
        return super().parse_known_args(args, namespace)


def _module(name: str) -> str | None:
    """The module of a benchmark, ready to import; None if this installation lacks it."""
    if name == "engine":
        return "fastcoder_lsp.bench.engine"
    if not (CHECKOUT / "pyproject.toml").is_file() or not (CHECKOUT / "benchmarks" / f"{name}.py").is_file():
        return None
    if str(CHECKOUT) not in sys.path:
        sys.path.append(str(CHECKOUT))
    return f"benchmarks.{name}"


def _run(name: str, arguments: argparse.Namespace) -> int:
    for option in _WRITTEN:
        require_writable(getattr(arguments, option, None))
    benchmark = import_module(name)
    code: int = benchmark.run(filled(benchmark.Options, arguments))
    return code


def _refuse(name: str, arguments: argparse.Namespace) -> int:
    """Say where to find a benchmark that this installation lacks."""
    line = shlex.join(["fastcoder-lsp", "bench", name, *arguments.words])
    raise UsageError(
        f"`bench {name}` is not in the installed package, which has `bench engine` only",
        f"Clone the repository, and run in its folder: pip install --editable . && {line}",
    )
