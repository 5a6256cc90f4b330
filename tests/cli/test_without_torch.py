"""What runs a model on a CPU does so where torch and transformers are not installed, and so do its processes."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from fastcoder_lsp.config import kernels_folder
from fastcoder_lsp.errors import InstallationError
from fastcoder_lsp.model import machine
from tests.model.tiny import write_gguf

ABSENT = """
import sys

class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("torch", "transformers", "accelerate", "peft"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Absent())
"""
"""Python reads it at the start of every process."""
NEEDED = (
    "fastcoder_lsp.lsp.server",
    "fastcoder_lsp.cli.serve",
    "fastcoder_lsp.cli.play.session",
    "fastcoder_lsp.cli.play.screen",
    "fastcoder_lsp.runtime.load",
    "fastcoder_lsp.draft.registry",
    "fastcoder_lsp.engine.loader",
    "fastcoder_lsp.engine.int8.backend",
    "fastcoder_lsp.engine.int8.stored",
)


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "sitecustomize.py").write_text(ABSENT)
    return os.environ | {"PYTHONPATH": str(tmp_path / "site")}


def run(environment: dict[str, str], *command: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-P", *command], env=environment, capture_output=True, text=True, check=False
    )


def test_they_are_absent_here(environment: dict[str, str]) -> None:
    for name in ("torch", "transformers"):
        assert "ModuleNotFoundError" in run(environment, "-c", f"import {name}").stderr


def test_the_servers_parts_can_be_loaded(environment: dict[str, str]) -> None:
    done = run(environment, "-c", "import " + ", ".join(NEEDED))
    assert done.returncode == 0, done.stderr


def test_a_gguf_is_made_ready_packed_and_looked_at(environment: dict[str, str], tmp_path: Path) -> None:
    write_gguf(tmp_path / "tiny.gguf")
    environment |= {"FASTCODER_CACHE": str(tmp_path / "cache"), "HF_HOME": str(tmp_path / "hf")}
    command, name = ("-m", "fastcoder_lsp.cli.main"), str(tmp_path / "tiny.gguf")
    pulled = run(environment, *command, "model", "pull", name)
    assert pulled.returncode == 0, pulled.stderr
    folder = Path(run(environment, *command, "model", "path", name).stdout.strip())
    report = json.loads(run(environment, *command, "doctor", "--json").stdout)
    states = {check["name"]: check["state"] for check in report["checks"]}
    assert states["packages"] == "ok"
    assert states["torch"] == "note"
    program = (
        "import sys; from pathlib import Path\n"
        "from fastcoder_lsp.engine.architecture import fast_shape, read_config\n"
        "from fastcoder_lsp.engine.int8.dot import PLAIN\n"
        "from fastcoder_lsp.engine.int8.stored import WeightsRequest, load_arrays\n"
        "folder = Path(sys.argv[1])\n"
        "wanted = WeightsRequest(folder, fast_shape(read_config(folder)), PLAIN, 'd', Path(sys.argv[2]))\n"
        "print(load_arrays(wanted, lambda *_: None)['norm'].shape)\n"
    )
    packed = run(environment, "-c", program, str(folder), str(tmp_path / "cache"))
    assert packed.stdout.strip() == "(32,)", packed.stderr


def test_the_engine_can_be_measured(environment: dict[str, str], tmp_path: Path) -> None:
    write_gguf(tmp_path / "tiny.gguf", context=2048)
    environment |= {"FASTCODER_CACHE": str(tmp_path / "cache"), "FASTCODER_KERNELS": str(kernels_folder())}
    command, name = ("-m", "fastcoder_lsp.cli.main"), str(tmp_path / "tiny.gguf")
    assert run(environment, *command, "model", "pull", name).returncode == 0
    measured = ("bench", "engine", "--model", name, "--rounds", "1", "--json", str(tmp_path / "engine.json"))
    done = run(environment, *command, *measured)
    assert done.returncode == 0, done.stderr
    assert "No comparison with transformers" in done.stderr
    assert "pip install" in done.stderr
    assert "step of 64" in done.stdout
    found = json.loads((tmp_path / "engine.json").read_text())
    assert {"1", "64"} <= set(found["forward_ms"])
    assert "prefill_ms" in found
    assert "transformers_bf16" not in found
    assert found["limits"].keys() == {"limits", "bandwidth", "products"}
    assert min(found["limits"]["limits"].values()) > 0
    assert found["limits"]["products"]["step of 64"] > found["limits"]["products"]["step of 1"] > 0
    assert "of memory" in done.stdout


def test_a_missing_package_is_named_with_its_command(environment: dict[str, str], tmp_path: Path) -> None:
    """A file that only transformers can read: which packages, and the line that installs them."""
    write_gguf(tmp_path / "new.gguf", pre="some-new-way")
    environment |= {"FASTCODER_CACHE": str(tmp_path / "cache")}
    done = run(environment, "-m", "fastcoder_lsp.cli.main", "model", "pull", str(tmp_path / "new.gguf"))
    assert done.returncode == InstallationError.exit_code, done.stderr
    assert "needs torch and transformers" in done.stderr
    assert re.search(r'-m pip install .*"fastcoder-lsp\[torch\]"$', done.stderr, re.MULTILINE)


def test_a_command_that_imports_them_says_how_to_get_them(environment: dict[str, str], tmp_path: Path) -> None:
    """Not to install all anew, which would leave them out again."""
    arguments = ("train", "sdsat", "--data", str(tmp_path), "--out", str(tmp_path / "out"))
    done = run(environment, "-m", "fastcoder_lsp.cli.main", *arguments)
    assert done.returncode == InstallationError.exit_code, done.stderr
    assert "this command needs accelerate and torch and transformers" in done.stderr
    assert re.search(r'-m pip install .*"fastcoder-lsp\[torch\]"$', done.stderr, re.MULTILINE)


@pytest.mark.parametrize(("memory_bytes", "small"), [(0, True), (8 << 30, False)])
def test_the_install_line_names_a_useful_torch(memory_bytes: int, small: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "gpu_memory_bytes", lambda: memory_bytes)
    monkeypatch.setattr(sys, "platform", "linux")
    assert ("whl/cpu" in machine.install_line("torch")) is small
    assert "whl/cpu" not in machine.install_line("transformers")


@pytest.mark.parametrize(
    ("packages", "wanted"),
    [
        (("accelerate", "torch", "transformers"), '"fastcoder-lsp[torch]"'),
        (("transformers",), '"fastcoder-lsp[torch]"'),
        (("peft",), '"fastcoder-lsp[train]"'),
        (("torch", "peft"), '"fastcoder-lsp[train]"'),
        (("ray",), '"fastcoder-lsp[team]"'),
        (("torch", "elsewhere"), "torch elsewhere"),
    ],
)
def test_the_install_line_names_the_smallest_extra(packages: tuple[str, ...], wanted: str) -> None:
    """An extra has the versions that fit, and a user finds it in the documentation."""
    assert machine.install_line(*packages).endswith(f" {wanted}")


@pytest.mark.ci
@pytest.mark.model
def test_the_default_model_completes(environment: dict[str, str], tmp_path: Path) -> None:
    file = tmp_path / "fibonacci.py"
    file.write_text("def fibonacci(n):\n    numbers = [0, 1]\n    while len(numbers) < n:\n        numbers.append(\n")
    command = ("complete", f"{file}:4:24", "--engine", "cpu-int8", "--json")
    done = run(environment, "-m", "fastcoder_lsp.cli.main", *command)
    assert done.returncode == 0, done.stderr
    assert "numbers[-1]" in json.loads(done.stdout)["text"]
