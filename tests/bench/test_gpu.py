"""scripts/bench_gpu.py: every part that a CPU can run, from a bare checkout; the arithmetic of simulated acceptance."""

import argparse
import json
import os
import subprocess
import sys
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

from benchmarks.datasets import repoeval
from benchmarks.drafting.traces import Trace
from benchmarks.gpu import acceptance, peers, reference
from benchmarks.gpu.acceptance import PLAIN, Dataset, Step, Task
from benchmarks.gpu.host import gaps_us
from benchmarks.gpu.process import make_bench
from benchmarks.gpu.report import _reference
from benchmarks.gpu.run import _Run, main
from benchmarks.gpu.shapes import RandomSource
from benchmarks.gpu.simulate import simulate
from benchmarks.gpu.steps import StepTimes
from fastcoder_lsp.draft.registry import DrafterParts, make
from fastcoder_lsp.tokenizer import Tokenizer

ROOT = Path(__file__).parents[2]
ABSENT = """
import sys
absent = {"numba", "llvmlite", "rich", "filelock", "platformdirs", "pygls", "lsprotocol", "watchdog", "pydivsufsort",
          "pathspec", "prompt_toolkit", "gguf", "triton", "torchao", "psutil"}
class Finder:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in absent:
            raise ImportError(f"no module named {name}")
sys.meta_path.insert(0, Finder())
"""
"""What Python imports at its start, in the run and in its parts."""


def recorded() -> Dataset:
    """One task of six tokens: plainly, and in two steps of which the second is wide."""
    steps = {acceptance.PLAIN: [Step(1, 1, 0.0)] * 6, "drafter": [Step(1, 1, 0.0), Step(9, 5, 100.0)]}
    return Dataset("suite", "product", "made up", (Task(101, steps),))


def smoke(folder: Path, *options: str) -> tuple[dict[str, Any], str]:
    """The report of a smoke run without this project's other packages, and what it printed."""
    acceptance.write([recorded()], folder / "acceptance.json")
    (folder / "sitecustomize.py").write_text(ABSENT, encoding="utf-8")
    command = [sys.executable, str(ROOT / "scripts" / "bench_gpu.py"), "--smoke", "--models", "Llama", *options]
    command += ["--acceptance", str(folder / "acceptance.json"), "--out", str(folder / "results")]
    environment = os.environ | {"PYTHONPATH": str(folder)}
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=580, check=False
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads((folder / "results" / "report.json").read_text(encoding="utf-8"))
    return found, done.stdout


@pytest.mark.ci
@pytest.mark.timeout(600)
def test_the_command_runs_where_only_torch_is(tmp_path: Path) -> None:
    """A smoke run without this project's other packages ends well, with all parts in the report, skips with reasons."""
    report, told = smoke(tmp_path, "--no-peers", "--seconds", "560")
    assert set(report) >= {"works", "ceilings", "steps", "simulated", "gaps", "products", "exactness", "int8", "int4"}
    assert all("no module named" in what or "smoke" in what or "compile" in what for what in report["skipped"]), report[
        "skipped"
    ]
    assert [outcome["gaps"] for outcome in report["exactness"]["tiny Llama"]] == [[], []]
    assert len(report["gaps"]["tiny Llama"]) == len(report["ghost_text"]["tiny Llama"]) == 2
    assert "numba" in report["works"]["packages"]
    assert all(answer.startswith("works") for question, answer in report["works"].items() if "after" in question)
    assert "SIMULATED" in told
    assert "SMOKE" in told
    assert str(tmp_path / "results") in told
    assert (tmp_path / "results" / "report.txt").read_text(encoding="utf-8").strip() in told


def test_a_part_that_dies_or_hangs_costs_itself_alone(tmp_path: Path) -> None:
    """What a part's process died of is told, with its last words; what takes too long is ended."""
    chosen = argparse.Namespace(
        seconds=None, first=True, out=tmp_path / "results", smoke=True, models="", acceptance=tmp_path / "absent"
    )
    run = _Run(chosen)
    request = {"model": "tiny Llama", "kernels": "torch", "smoke": True, "brief": True, "seconds": 60}
    done, why = run._process(request | {"parts": ["products", "no such part"], "model": ""}, run.report.files("a"), 60)
    assert not done
    assert "StopIteration" in why
    done, why = run._process(request | {"parts": ["steps"]}, run.report.files("b"), 0.1)
    assert "took more than" in why
    assert {path.name for path in (tmp_path / "results").iterdir()} >= {"01-a.log", "02-b.request.json"}


