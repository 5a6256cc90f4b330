#!/usr/bin/env python3
"""Run the benchmarks on an NVIDIA GPU's graph engine, as `fastcoder-lsp bench gpu` does: see docs/gpu.md.

    python scripts/bench_gpu.py --first          # two minutes: what works, how fast a step is
    python scripts/bench_gpu.py [--out FOLDER]   # under ten minutes: everything
    python scripts/bench_gpu.py --smoke          # small, on the CPU
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.gpu import main

if __name__ == "__main__":
    sys.exit(main())
