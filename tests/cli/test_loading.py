"""Commands start light, refuse wrong arguments before any work, and say what they wait for."""

import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from fastcoder_lsp.cli import terminal
from fastcoder_lsp.cli.main import main
from fastcoder_lsp.cli.terminal import Loading
from fastcoder_lsp.config.environment import neutral_folder, python_command
from fastcoder_lsp.model import count_parameters, prepare, require_checkpoint
from fastcoder_lsp.papers.train.run_folder import RunFolder
from tests.model.tiny import write_gguf


def spoken(told: Loading) -> None:
    told._timer.join()


def test_a_long_load_is_told_a_line_each(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(terminal, "SILENT_S", 0.05)
    with Loading("loading the model") as told:
        spoken(told)
        told(1, "reading weights")
        told(50, "reading weights")
        told(0, "compiling")
        told(None, "")
        told(None, "later")
    said = capsys.readouterr()
    assert (said.out, said.err) == ("", "loading the model …\nreading weights …\ncompiling …\n")


def test_a_silence_ends_with_the_last_news(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(terminal, "SILENT_S", 3600)
    with Loading("loading the model") as told:
        told(1, "reading weights")
        told._break_silence()
    assert capsys.readouterr().err == "reading weights …\n"


def test_a_short_load_prints_nothing(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(terminal, "SILENT_S", 60)
    with Loading("loading the model") as told:
        told(1, "reading weights")
    spoken(told)
    assert capsys.readouterr().err == ""
    with pytest.raises(ValueError, match="no model"), Loading("loading the model") as told:
        raise ValueError("no model")
    spoken(told)
    assert capsys.readouterr().err == ""


ROOT = Path(__file__).parents[2]
MOST_MODULES = 80
"""Of the standard library and ours, beyond what Python itself begins with; there are some fifty."""

PROGRAM = """
import sys
before = set(sys.modules)
from fastcoder_lsp.cli.main import main
try:
    main(sys.argv[1:])
except SystemExit:
    pass
print(*sorted(set(sys.modules) - before), sep="\\n")
"""


def test_it_imports_our_own_and_the_standard_library() -> None:
    done = subprocess.run(
        [sys.executable, "-P", "-c", PROGRAM, "--version"], capture_output=True, text=True, check=True
    )
    modules = done.stdout.splitlines()[1:]
    strangers = {name.partition(".")[0] for name in modules} - sys.stdlib_module_names - {"fastcoder_lsp"}
    assert not strangers
    assert len(modules) < MOST_MODULES
    assert not {name for name in modules if name.startswith("fastcoder_lsp.cli.")} - {
        "fastcoder_lsp.cli.main",
        "fastcoder_lsp.cli.start",
    }


@pytest.mark.parametrize("entries", [f"{ROOT}{os.pathsep}", f"{os.pathsep}{ROOT}", f".{os.pathsep}{ROOT}"])
def test_a_process_of_ours_begins_in_pythons_own_folder(entries: str) -> None:
    """Though PYTHONPATH names the working folder, as with a colon too many: there it is where Python's modules are."""
    command = python_command("fastcoder_lsp.cli.main", "model", "list")
    environment = os.environ | {"PYTHONPATH": entries}
    done = subprocess.run(command, capture_output=True, text=True, cwd=neutral_folder(), env=environment, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    "line",
    [
        "team --replicas 0",
        "team --port 0",
        "team key add me --open 0",
        "team key add me --a-minute -5",
        "http --port 65536",
        "index search x --limit -1",
        "corpus build . --name ../x",
        "corpus remove ../x",
        "bench engine --rounds 0",
    ],
)
def test_a_number_or_name_out_of_bounds_is_wrong_use(line: str, capsys: pytest.CaptureFixture[str]) -> None:
    try:
        code = main(shlex.split(line))
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else 0
    assert code == 2
    assert shlex.split(line)[-1] in capsys.readouterr().err


TRAINING = (
    *("medusa --heads 0", "eagle --test-steps x", "distill --student a --said -1", "self --places 0"),
    *("sdsat --longest 0", "sdsat --weight -1", "sdsat --rank 0", "sdsat --rate nan", "sdsat --max-minutes 0"),
    *("sdsat --seed -1", "cllm --block 1", "cllm --trajectories 0", "cllm --blocks 0", "cllm --correct 1.5"),
)


@pytest.mark.parametrize("line", TRAINING)
def test_training_refuses_a_wrong_number(line: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = [] if line.startswith("self") else ["--out", str(tmp_path / "run")]
    with pytest.raises(SystemExit) as ended:
        main(["train", *line.split(), "--data", str(tmp_path), *out])
    assert ended.value.code == 2
    assert line.split()[-2] in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


def test_a_drafters_run_has_no_model_to_export(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    RunFolder(tmp_path / "run").begin({"method": "medusa"}, restart=False)
    assert main(["train", "export", str(tmp_path / "run")]) == 2
    assert "needs no export" in capsys.readouterr().err


def test_training_without_data_writes_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Unpacking a model's weights would take gigabytes."""
    write_gguf(tmp_path / "tiny.gguf")
    monkeypatch.setenv("FASTCODER_CACHE", str(tmp_path / "cache"))
    model = ["--model", str(tmp_path / "tiny.gguf")]
    assert main(["model", "pull", model[1]]) == 0
    capsys.readouterr()
    for action in ("sdsat", "cllm", "medusa", "eagle"):
        out = tmp_path / action
        assert main(["train", action, *model, "--data", str(tmp_path / "absent"), "--out", str(out)]) == 2
        assert f"{tmp_path / 'absent'}: no such file or folder" in capsys.readouterr().err
        assert not out.exists()
    assert not list((tmp_path / "cache").rglob("model.safetensors"))


def test_a_models_size_is_known_before_its_weights_are_unpacked(tmp_path: Path) -> None:
    write_gguf(tmp_path / "tiny.gguf")
    folder = prepare(str(tmp_path / "tiny.gguf"), tmp_path / "cache", lambda _share, _what: None).folder
    before = count_parameters(folder)
    require_checkpoint(folder, lambda _share, _what: None)
    assert before == count_parameters(folder) > 0
