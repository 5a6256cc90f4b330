"""`train`: what cannot be is told before a model is looked for."""

from pathlib import Path

import pytest

from fastcoder_lsp.cli.main import main
from fastcoder_lsp.model import count_parameters, prepare, require_checkpoint
from fastcoder_lsp.train.run_folder import RunFolder
from tests.model.tiny import write_gguf


@pytest.mark.parametrize(
    "arguments",
    [
        ["medusa", "--heads", "0"],
        ["eagle", "--test-steps", "x"],
        ["dflash", "--block", "1"],
        ["distill", "--student", "a", "--said", "-1"],
        ["self", "--places", "0"],
        ["sdsat", "--longest", "0"],
        ["sdsat", "--weight", "-1"],
        ["sdsat", "--rank", "0"],
        ["sdsat", "--rate", "nan"],
        ["sdsat", "--max-minutes", "0"],
        ["sdsat", "--seed", "-1"],
        ["cllm", "--block", "1"],
        ["cllm", "--trajectories", "0"],
        ["cllm", "--blocks", "0"],
        ["cllm", "--correct", "1.5"],
    ],
)
def test_a_number_that_cannot_be_is_wrong_use(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: list[str]
) -> None:
    out = [] if arguments[0] == "self" else ["--out", str(tmp_path / "run")]
    with pytest.raises(SystemExit) as ended:
        main(["train", *arguments, "--data", str(tmp_path), *out])
    assert ended.value.code == 2
    assert arguments[-2] in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


def test_a_drafters_run_has_no_model_to_export(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    RunFolder(tmp_path / "run").begin({"method": "medusa"}, restart=False)
    assert main(["train", "export", str(tmp_path / "run")]) == 2
    assert "needs no export" in capsys.readouterr().err


def test_data_that_is_not_there_is_told_before_anything_is_written(
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


def test_the_size_of_a_model_is_known_before_its_weights_are_unpacked(tmp_path: Path) -> None:
    """It decides how the model is tuned."""
    write_gguf(tmp_path / "tiny.gguf")
    folder = prepare(str(tmp_path / "tiny.gguf"), tmp_path / "cache", lambda _share, _what: None).folder
    before = count_parameters(folder)
    require_checkpoint(folder, lambda _share, _what: None)
    assert before == count_parameters(folder) > 0
