"""Control characters in what a command prints are shown, whoever wrote them, and not obeyed."""

import json
import sys
from pathlib import Path

import pytest

from fastcoder_lsp.bench.report import print_table, shown
from fastcoder_lsp.cli.main import main
from fastcoder_lsp.cli.terminal import controls_shown, erase_line
from fastcoder_lsp.core.controls import visible

HOSTILE = "a\x1b]0;t\x07\b\x9b2J\u202e\u200b\ud800\U000e0041\rb"
SHOWN = r"a\u001b]0;t\u0007\u0008\u009b2J\u202e\u200b\ud800\udb40\udc41\u000db"


def test_controls_are_shown(capsys: pytest.CaptureFixture[str]) -> None:
    """On both streams; tabs, line ends, letters and our own controls stay; nothing is left of it afterwards."""
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
    """In a terminal: a table has no styles; a bar draws by controls of its own."""
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
    """Programs read it."""
    value = {HOSTILE.replace("\ud800", ""): [HOSTILE.replace("\ud800", "")]}
    assert json.loads(visible(json.dumps(value, ensure_ascii=False))) == value


@pytest.mark.parametrize(
    "words", [["complete", "{}/no\x1b[2J.py:1:1"], ["\x1b[2J"], ["complete", "a:1:1", "--\x1b[2J"]]
)
def test_a_command_says_what_is_wrong_without_obeying_it(
    words: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Names of files and words of the command line."""
    try:
        code = main([word.format(tmp_path) for word in words])
    except SystemExit as ended:
        code = int(str(ended.code))
    captured = capsys.readouterr()
    assert code == 2
    assert "\x1b" not in captured.out + captured.err
    assert r"\u001b[2J" in captured.err or r"\x1b[2J" in captured.err
