"""Nobody waits for long without a word, and what ends soon leaves none behind."""

import pytest

from fastcoder_lsp.cli import terminal
from fastcoder_lsp.cli.terminal import Loading


def spoken(told: Loading) -> None:
    """Wait until the silence is over."""
    told._timer.join()


def test_a_long_load_is_told_a_line_each(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """What is being done when the silence is broken, and then whatever else is; never how far."""
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


def test_what_was_told_before_is_said_when_the_silence_is_broken(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(terminal, "SILENT_S", 3600)
    with Loading("loading the model") as told:
        told(1, "reading weights")
        told._break_silence()
    assert capsys.readouterr().err == "reading weights …\n"


def test_what_ends_soon_leaves_nothing_behind(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(terminal, "SILENT_S", 60)
    with Loading("loading the model") as told:
        told(1, "reading weights")
    spoken(told)
    assert capsys.readouterr().err == ""
    with pytest.raises(ValueError, match="no model"), Loading("loading the model") as told:
        raise ValueError("no model")
    spoken(told)
    assert capsys.readouterr().err == ""
