"""A model whose files do not belong together, by the real loading of a tiny one."""

import json
from pathlib import Path
from typing import Any

import pytest

from fastcoder_lsp.config import Settings, cache_folder
from fastcoder_lsp.errors import ModelInvalidError
from fastcoder_lsp.runtime.load import load_model
from fastcoder_lsp.runtime.start_record import read_start
from tests.faults.small_model import CONTROL, WIDTH, tokenizer, write_model


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("FASTCODER_CACHE", str(tmp_path / "cache"))
    return write_model(tmp_path / "model")


def changed(folder: Path, **values: Any) -> None:
    described = tokenizer()
    for name, more in values.items():
        described[name] = more(described[name])
    (folder / "tokenizer.json").write_text(json.dumps(described, ensure_ascii=False), encoding="utf-8")


def load(folder: Path) -> None:
    load_model(Settings(model=str(folder), drafter="none"), lambda _share, _what: None, datastore=False).close()


def test_words_that_the_weights_do_not_know(folder: Path) -> None:
    """Told at the start with what to do, not as a fault of ours by the first text that has one of them."""
    word = {"ab": WIDTH + 3}
    changed(folder, model=lambda model: {**model, "vocab": model["vocab"] | word, "merges": ["a b"]})
    with pytest.raises(
        ModelInvalidError, match=f"up to {WIDTH + 3}, but the weights' only up to {WIDTH - 1}"
    ) as refused:
        load(folder)
    assert refused.value.hint


def test_marks_that_the_weights_do_not_know(folder: Path) -> None:
    far = {"<|fim_middle|>": WIDTH + 40}
    changed(folder, added_tokens=lambda tokens: [{**one, "id": far.get(one["content"], one["id"])} for one in tokens])
    with pytest.raises(ModelInvalidError, match=f"up to {WIDTH + 40}"):
        load(folder)


def test_control_tokens_that_no_prompt_holds_may_be_unknown(folder: Path) -> None:
    """Published models have some: a tokenizer with a token for padding that came after training."""
    more = {"id": WIDTH + 7, "content": "<|never|>", "special": True}
    changed(folder, added_tokens=lambda tokens: [*tokens, {**tokens[0], **more}])
    assert "<|never|>" not in CONTROL
    load(folder)


def test_a_context_that_is_shorter_than_a_prompt(folder: Path) -> None:
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"max_position_embeddings": 200}))
    load(folder)
    start = read_start(cache_folder())
    assert start is not None
    assert "prompts have at most 100 tokens instead of 1,400: the context is 200 tokens long" in start.notes
    (folder / "config.json").write_text(json.dumps(config | {"max_position_embeddings": 40}))
    with pytest.raises(ModelInvalidError, match="at most 40 tokens, too few"):
        load(folder)
