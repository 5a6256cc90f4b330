"""Some parts in a process of their own: `python -m benchmarks.gpu.process REQUEST RESULT`.

An illegal access poisons a process for good, and a hang takes all the time there is: here either costs one part, and
those after it are done by another process.
"""

import json
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from benchmarks.gpu.machine import Bench, facts, say
from benchmarks.gpu.parts import PARTS, PartRequest
from benchmarks.gpu.shapes import MODELS, TINY, named
from fastcoder_lsp.engine.static.device import CpuDevice, CudaDevice


def make_bench(request: Mapping[str, Any], cache: Path) -> Bench:
    """The sizes of the run; lengths lie inside their buckets, as most steps do."""
    smoke = bool(request["smoke"])
    return Bench(
        device=CpuDevice() if smoke else CudaDevice(),
        dtype=torch.float32 if smoke else torch.bfloat16,
        models=named(TINY if smoke else MODELS),
        widths=(1, 16) if smoke else (1, 2, 4, 8, 16, 32, 64),
        lengths=(64, 600) if smoke else (448, 960, 1984, 3900),
        deadline=time.monotonic() + float(request["seconds"]),
        cache=cache,
        smoke=smoke,
        repeats=2 if smoke else 20,
        context=1024 if smoke else 4096,
    )


def main(request_file: Path, result_file: Path) -> None:
    """Do the parts in turn; the result is written after each, so that what was done is kept whatever comes after."""
    request = json.loads(request_file.read_text(encoding="utf-8"))
    done: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as folder:
        bench = make_bench(request, Path(folder))
        model = next(model for model in bench.models if model.name == request["model"])
        given = PartRequest(bench, model, request["kernels"], bool(request["brief"]))
        for part in request["parts"]:
            began = time.monotonic()
            found: dict[str, Any] = {}
            bench.skipped.clear()
            try:
                found = PARTS[part](given)
            except Exception as why:  # noqa: BLE001 whatever is raised costs this part alone
                bench.skip(f"{part} of {model.name}", f"{type(why).__name__}: {why}"[:300])
                bench.tidy()
            say(f"{part}: {time.monotonic() - began:.0f} s")
            done.append({"part": part, "found": found, "skipped": [*bench.skipped]})
            result = {"done": done, "machine": facts(bench.device)}
            new = result_file.with_suffix(".new")
            new.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
            new.replace(result_file)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
