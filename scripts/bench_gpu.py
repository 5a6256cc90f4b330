#!/usr/bin/env python3
"""Measure the graph engine on an NVIDIA GPU: see docs/gpu.md.

    python scripts/bench_gpu.py --first          # two minutes: what works, how fast a step is
    python scripts/bench_gpu.py [--out FOLDER]   # under ten minutes: everything
    python scripts/bench_gpu.py --smoke          # small, on the CPU

Needs no installation of this project: torch, transformers, safetensors and numpy beside a checkout will do.
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.gpu import main

if __name__ == "__main__":
    sys.exit(main())
