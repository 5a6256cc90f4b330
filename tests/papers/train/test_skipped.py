"""`train self`: from a folder of code to a set of parts that the drafter `self` leaves out."""

from pathlib import Path

import pytest

from fastcoder_lsp.cli.main import main
from fastcoder_lsp.errors import UsageError
from fastcoder_lsp.model import find, skip_sets
from fastcoder_lsp.papers.train.skipped import search_skipped
from tests.engine import tiny_models
from tests.runtime.test_smaller_models import write_tokenizer


def test_what_is_found_is_kept_for_the_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tiny_models.make_model(tmp_path / "model", "qwen2", num_hidden_layers=4)
    write_tokenizer(folder, "abcdefgh")
    code = tmp_path / "code"
    code.mkdir()
    (code / "a.py").write_text("def bad(face):\n    head = bead(cafe, decade)\n    return head\n" * 6)
    cache = tmp_path / "cache"
    found, path = search_skipped(str(folder), [str(code)], cache, places=2, rounds=3)
    assert path.is_relative_to(cache)
    assert skip_sets.kept(cache, find(str(folder), cache).digest).skipped == found.skipped
    monkeypatch.setenv("FASTCODER_CACHE", str(tmp_path / "other"))
    arguments = ["--data", str(code), "--places", "2", "--rounds", "3"]
    assert main(["train", "self", "--model", str(folder), *arguments]) == 0
    assert f"{found.speed:.2f} times as fast" in capsys.readouterr().out


def test_a_model_of_another_kind_is_refused(tmp_path: Path) -> None:
    folder = tiny_models.make_model(tmp_path / "model", "gpt_neox")
    write_tokenizer(folder, "abcdefgh")
    with pytest.raises(UsageError, match="cannot skip layers"):
        search_skipped(str(folder), [str(tmp_path)], tmp_path / "cache", places=1, rounds=1)
