"""The processor's name, for reports, and for stored timings, which count for one processor only."""

import platform
from pathlib import Path


def processor() -> str:
    """The processor's name with its family and model; its architecture if the system has no more."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    facts = dict(line.split(":", 1) for line in lines if ":" in line)
    by_key = {key.strip(): value.strip() for key, value in facts.items()}
    family = f"family {by_key.get('cpu family', '?')} model {by_key.get('model', '?')}"
    return f"{by_key.get('model name', platform.machine())} ({family})"
