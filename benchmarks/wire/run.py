"""Runs `bench wire`: a front in this process, the host in one of its own, as in use."""

import argparse
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import numpy as np
import numpy.typing as npt

from benchmarks.common.instant import Asker, Instant
from fastcoder_lsp.bench import report
from fastcoder_lsp.completion.protocol import Ask, DocumentChanged
from fastcoder_lsp.config import Settings
from fastcoder_lsp.config.programs import neutral_folder, python_command
from fastcoder_lsp.errors import ResourceError
from fastcoder_lsp.host.address import named_address
from fastcoder_lsp.host.connection import greet
from fastcoder_lsp.host.listening import Address
from fastcoder_lsp.host.process import run_host
from fastcoder_lsp.host.remote import RemoteHost
from fastcoder_lsp.workspace.open_texts import OpenTexts

KEY, BUILD = "benchmark", "bench wire"
_ANSWER_S = 30.0
_LINGER_S = 20.0
_LOOK_S = 0.02


def run(arguments: argparse.Namespace) -> int:
    """Type, ask, and print what the wire took."""
    with tempfile.TemporaryDirectory() as folder:
        command = python_command(__name__, folder)
        process = subprocess.Popen(command, cwd=neutral_folder(), stdin=subprocess.DEVNULL)
        try:
            times = measure(Path(folder), arguments.requests, arguments.lines, arguments.pause_ms)
        finally:
            process.terminate()
            process.wait()
    parts = {"question": times[:, 0], "answer": times[:, 1], "both": times.sum(1)}
    rows = [[name, *(f"{value:.2f}" for value in np.percentile(ms, (50, 95, 99)))] for name, ms in parts.items()]
    title = f"{len(times)} questions, document of {arguments.lines} lines"
    report.print_table(title, ("ms", "p50", "p95", "p99"), rows)
    if arguments.json:
        settings = {"requests": arguments.requests, "lines": arguments.lines, "pause_ms": arguments.pause_ms}
        report.write_json(arguments.json, "wire", settings, {name: ms.tolist() for name, ms in parts.items()})
    return 0


def measure(folder: Path, requests: int, lines: int, pause_ms: float) -> npt.NDArray[np.float64]:
    """[requests, 2]: milliseconds until the host had each question, and until its answer was told.

    Raises:
        ResourceError: no answer came.
    """
    asker = Asker()
    address = named_address(folder, KEY)
    _wait_for(address)
    front = RemoteHost(asker.on, Settings(), {}, OpenTexts(), lambda _: greet(address, BUILD), pauses_s=(0.05,))
    half = "    value = compute(value, other)\n" * (lines // 2)
    taken = []
    for number in range(1, requests + 2):
        typed = "abcdefghij "[number % 11] * (number % 60)
        asked = time.perf_counter() * 1e3
        text = f"{half}{typed}\n{half}"
        front.send(DocumentChanged(Path("/work/a.py"), text))
        front.send(Ask(asker.question(number, text, len(half) + len(typed))))
        if (came := asker.wait(number, _ANSWER_S)) is None:
            raise ResourceError("the host does not answer", "Run it again with FASTCODER_TRACEBACK=1.")
        if number > 1:  # the first one waits for the process
            taken.append((came[0] - asked, came[1] - came[0]))
        time.sleep(pause_ms / 1e3)
    front.close(1.0)
    return np.array(taken)


def _wait_for(address: Address) -> None:
    """Until the host listens.

    Raises:
        ResourceError: it does not come.
    """
    until = time.monotonic() + _ANSWER_S
    while time.monotonic() < until:
        with suppress(OSError):
            greet(address, BUILD).channel.close()
            return
        time.sleep(_LOOK_S)
    raise ResourceError("the host does not begin", "Run it again with FASTCODER_TRACEBACK=1.")


def main(words: Sequence[str]) -> int:
    """Be the host."""
    return run_host(Path(words[0]), KEY, _LINGER_S, Instant(), BUILD)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
