"""`fastcoder-lsp bench`: the measurements, one subcommand each."""

import argparse

from fastcoder_lsp.bench import drafting, engine, index, keystroke, priors, prompt, quality, trained


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
    for benchmark in (engine, prompt, quality, drafting, priors, index, keystroke, trained):
        benchmark.add_parser(benchmarks)
