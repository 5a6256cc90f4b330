"""What commands print for strangers: nothing private in a report, no control characters in a terminal."""

import json
import os
import stat
import sys
from pathlib import Path

import pytest

from fastcoder_lsp.bench.report import print_table, shown
from fastcoder_lsp.cli.doctor import check
from fastcoder_lsp.cli.main import main
from fastcoder_lsp.cli.terminal import controls_shown, erase_line
from fastcoder_lsp.core.controls import visible
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
def redaction() -> check.Redaction:
    environment = {"SOME_API_KEY": "valueofavariable", "EDITOR": "emacs", "X_TOKEN": "on"}
    return check.Redaction(HOME, ("rosalind", "franklin-laptop"), environment)


@pytest.mark.parametrize("secret", PLANTED)
def test_nothing_planted_stays(secret: str, redaction: check.Redaction, tmp_path: Path) -> None:
    text = PLANTED[secret]
    found = check.Check("model", "wrong", text, text, {"deep": [{"er": text}], text: 1, "folder": Path(text)})
    check.write_report(tmp_path / "report.json", [found], redaction)
    written = (tmp_path / "report.json").read_text(encoding="utf-8")
    assert secret.lower() not in written.lower()


def test_what_is_useful_stays(redaction: check.Redaction) -> None:
    assert redaction.text("/home/rosalind/.cache/x on numba 0.68") == "~/.cache/x on numba 0.68"
    assert redaction.text("emacs is on") == "emacs is on"
    assert redaction.text("/home/rosalinda/x") == "/home/rosalinda/x"
    assert redaction.value({"steps": 3, "ok": True, "ms": {"total": 1.5}}) == {
        "steps": 3,
        "ok": True,
        "ms": {"total": 1.5},
    }


def test_what_a_model_said_does_not_stay(redaction: check.Redaction) -> None:
    assert redaction.value({"text": "def patient_record()", "tokens": 4}) == {"text": check.HIDDEN, "tokens": 4}


def test_a_file_of_another_user_is_kept(redaction: check.Redaction, tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("mine")
    with pytest.raises(UsageError):
        check.write_report(tmp_path / "mine", [], redaction)
    assert (tmp_path / "mine").read_text() == "mine"


def test_by_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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


HOSTILE = "a\x1b]0;t\x07\b\x9b2J\u202e\u200b\ud800\U000e0041\rb"
SHOWN = r"a\u001b]0;t\u0007\u0008\u009b2J\u202e\u200b\ud800\udb40\udc41\u000db"


def test_controls_are_shown(capsys: pytest.CaptureFixture[str]) -> None:
    before = sys.stdout, sys.stderr
    with controls_shown(), controls_shown():
        sys.stdout.write(f"{HOSTILE} \té😀\r\n")
        erase_line()
        sys.stderr.write(f"{HOSTILE}\n")
        sys.stdout.writelines([HOSTILE])
    assert (sys.stdout, sys.stderr) == before
    captured = capsys.readouterr()
    assert captured.out == f"{SHOWN} \té😀\r\n{SHOWN}"
    assert captured.err == f"\r\033[K{SHOWN}\n"


def test_benchmarks_draw_no_escapes(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm-256color")
    with controls_shown():
        print_table(HOSTILE.replace("\ud800", ""), ["", "ms"], [["step", 1.5]])
        with shown("measuring", 2) as tell:
            tell(1)
    captured = capsys.readouterr()
    assert "1.50" in captured.out
    assert "\x1b" not in captured.out
    assert "\\u001b[" not in captured.out + captured.err
    assert "measuring" in captured.err


def test_json_stays_the_same_value() -> None:
    value = {HOSTILE.replace("\ud800", ""): [HOSTILE.replace("\ud800", "")]}
    assert json.loads(visible(json.dumps(value, ensure_ascii=False))) == value


@pytest.mark.parametrize(
    "words", [["complete", "{}/no\x1b[2J.py:1:1"], ["\x1b[2J"], ["complete", "a:1:1", "--\x1b[2J"]]
)
def test_errors_show_control_characters(words: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    try:
        code = main([word.format(tmp_path) for word in words])
    except SystemExit as ended:
        code = int(str(ended.code))
    captured = capsys.readouterr()
    assert code == 2
    assert "\x1b" not in captured.out + captured.err
    assert r"\u001b[2J" in captured.err or r"\x1b[2J" in captured.err
