#!/usr/bin/env python3
"""Run the benchmarks on an NVIDIA GPU's graph engine, as `fastcoder-lsp bench gpu` does; see docs/gpu.md.

`--first` takes two minutes: what works, how fast a step is. Without it everything takes under ten. `--smoke` is small,
on the CPU. `--out FOLDER` names the folder of results.
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.gpu import main

if __name__ == "__main__":
    sys.exit(main())
