"""`doctor --report` is for strangers: of what is planted in the machine and its messages nothing is in the file."""

import json
import os
import stat
from pathlib import Path

import pytest

from fastcoder_lsp.cli.doctor import check, report
from fastcoder_lsp.cli.main import main
from fastcoder_lsp.errors import UsageError

HOME = Path("/home/rosalind")
PLANTED = {
    "rosalind": "/home/rosalind/models/x.gguf and C:\\Users\\Rosalind\\x and /srv/rosalind",
    "franklin-laptop": "on franklin-laptop.lan",
    "hunter2": "https://me:hunter2@proxy.example/simple",
    "rosalind.f@example.org": "mail rosalind.f@example.org",
    "hf_abcdefghijklmnop": "401 with hf_abcdefghijklmnop",
    "ghp_0123456789abcdef": "ghp_0123456789abcdef",
    "q1w2e3r4": "Authorization: Bearer q1w2e3r4q1w2",
    "opensesame": "url?access_token=opensesame&x=1",
    "valueofavariable": "said valueofavariable twice: valueofavariable",
    "def patient_record": "numbers.append(«def patient_record():\n    pass»)",
}


@pytest.fixture
def redaction() -> report.Redaction:
    environment = {"SOME_API_KEY": "valueofavariable", "EDITOR": "emacs", "X_TOKEN": "on"}
    return report.Redaction(HOME, ("rosalind", "franklin-laptop"), environment)


@pytest.mark.parametrize("secret", PLANTED)
def test_nothing_planted_stays(secret: str, redaction: report.Redaction, tmp_path: Path) -> None:
    text = PLANTED[secret]
    found = check.Check("model", "wrong", text, text, {"deep": [{"er": text}], text: 1, "folder": Path(text)})
    report.write_report(tmp_path / "report.json", [found], redaction)
    written = (tmp_path / "report.json").read_text(encoding="utf-8")
    assert secret.lower() not in written.lower()


def test_what_is_useful_stays(redaction: report.Redaction) -> None:
    """The part of a path below home, versions, short settings, and names that only begin as home does."""
    assert redaction.text("/home/rosalind/.cache/x on numba 0.68") == "~/.cache/x on numba 0.68"
    assert redaction.text("emacs is on") == "emacs is on"
    assert redaction.text("/home/rosalinda/x") == "/home/rosalinda/x"
    assert redaction.value({"steps": 3, "ok": True, "ms": {"total": 1.5}}) == {
        "steps": 3,
        "ok": True,
        "ms": {"total": 1.5},
    }


def test_what_a_model_said_does_not_stay(redaction: report.Redaction) -> None:
    """It may be tuned on what is nobody else's."""
    assert redaction.value({"text": "def patient_record()", "tokens": 4}) == {"text": report.HIDDEN, "tokens": 4}


def test_a_file_of_somebody_elses_is_kept(redaction: report.Redaction, tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("mine")
    with pytest.raises(UsageError):
        report.write_report(tmp_path / "mine", [], redaction)
    assert (tmp_path / "mine").read_text() == "mine"


def test_by_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All checks are in it, home is not, and its owner alone can read it."""
    home = tmp_path / "marie-curie"
    home.mkdir()
    for name in ("HOME", "USERPROFILE"):
        monkeypatch.setenv(name, str(home))
    monkeypatch.setenv("FASTCODER_CACHE", str(home / "cache"))
    monkeypatch.setenv("HF_TOKEN", "hf_plantedplanted")
    path = tmp_path / "report.json"
    assert main(["doctor", "--model", "./hf_plantedplanted", "--report", str(path)]) == 1
    written = path.read_text(encoding="utf-8")
    assert "marie-curie" not in written
    assert "plantedplanted" not in written
    assert {"python", "packages", "cache", "model"} <= {one["name"] for one in json.loads(written)["checks"]}
    if os.name == "posix":
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
