"""`doctor`'s report of the last start: each stage with its time, where it hung or failed, and what to do."""

import time
from collections.abc import Iterator

import psutil

from fastcoder_lsp.cli.doctor.check import Check
from fastcoder_lsp.config import cache_folder
from fastcoder_lsp.core.wording import counted
from fastcoder_lsp.runtime.start_record import ModelStart, read_start

_WAITING_S = 1.0
"""Shorter stages are listed only in the details."""


def check_last_start() -> Iterator[Check]:
    """The last start of a server or a command that loaded the model; no finding if there was none."""
    start = read_start(cache_folder())
    if start is None:
        return
    details: dict[str, object] = {
        "state": start.state,
        "began": start.began,
        "seconds": start.seconds,
        "cpu_seconds": start.cpu_seconds,
        "stages": {stage.name: stage.seconds for stage in start.stages},
        "compiled": start.compiled,
    }
    when = time.strftime("%Y-%m-%d %H:%M", time.localtime(start.began))
    told = f"{when}, model {start.model}{f' on {start.engine}' if start.engine else ''}"
    stages = ", ".join(f"{stage.name} {stage.seconds:.1f} s" for stage in start.stages if stage.seconds >= _WAITING_S)
    if start.state == "ready":
        text = f"{told}: ready after {start.seconds:.1f} s"
        text += f" ({stages})" if stages else ""
        text += f"; compiled {counted(start.compiled, 'function')}, which later starts load" if start.compiled else ""
        yield Check("last start", "ok", text, details=details)
    elif start.state == "failed":
        yield Check(
            "last start", "wrong", f"{told}: failed after {start.seconds:.1f} s: {start.reason}", start.hint, details
        )
    elif _runs(start):
        text = f"{told}: running for {time.time() - start.began:.0f} s, now: {start.stage}"
        yield Check("last start", "note", text + (f" (before: {stages})" if stages else ""), "Wait.", details)
    else:
        text = f"{told}: its process ended during “{start.stage}”, after {start.seconds:.1f} s"
        hint = "The editor or the system (out of memory) ended it, or it crashed. Start it again."
        yield Check("last start", "wrong", text, hint, details)
    for note in start.notes:
        yield Check("last start", "note", note)


def _runs(start: ModelStart) -> bool:
    """Whether the process that began it still runs, and its id was not reused."""
    try:
        return psutil.Process(start.process).create_time() <= start.began
    except psutil.Error:
        return False
