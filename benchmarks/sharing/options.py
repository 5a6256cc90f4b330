"""The command line of `bench sharing`."""

import argparse
from pathlib import Path


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add its options."""
    parser.description = (
        "Type runs of a recorded history for each person, alone and then all at once over one model. Time is reckoned: "
        "steps and prompts take what they take on an idle machine, so that the figures are the same on a busy one."
    )
    parser.epilog = "Example: fastcoder-lsp bench sharing --people svcs,structlog --speed 3"
    parser.add_argument(
        "--part",
        default="people",
        choices=("people", "starts"),
        help="people who type (the default), or what editors' servers take to start, and to be there",
    )
    parser.add_argument("--editors", type=int, default=4, metavar="N", help="of --part starts (default: 4)")
    parser.add_argument("--people", default="svcs,structlog", metavar="NAME,…", help="their histories, one each")
    parser.add_argument("--model", default="auto", help="a name as in the setting (default: auto)")
    parser.add_argument("--costs", default="amx", choices=("amx", "vnni"), help="whose times are reckoned with")
    parser.add_argument("--speed", type=float, default=3.0, metavar="KEYS", help="a second (default: 3)")
    parser.add_argument("--limit", type=int, metavar="N", help="runs each; default: as many as make 480 keys")
    parser.add_argument("--seed", type=int, default=0, help="of the runs and the rhythm (default: 0)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the full results")
