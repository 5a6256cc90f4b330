"""The texts that guide four-bit weights are prompts of real code; the command chooses, keeps and judges."""

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fastcoder_lsp.cli.doctor.model import check_weights
from fastcoder_lsp.cli.main import main
from fastcoder_lsp.config import Settings
from fastcoder_lsp.engine.architecture import fast_shape, read_config
from fastcoder_lsp.engine.calibrated import CalibrationResult, Loss
from fastcoder_lsp.engine.int8.selftest import fitting_kinds
from fastcoder_lsp.engine.int8.stored import WeightsRequest
from fastcoder_lsp.engine.job import LoadJob
from fastcoder_lsp.errors import UsageError
from fastcoder_lsp.model import find
from fastcoder_lsp.runtime import calibration
from fastcoder_lsp.runtime.calibration import JUDGING, LENGTH, fill_in_texts
from fastcoder_lsp.tokenizer import Tokenizer
from tests.engine.tiny_models import make_model
from tests.faults.small_model import CONTROL, tokenizer

PREFIX, SUFFIX, MIDDLE = (CONTROL.index(f"<|fim_{part}|>") for part in ("prefix", "suffix", "middle"))


def test_texts_are_asked_as_in_an_editor() -> None:
    letters = [chr(ord("a") + number) for number in range(20)]
    sources = ["".join(f"{letter}{place % 10}" for place in range(8 * LENGTH)) for letter in letters]
    reader = Tokenizer(json.dumps(tokenizer()))
    texts_SC = fill_in_texts([*sources, "too short"], reader, 4, LENGTH)
    assert texts_SC.shape == (4, LENGTH)
    for tokens in texts_SC.tolist():
        suffix, middle = tokens.index(SUFFIX), tokens.index(MIDDLE)
        assert tokens[0] == PREFIX
        assert 0 < suffix < middle < LENGTH - 8
        whole = reader.decode([*tokens[1:suffix], *tokens[middle + 1 :], *tokens[suffix + 1 : middle]])
        assert any(whole in source for source in sources)
    assert len({reader.decode(tokens)[0] for tokens in texts_SC.tolist()} - set("0123456789")) >= 2
    assert np.array_equal(texts_SC, fill_in_texts([*sources, "too short"], reader, 4, LENGTH))


def test_without_code_nothing_is_chosen() -> None:
    """A Python without its library is told apart from a fault."""
    with pytest.raises(UsageError, match="too little code"):
        fill_in_texts(["short"] * 30, Tokenizer(json.dumps(tokenizer())), 4, LENGTH)


def test_doctor_says_which_weights_run_and_how_to_go_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("FASTCODER_CACHE", str(tmp_path / "cache"))
    folder = make_model(tmp_path / "model", "qwen2")
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer(), ensure_ascii=False), encoding="utf-8")
    shape = fast_shape(read_config(folder))
    assert shape is not None
    files, kind = find(str(folder), tmp_path / "cache"), next(fitting_kinds(shape, 4))

    def said(engine: str) -> str:
        return " ".join(
            f"{check.text} {check.hint}" for check in check_weights(Settings(model=str(folder), engine=engine))
        )

    plain = said("cpu-int4")
    assert "not calibrated" in plain
    assert f"model calibrate {folder}" in plain
    assert said("auto") == said("cpu-int8") == ""
    place = WeightsRequest(files.folder, shape, kind, files.digest, tmp_path / "cache").path("F16", calibrated=True)
    place.parent.mkdir(parents=True)
    for nats, taken in ((0.01, True), (0.5, False)):
        place.touch()
        place.with_suffix(".json").write_text(json.dumps({"nats": nats, "standard_error": 0.002, "tokens": 9}))
        assert f"{nats:.3f} ± 0.002 nats" in said("cpu-int4")
        assert f"calibrate {folder} --undo" in said("cpu-int4")
        assert ("`auto` uses them" in said("auto")) == taken == ("--undo" in said("auto"))
        assert said("cpu-int8") == ""
    for expected in ("uncalibrated", "no calibrated weights"):
        assert main(["model", "calibrate", str(folder), "--undo"]) == 0
        assert expected in capsys.readouterr().out
    assert said("cpu-int4") == plain


def test_texts_are_no_longer_than_the_model_reads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """More rows than the KV cache has slots are written behind it: the process ended by a signal."""
    monkeypatch.setenv("FASTCODER_CACHE", str(tmp_path / "cache"))
    folder = make_model(tmp_path / "model", "qwen2", vocab_size=288, max_position_embeddings=96)
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer(), ensure_ascii=False), encoding="utf-8")
    seen = list[tuple[int, ...]]()

    def choose(job: LoadJob, guiding_SC: Any, judging_SC: Any) -> CalibrationResult:
        seen.extend((job.context, *texts_SC.shape) for texts_SC in (guiding_SC, judging_SC))
        return CalibrationResult(Loss(0, 0, 1), Loss(0, 0, 1))

    monkeypatch.setattr(calibration, "choose_weights", choose)
    calibration.calibrate(str(folder), lambda _share, _what: None)
    assert seen == [(96, calibration.GUIDING, 96), (96, JUDGING, 96)]


@pytest.mark.ci
def test_the_command_chooses_and_says_what_is_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = make_model(tmp_path / "model", "qwen2", vocab_size=288)
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer(), ensure_ascii=False), encoding="utf-8")
    (tmp_path / "cache").mkdir(mode=0o700)
    monkeypatch.setenv("FASTCODER_CACHE", str(tmp_path / "cache"))
    assert main(["model", "calibrate", str(folder)]) == 0
    said = capsys.readouterr()
    names = sorted(
        path.suffix for path in (tmp_path / "cache" / "int4").glob("*-calibrated-*") if path.suffix != ".lock"
    )
    assert names == ([".json", ".safetensors"] if ": kept" in said.err else [])
    assert re.search(r"lose -?\d\.\d{3} ± \d\.\d{3} nats a token", said.out)
    assert f"{JUDGING * (LENGTH - 1)} tokens" in said.err
