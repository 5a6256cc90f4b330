"""A host's process around `ScriptedHost`, started as the real one is.

python -P -m tests.host.scripted_process --folder DIR --key KEY --linger S [--detach]
"""

import argparse
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from fastcoder_lsp.cli.host import left_behind
from fastcoder_lsp.cli.serve import leave
from fastcoder_lsp.completion.protocol import ModelHost
from fastcoder_lsp.host.host_log import log_to_stderr
from fastcoder_lsp.host.process import LazyModelServer, ProcessTimeouts, run_host
from tests.host.scripted import ScriptedHost


class Shared(LazyModelServer):
    """One scripted host a front; where its process is to find it `stuck`, the worker comes to nothing more."""

    def __init__(self, *, stuck: bool) -> None:
        self._stuck = stuck

    def open(self, *front: Any) -> ModelHost:
        return ScriptedHost(*front)

    def probe(self, reply: Callable[[], object]) -> None:
        if not self._stuck:
            reply()

    def close(self, wait_s: float) -> None:
        time.sleep(0)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--key")
    parser.add_argument("--linger", type=float)
    parser.add_argument("--detach", action="store_true")
    parser.add_argument("--version", default="test")
    parser.add_argument("--stuck-s", type=float)
    parser.add_argument("--look-s", type=float)
    arguments = parser.parse_args()
    if arguments.detach and left_behind():
        return
    log_to_stderr()
    stuck_s = arguments.stuck_s
    limits = ProcessTimeouts() if stuck_s is None else ProcessTimeouts(stuck_s, stuck_s / 2)
    limits = limits if arguments.look_s is None else replace(limits, look_s=arguments.look_s)
    shared = Shared(stuck=stuck_s is not None)
    code = run_host(arguments.folder, arguments.key, arguments.linger, shared, arguments.version, limits)
    sys.stderr.flush()
    leave(code)


if __name__ == "__main__":
    main()
