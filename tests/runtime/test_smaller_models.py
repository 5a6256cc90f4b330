"""Loading: smaller models that draft, with the same tokenizer and within their memory; files that do not fit."""

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fastcoder_lsp.config import Settings, cache_folder
from fastcoder_lsp.core import GREEDY, Sampler
from fastcoder_lsp.decode.loop import decode
from fastcoder_lsp.draft.base import NoDrafter
from fastcoder_lsp.draft.registry import DrafterParts, make, require_smaller
from fastcoder_lsp.errors import FastcoderError, ModelInvalidError, ResourceError, UsageError
from fastcoder_lsp.runtime.load import load_model
from fastcoder_lsp.runtime.smaller_models import SmallerModels
from fastcoder_lsp.runtime.start_record import read_start
from fastcoder_lsp.tokenizer import Tokenizer
from tests.draft.test_exactness import request
from tests.engine import tiny_models
from tests.faults.small_model import CONTROL, WIDTH, tokenizer, write_model


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tiny_models.make_model(tmp_path_factory.mktemp("small"), "qwen2")
    write_tokenizer(place, "abcdefgh")
    return place


def write_tokenizer(place: Path, letters: str) -> None:
    import tokenizers

    made = tokenizers.Tokenizer(
        tokenizers.models.BPE({letter: number + 1 for number, letter in enumerate(letters)} | {"<|end|>": 0}, [])
    )
    made.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = tokenizers.decoders.ByteLevel()
    made.add_special_tokens(["<|end|>"])
    made.save(str(place / "tokenizer.json"))
    (place / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": "PreTrainedTokenizerFast"}))


def models(folder: Path, cache: Path, *names: Path, memory_mb: int = 200) -> SmallerModels:
    settings = Settings(engine="cpu-fp32", context_tokens=128, threads=1, draft_memory_mb=memory_mb)
    named = replace(settings, draft_models=tuple(map(str, names)))
    return SmallerModels(named, cache, Tokenizer.load(folder), lambda _share, _what: None)


def test_they_are_loaded_once_and_lent_to_every_front(folder: Path, tmp_path: Path) -> None:
    smaller = models(folder, tmp_path, folder)
    assert len(smaller) == 1
    mine, other = smaller.of("one")[0], smaller.of("two")[0]
    assert smaller.of("one")[0] is mine
    mine.of("d").prefill((1, 2, 3), lambda: False)
    assert mine.of("d").cached() == (1, 2, 3)
    assert other.of("d").cached() == ()
    smaller.leave("one")
    assert mine.of("d").cached() == ()
    smaller.close()


def test_another_tokenizer_is_refused(folder: Path, tmp_path: Path) -> None:
    """A token must mean the same to both."""
    stranger = tmp_path / "stranger"
    shutil.copytree(folder, stranger)
    write_tokenizer(stranger, "abcdefhg")
    with pytest.raises(UsageError, match="a different tokenizer"):
        models(folder, tmp_path, stranger).of("")


def test_what_takes_too_much_memory_is_refused(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(ResourceError) as failure:
        models(folder, tmp_path, folder, folder, folder, memory_mb=70).of("")
    assert "draft.memory_mb" in (failure.value.hint or "")


def test_a_model_that_is_not_there_is_named(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(FastcoderError, match="nowhere"):
        models(folder, tmp_path, tmp_path / "nowhere").of("")
    for name in ("draft-model", "specinfer", "ouroboros", "draft-model-tree:length=3"):
        require_smaller(name, 1)
        with pytest.raises(UsageError) as failure:
            require_smaller(name, 0)
        assert "--draft-model" in (failure.value.hint or "")
    require_smaller("auto", 0)


@pytest.mark.parametrize("sampler", [GREEDY, Sampler(temperature=0.6, top_k=20, seed=4)], ids=["greedy", "sampled"])
@pytest.mark.parametrize("name", ["draft-model", "draft-model-tree", "specinfer", "ouroboros"])
def test_a_model_that_drafts_for_itself_is_nearly_always_right(
    folder: Path, tmp_path: Path, name: str, sampler: Sampler
) -> None:
    engine = tiny_models.load(folder, tmp_path, "cpu-fp32")
    smaller = models(folder, tmp_path, folder)
    drafter = make(name, DrafterParts(smaller=lambda: smaller.of("")))
    asked = request(tuple(range(1, 40)), 40, 12, sampler)
    plain = decode(engine, NoDrafter(), asked, lambda: False)
    drafted = decode(engine, drafter, asked, lambda: False)
    again = decode(engine, drafter, replace(asked, prompt=tuple(range(1, 30))), lambda: False)
    assert drafted.tokens == plain.tokens
    for decoded in (drafted, again):
        assert decoded.counts.steps <= 1 + len(decoded.tokens) / 2
    assert drafter.figures()["draft passes"] > 0
    smaller.close()
    engine.close()


@pytest.fixture
def tiny_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("FASTCODER_CACHE", str(tmp_path / "cache"))
    return write_model(tmp_path / "model")


def changed(tiny_folder: Path, **values: Any) -> None:
    described = tokenizer()
    for name, more in values.items():
        described[name] = more(described[name])
    (tiny_folder / "tokenizer.json").write_text(json.dumps(described, ensure_ascii=False), encoding="utf-8")


def load(tiny_folder: Path) -> None:
    load_model(Settings(model=str(tiny_folder), drafter="none"), lambda _share, _what: None, datastore=False).close()


def test_words_that_the_weights_do_not_know(tiny_folder: Path) -> None:
    """Told at the start with what to do, not as a fault of ours by the first text that has one of them."""
    word = {"ab": WIDTH + 3}
    changed(tiny_folder, model=lambda model: {**model, "vocab": model["vocab"] | word, "merges": ["a b"]})
    with pytest.raises(
        ModelInvalidError, match=f"up to {WIDTH + 3}, but the weights' only up to {WIDTH - 1}"
    ) as refused:
        load(tiny_folder)
    assert refused.value.hint


def test_marks_that_the_weights_do_not_know(tiny_folder: Path) -> None:
    far = {"<|fim_middle|>": WIDTH + 40}
    changed(
        tiny_folder, added_tokens=lambda tokens: [{**one, "id": far.get(one["content"], one["id"])} for one in tokens]
    )
    with pytest.raises(ModelInvalidError, match=f"up to {WIDTH + 40}"):
        load(tiny_folder)


def test_control_tokens_that_no_prompt_holds_may_be_unknown(tiny_folder: Path) -> None:
    """Published models have some: a tokenizer with a token for padding that came after training."""
    more = {"id": WIDTH + 7, "content": "<|never|>", "special": True}
    changed(tiny_folder, added_tokens=lambda tokens: [*tokens, {**tokens[0], **more}])
    assert "<|never|>" not in CONTROL
    load(tiny_folder)


def test_a_context_that_is_shorter_than_a_prompt(tiny_folder: Path) -> None:
    config = json.loads((tiny_folder / "config.json").read_text())
    (tiny_folder / "config.json").write_text(json.dumps(config | {"max_position_embeddings": 200}))
    load(tiny_folder)
    start = read_start(cache_folder())
    assert start is not None
    assert "prompts have at most 100 tokens instead of 1,400: the context is 200 tokens long" in start.notes
    (tiny_folder / "config.json").write_text(json.dumps(config | {"max_position_embeddings": 40}))
    with pytest.raises(ModelInvalidError, match="at most 40 tokens, too few"):
        load(tiny_folder)
