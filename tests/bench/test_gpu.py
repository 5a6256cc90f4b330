"""scripts/bench_gpu.py: every part that a CPU can run, from a bare checkout; the arithmetic of simulated acceptance."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from fastcoder_lsp.bench import repoeval
from fastcoder_lsp.bench.gpu import acceptance
from fastcoder_lsp.bench.gpu.acceptance import Dataset, Step, Task
from fastcoder_lsp.bench.gpu.host import gaps_us
from fastcoder_lsp.bench.gpu.simulate import simulate
from fastcoder_lsp.bench.gpu.steps import StepTimes
from fastcoder_lsp.bench.traces import Trace
from fastcoder_lsp.draft.registry import DrafterParts, make
from fastcoder_lsp.tokenizer import Tokenizer

ROOT = Path(__file__).parents[2]
ABSENT = """
import runpy, sys
absent = {"numba", "llvmlite", "rich", "filelock", "platformdirs", "pygls", "lsprotocol", "watchdog", "pydivsufsort",
          "pathspec", "prompt_toolkit", "gguf", "triton", "torchao"}
class Finder:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in absent:
            raise ImportError(f"no module named {name}")
sys.meta_path.insert(0, Finder())
sys.argv = sys.argv[1:]
runpy.run_path(sys.argv[0], run_name="__main__")
"""


def recorded() -> Dataset:
    """One task of six tokens: plainly, and in two steps of which the second is wide."""
    steps = {acceptance.PLAIN: [Step(1, 1, 0.0)] * 6, "drafter": [Step(1, 1, 0.0), Step(9, 5, 100.0)]}
    return Dataset("suite", "product", "made up", (Task(101, steps),))


def test_the_command_runs_where_only_torch_is(tmp_path: Path) -> None:
    """A smoke run without this project's other packages ends well, with all parts in the report, skips with reasons."""
    acceptance.write([recorded()], tmp_path / "acceptance.json")
    out = tmp_path / "report.json"
    command = [sys.executable, "-c", ABSENT, str(ROOT / "scripts" / "bench_gpu.py"), "--smoke", "--no-peers"]
    command += ["--models", "Llama", "--acceptance", str(tmp_path / "acceptance.json"), "--out", str(out)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=250, check=False)
    assert done.returncode == 0, done.stderr
    report = json.loads(out.read_text(encoding="utf-8"))
    assert set(report) >= {"machine", "ceilings", "steps", "simulated", "gaps", "products", "exactness", "int8", "int4"}
    assert all("numba" in what or "smoke" in what or "compile" in what for what in report["skipped"]), report["skipped"]
    assert [outcome["gaps"] for outcome in report["exactness"]] == [[], []]
    assert len(report["gaps"]["tiny Llama"]) == len(report["ghost_text"]["tiny Llama"]) == 2
    assert "SIMULATED" in done.stdout
    assert "SMOKE" in done.stdout


def test_recordings_are_read_as_they_were_written(tmp_path: Path) -> None:
    """What is written comes back; the file that is shipped can be read and speaks of plain decoding."""
    acceptance.write([recorded()], tmp_path / "file.json")
    assert acceptance.read(tmp_path / "file.json") == [recorded()]
    assert acceptance.read(tmp_path / "absent.json") == []
    shipped = acceptance.read()
    assert all(acceptance.PLAIN in dataset.approaches and len(dataset.approaches) > 3 for dataset in shipped)
    assert shipped


def test_simulated_steps_cost_what_was_measured() -> None:
    """Each step takes its width's time at its length, the host's gap, and its drafting; ratios are of milliseconds."""
    times = StepTimes(
        kernels="torch",
        device_ms={(1, 0): 1.0, (1, 200): 2.0, (16, 0): 1.5, (16, 200): 3.5},
        step_ms={(1, 0): 1.25, (1, 200): 2.25, (16, 0): 1.75, (16, 200): 3.75},
        prefill_ms={},
        weights=1,
        slot=1,
    )
    plain, drafted = simulate([recorded()], "model", times, eager_ms=8.0)
    each = [1.0 + cached / 200 + 0.25 for cached in range(100, 106)]
    assert plain.ms_per_token == pytest.approx(sum(each) / 6)
    assert plain.over_eager == pytest.approx(8.0 * 6 / sum(each))
    wide = 1.5 + 2.0 * 101 / 200 + 0.25 + 0.1
    assert drafted.ms_per_token == pytest.approx((each[0] + wide) / 6)
    assert drafted.mat == 3.0
    assert drafted.over_plain == pytest.approx(plain.ms_per_token / drafted.ms_per_token)


@pytest.mark.parametrize("name", ["none", "fastcoder", "auto"])
def test_the_host_is_timed_over_a_recording(name: str, llama_folder: Path) -> None:
    """The graph engine's host path says what was recorded, in fewer steps where drafts are right; each gap is told."""
    said = (300, 301, 302) * 12
    trace = Trace(repoeval.Task("t", "r", "p", 0, 0), (5, 300, 301, 302), said)
    gaps = gaps_us(make(name, DrafterParts()), trace, Tokenizer.load(llama_folder), 16)
    assert all(us > 0 for us in gaps)
    assert len(gaps) == len(said) - 1 if name == "none" else len(gaps) < len(said) // 2