def test_what_comes_after_a_part_that_dies_is_done_by_another_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Parts that were done before are kept, the one that died is told, the rest is begun anew."""
    chosen = argparse.Namespace(
        seconds=None, first=True, out=tmp_path / "results", smoke=True, models="", acceptance=tmp_path / "absent"
    )
    run, asked = _Run(chosen), list[list[str]]()

    def process(request: dict[str, Any], _files: Path, _seconds: float) -> tuple[dict[str, Any], str]:
        asked.append(request["parts"])
        until = request["parts"].index("dies") if "dies" in request["parts"] else len(request["parts"])
        done = [{"part": part, "found": {part: 1}, "skipped": []} for part in request["parts"][:until]]
        return {"done": done, "machine": {"device": "d", "date": "t"}}, "ended with -6: illegal access"

    monkeypatch.setattr(run, "_process", process)
    run._parts(["first", "dies", "last"], "tiny Llama")
    assert asked == [["first", "dies", "last"], ["last"]]
    assert run.report.found["first"] == run.report.found["last"] == {"tiny Llama": 1}
    assert any("dies of tiny Llama: ended with -6" in what for what in run.report.found["skipped"])


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
    asking = Dataset("suite", "product", "made up", (Task(101, {PLAIN: [Step(1, 1, 0.0)], "auto": [Step(9, 5, 0.0)]}),))
    given = replace(times, best_ms={1: 7.0, 16: 0.5})
    _, auto = simulate([asking], "model", given, eager_ms=None)
    assert auto.ms_per_token == pytest.approx((1.5 + 2.0 * 100 / 200 + 0.25 + 0.5) / 5)
    assert drafted.over_plain == pytest.approx(plain.ms_per_token / drafted.ms_per_token)


@pytest.mark.parametrize("name", ["none", "fastcoder", "auto"])
def test_the_host_is_timed_over_a_recording(name: str, llama_folder: Path) -> None:
    """The graph engine's host path says what was recorded, in fewer steps where drafts are right; each gap is told."""
    said = (300, 301, 302) * 12
    trace = Trace(repoeval.Task("t", "r", "p", 0, 0), (5, 300, 301, 302), said)
    gaps = gaps_us(make(name, DrafterParts()), trace, Tokenizer.load(llama_folder), 16)
    assert all(us > 0 for us in gaps)
    assert len(gaps) == len(said) - 1 if name == "none" else len(gaps) < len(said) // 2


class Gpu:
    """A run whose parts answer at once: `ms` of each way's steps, and how far its logits are from torch's."""

    def __init__(self, folder: Path) -> None:
        self.ms: dict[str, float] = {"torch": 2.0, "fused": 1.5}
        self.apart: dict[str, float] = {"fused": 0.01}
        self.asked: list[tuple[str, tuple[str, ...]]] = []
        chosen = argparse.Namespace(
            seconds=60,
            first=False,
            out=folder,
            smoke=False,
            models="0.5B",
            kernels="auto",
            acceptance=folder / "absent",
        )
        self.run = _Run(chosen)
        self.run._parts = self._parts  # type: ignore[method-assign, assignment]  # no process is begun

    def _parts(self, parts: list[str], model: str, kernels: str = "torch", *, each: float = 0.0) -> None:
        self.asked.append((kernels, tuple(parts)))
        if kernels in self.ms:
            self.run.report.add("probes", {kernels: {"steps": {"1×9": {"device_ms": self.ms[kernels]}}}}, model)
        if "disagreement" in parts and kernels in self.apart:
            self.run.report.add("disagreement", {kernels: {"1": self.apart[kernels]}}, model)

    def taken(self) -> str:
        return self.run._kernels("0.5B")


def test_the_quickest_kernels_that_are_right_are_measured(tmp_path: Path) -> None:
    """The quicker ones, what is wrong or died never, torch's where all else fails."""
    gpu = Gpu(tmp_path)
    assert gpu.taken() == "fused"
    assert gpu.asked == [(name, ("probe", "disagreement")[: 1 + (name != "torch")]) for name in gpu.ms]
    gpu = Gpu(tmp_path)
    gpu.apart["fused"] = 0.5
    assert gpu.taken() == "torch"
    gpu = Gpu(tmp_path)
    del gpu.apart["fused"], gpu.ms["fused"]
    assert gpu.taken() == "torch"
    gpu = Gpu(tmp_path)
    gpu.ms.clear()
    assert gpu.taken() == "torch"


def test_a_first_look_asks_for_what_matters_first(tmp_path: Path) -> None:
    """What works, steps and whether they are right; then the real model, and exactness over random weights last."""
    gpu = Gpu(tmp_path)
    gpu.run._chosen.first = True
    gpu.run.all()
    parts = [part for _, parts in gpu.asked for part in parts]
    assert parts[0] == "works"
    assert parts[-5:] == ["steps", "reference", "ghost", "real", "exactness"]
    assert gpu.asked[-1] == ("fused", ("exactness",))


def test_ways_are_asked_for_by_name(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A name that means nothing is refused before anything runs."""
    with pytest.raises(SystemExit):
        main(["--kernels", "fused without speed", "--smoke", "--out", str(tmp_path)])
    assert "--kernels" in capsys.readouterr().err
    assert not any(tmp_path.iterdir())


@pytest.mark.ci
def test_the_graph_engine_says_what_transformers_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Given the same weights no token differs, drafted or not; given one head that is wrong many do, and it is told."""
    bench = make_bench({"smoke": True, "seconds": 100}, tmp_path)
    model = bench.models[0]
    outcome = reference.measure(bench, model, "torch")
    assert set(outcome) == {"plain", "drafted"}
    assert all(each.gaps == () and each.sound and each.tokens > 0 for each in outcome.values())
    raw = RandomSource.raw

    def spoilt(source: RandomSource, name: str, *shape: int) -> Any:
        values = raw(source, name, *shape)
        return values.roll(1, 0) if name == "model.layers.1.mlp.up_proj.weight" else values

    network = peers.make(bench, model)
    monkeypatch.setattr(RandomSource, "raw", spoilt)
    monkeypatch.setattr(peers, "make", lambda *_given: network)
    outcome = reference.measure(bench, model, "torch")
    assert not any(each.sound for each in outcome.values())
    told = "\n".join(_reference("m", "plain", asdict(each) | {"sound": each.sound}) for each in outcome.values())
    assert "WRONG" in told
