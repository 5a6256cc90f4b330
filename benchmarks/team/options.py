"""The command line of `bench team`."""

import argparse
from pathlib import Path

PARTS = ("typing", "disturbed", "overload", "overhead")


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add its options."""
    parser.description = (
        "Have so many people type recorded histories at a team's server, by its own protocol, with pauses as "
        "people make them. Without --url a server of its own is begun here, of a model that takes the time it is told; "
        "with --url any server can be asked, llama-server and vLLM among them."
    )
    parser.epilog = "Example: fastcoder-lsp bench team --typists 50 --speed 1 --part disturbed --json team.json"
    parser.add_argument("--typists", type=int, default=50, metavar="N", help="people (default: 50)")
    parser.add_argument("--speed", type=float, default=1.0, metavar="KEYS", help="keys a second of each (default: 1)")
    parser.add_argument("--seconds", type=float, default=60.0, metavar="S", help="how long (default: 60)")
    parser.add_argument("--part", choices=PARTS, default="typing", help="what is measured (default: typing)")
    parser.add_argument(
        "--over", type=float, default=3.0, metavar="X", help="overload: times what it can do (default: 3)"
    )
    parser.add_argument("--patient", action="store_true", help="a key waits for the answer to the one before it")
    parser.add_argument("--url", help="of a server that runs, as in http://127.0.0.1:8020")
    parser.add_argument("--key-file", type=Path, metavar="FILE", help="keys of the people, a line each")
    parser.add_argument("--interface", choices=("infill", "completions"), default="infill", help="how it is asked")
    parser.add_argument("--replicas", type=int, default=2, metavar="N", help="of the server of its own (default: 2)")
    parser.add_argument(
        "--model",
        default="scripted:step=4,prefill=0.01,letters=6",
        help="of the server of its own (default: %(default)s: milliseconds a step and a prompt token, letters)",
    )
    parser.add_argument("--replay", type=Path, metavar="DIR/NAME", help="the history (default: of FASTCODER_DATA)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the full results")
