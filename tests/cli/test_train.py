"""`train`: what cannot be is told before a model is looked for."""

from pathlib import Path

import pytest

from fastcoder_lsp.cli.main import main
from fastcoder_lsp.train.run_folder import RunFolder


@pytest.mark.parametrize(
    "arguments",
    [
        ["medusa", "--heads", "0"],
        ["eagle", "--test-steps", "x"],
        ["dflash", "--block", "1"],
        ["distill", "--student", "a", "--said", "-1"],
        ["self", "--places", "0"],
    ],
)
def test_a_number_that_cannot_be_is_wrong_use(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: list[str]
) -> None:
    """Not a fault of the program in the middle of a training."""
    out = [] if arguments[0] == "self" else ["--out", str(tmp_path / "run")]
    with pytest.raises(SystemExit) as ended:
        main(["train", *arguments, "--data", str(tmp_path), *out])
    assert ended.value.code == 2
    assert arguments[-2] in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


def test_a_drafters_run_has_no_model_to_export(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Its own command writes what it made."""
    RunFolder(tmp_path / "run").begin({"method": "medusa"}, restart=False)
    assert main(["train", "export", str(tmp_path / "run")]) == 2
    assert "by medusa" in capsys.readouterr().err
