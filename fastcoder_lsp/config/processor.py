"""The processor's name, which keys measured times, and the kind of instructions that a developer asked for."""

import os
import platform
from pathlib import Path


def processor() -> str:
    """The processor's name with its family and model, or its architecture; and the kind that `forced_kind` gives."""
    kind = forced_kind()
    return _name() if kind is None else f"{_name()} as {kind}"


def forced_kind() -> str | None:
    """The kind of instructions (`engine.int8.dot`) that the environment variable FASTCODER_KIND asks for.

    For tests and benchmarks: one machine can run the code of several kinds of CPUs. None, the default, is the fastest.
    """
    return os.environ.get("FASTCODER_KIND") or None


def _name() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    facts = dict(line.split(":", 1) for line in lines if ":" in line)
    by_key = {key.strip(): value.strip() for key, value in facts.items()}
    family = f"family {by_key.get('cpu family', '?')} model {by_key.get('model', '?')}"
    return f"{by_key.get('model name', platform.machine())} ({family})"
