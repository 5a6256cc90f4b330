"""What is learnt from: read by the rules, cut the same in every run, re-ordered as published, cleaned of repetition."""

import random
import tarfile
import zipfile
from contextlib import ExitStack, closing
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from fastcoder_lsp import model as models
from fastcoder_lsp.cli.main import main
from fastcoder_lsp.core import DraftTree, Engine
from fastcoder_lsp.errors import FastcoderError, UsageError
from fastcoder_lsp.papers.train.cllm import (
    CONSISTENCY,
    CllmSettings,
    EngineCollector,
    JacobiCollector,
    Trajectory,
    TrajectoryCollector,
    cleaned,
    distinct_share,
    example_of,
    load,
    save,
)
from fastcoder_lsp.papers.train.example import Sequence, Sequences
from fastcoder_lsp.papers.train.loop import rate
from fastcoder_lsp.papers.train.options import PUBLISHED, RequestedOptions, TrainingDevice, resolve_options
from fastcoder_lsp.papers.train.samples import open_target
from fastcoder_lsp.papers.train.sdsat import MASKED, PLAIN, SdsatSettings, choose_adaptive, examples_of
from fastcoder_lsp.papers.train.texts import read_texts
from fastcoder_lsp.tokenizer import Tokenizer
from tests.engine import tiny_models
from tests.papers.train import made_up
from tests.papers.train.conftest import Speaker

CODE = "def area(width, height):\n    return width * height\n\n" * 8
OTHER = CODE.replace("area", "size")


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> Tokenizer:
    return made_up.write_tokenizer(tmp_path_factory.mktemp("tokenizer"))


def test_the_shipped_model_speaks_the_language(tokenizer: Tokenizer, speaker: Speaker) -> None:
    """Were the language changed, all else here would be about a model that babbles: make_speaker.py makes it anew."""
    assert speaker.tokenizer.identity == tokenizer.identity
    model, right, count = tiny_models.transformers_model(speaker.folder), 0, 0
    for prompt, rest in made_up.held_out(tokenizer, 4, 40):
        said = model.generate(torch.tensor([prompt]), max_new_tokens=48, do_sample=False)[0, len(prompt) :].tolist()
        right += sum(one == other for one, other in zip(said, rest, strict=False))
        count += 48
    assert right >= 0.9 * count


def test_folders_are_read_by_the_rules(tokenizer: Tokenizer, tmp_path: Path) -> None:
    for name in ("a.py", "copy.py", "sub/b.py", ".env", "ignored.py", "node_modules/x.js", "notes.json", "id_rsa"):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(OTHER if name == "sub/b.py" else CODE if name in ("a.py", "copy.py") else CODE + f"# {name}\n")
    (tmp_path / ".gitignore").write_text("ignored.py\n")
    found = read_texts([str(tmp_path)], tokenizer, tmp_path)
    assert sorted(found.texts) == sorted([CODE, OTHER])


def test_archives_are_read_without_being_unpacked(tokenizer: Tokenizer, tmp_path: Path) -> None:
    inside = tmp_path / "inside"
    inside.mkdir()
    (inside / "a.py").write_text(CODE)
    (inside / "b.py").write_text(OTHER)
    with tarfile.open(tmp_path / "all.tar.gz", "w:gz") as archive:
        archive.add(inside / "a.py", "../../outside/a.py")
        archive.add(inside / "b.py", "b.py")
    with zipfile.ZipFile(tmp_path / "all.zip", "w") as zipped:
        zipped.write(inside / "a.py", "/a.py")
        zipped.write(inside / "b.py", "b.py")
    before = sorted(tmp_path.parent.rglob("*.py"))
    texts = [read_texts([str(tmp_path / name)], tokenizer, tmp_path) for name in ("inside", "all.tar.gz", "all.zip")]
    assert texts[0].fingerprint == texts[1].fingerprint == texts[2].fingerprint
    assert sorted(tmp_path.parent.rglob("*.py")) == before
    (tmp_path / "cut.tar.gz").write_bytes((tmp_path / "all.tar.gz").read_bytes()[:60])
    with pytest.raises(UsageError):
        read_texts([str(tmp_path / "cut.tar.gz")], tokenizer, tmp_path)


def test_a_corpus_gives_its_files(speaker: Speaker, capsys: pytest.CaptureFixture[str]) -> None:
    """What `corpus build` took in can be learnt from by its name; an unknown name is told."""
    command = ["corpus", "build", str(speaker.texts), "--name", "made-up", "--model", str(speaker.folder)]
    assert main(command) == 0
    capsys.readouterr()
    corpus = read_texts(["corpus:made-up"], speaker.tokenizer, speaker.cache)
    folder = read_texts([str(speaker.texts)], speaker.tokenizer, speaker.cache)
    assert sorted(corpus.texts) == sorted(folder.texts)
    with pytest.raises(UsageError, match="corpus"):
        read_texts(["corpus:nobody"], speaker.tokenizer, speaker.cache)


def texts_of(count: int) -> tuple[str, ...]:
    language, draw = made_up.Language(), random.Random(9)
    return tuple(language.text(draw, seen=True) for _ in range(count))


def test_windows_depend_on_seed_and_number_alone(tokenizer: Tokenizer) -> None:
    texts = texts_of(30)
    left, right = (Sequences(texts, tokenizer, length=64, seed=1) for _ in range(2))
    asked = [left.at(index) for index in (0, 7, 200, 3)]
    again = [right.at(index) for index in (3, 200, 7, 0)][::-1]
    assert all(np.array_equal(one.tokens, other.tokens) for one, other in zip(asked, again, strict=True))
    held = [tokenizer.decode(one.tokens.tolist()) for one in left.held_out()]
    assert held
    plain = Sequences(texts, tokenizer, length=64, seed=1, fim_share=0.0)
    learnt = "\n".join(tokenizer.decode(plain.at(index).tokens.tolist()) for index in range(len(plain)))
    assert all(text not in learnt for text in held)


def test_half_of_the_windows_are_re_ordered(tokenizer: Tokenizer) -> None:
    """PSM and SPM a quarter each; put back in their order the parts are the text, and fit the length."""
    sequences = Sequences(texts_of(60), tokenizer, length=96, seed=2)
    control = tokenizer.control
    kinds = {"plain": 0, "psm": 0, "spm": 0}
    for index in range(400):
        window = sequences.at(index)
        assert len(window) <= 96
        marks = [(place, int(token)) for place, token in enumerate(window.tokens) if not window.text[place]]
        names = [next(name for name, token in control.items() if token == mark) for _, mark in marks]
        if not marks:
            kinds["plain"] += 1
        else:
            assert names[:1] == ["<|fim_prefix|>"]
            kinds["spm" if len(marks) > 1 and marks[1][0] == 1 else "psm"] += 1
    assert 150 <= kinds["plain"] <= 250
    assert min(kinds["psm"], kinds["spm"]) >= 60


@given(st.integers(3, 60), st.integers(1, 9), st.sampled_from(["improved", "basic", "branches"]), st.integers(0, 99))
def test_windows_of_adaptive_tokens_are_as_published(length: int, longest: int, stream: str, seed: int) -> None:
    """1…L long, apart, never first or last; their labels are the next tokens of the text; the plain stream is whole."""
    sequence = Sequence(np.arange(length), np.ones(length, np.bool_))
    settings = SdsatSettings(longest=longest, starts=0.2, stream=stream)  # type: ignore[arg-type]
    examples = list(examples_of(sequence, (999,), settings, random.Random(seed)))
    for example in examples:
        runs, run = [], 0
        for place, token in enumerate(example.tokens):
            follows = token == 999 and place and example.tokens[example.parents[place]] == 999
            run = run + 1 if follows else 1 if token == 999 else 0
            runs.append(run)
        assert max(runs) <= longest
        for name, labels in example.labels.items():
            depths = example.depths()
            assert [int(depths[node]) + 1 for node in labels.nodes] == labels.ids.tolist()
            if name == MASKED:
                assert all(example.tokens[node] == 999 for node in labels.nodes)
    assert any(MASKED in example.labels for example in examples) == (stream != "basic")
    if stream != "basic":
        whole = next(example for example in examples if PLAIN in example.labels)
        assert whole.tokens[:length].tolist() == list(range(length))
        assert len(whole.labels[PLAIN].nodes) == length - 1


def test_adaptive_ids_are_unused_ones(tokenizer: Tokenizer) -> None:
    known = tokenizer.vocabulary
    assert choose_adaptive(tokenizer, known + 8, 2) == (known, known + 1)
    assert choose_adaptive(tokenizer, known, 2) == (known, known + 1)
    assert choose_adaptive(tokenizer, known + 1, 3) == (known + 1, known + 2, known + 3)


@pytest.mark.parametrize("by_engine", [True, False])
def test_trajectories_are_the_models_own(speaker: Speaker, *, by_engine: bool) -> None:
    prompts = [
        np.array(prompt[: 20 + 7 * place])
        for place, (prompt, _) in enumerate(made_up.held_out(speaker.tokenizer, 3, 40))
    ]
    with ExitStack() as opened:
        collector: TrajectoryCollector
        if by_engine:
            engine = opened.enter_context(closing(open_target(models.find(str(speaker.folder)), 256, speaker.cache)))
            said, collector = partial(_said, engine), EngineCollector(engine, block=8, ends=frozenset())
        else:
            model = tiny_models.transformers_model(speaker.folder)
            said, collector = partial(_greedy, model), JacobiCollector(model, "cpu", block=8, ends=frozenset())
            assert collector.batched
        together = collector.collect(prompts, 2, random.Random(0))
        for prompt, found in zip(prompts, together, strict=True):
            tokens = prompt.tolist()
            for _ in range(16):
                tokens.append(said(tokens))
            assert found.output.tolist() == tokens[len(prompt) :]
            assert len(found.states) == 2
            for block, states in enumerate(found.states):
                before = prompt.tolist() + found.output[: 8 * block].tolist()
                assert set(states[0][1:].tolist()) <= set(prompt.tolist())
                for state, following in zip(states, [*states[1:], found.block_of(block)], strict=True):
                    assert [said(before + state[:place].tolist()) for place in range(8)] == following.tolist()


@pytest.mark.parametrize("place", [0, 3, 7, 8, 11])
def test_a_trajectory_ends_where_the_model_ends_its_text(speaker: Speaker, place: int) -> None:
    ((prompt, _),) = made_up.held_out(speaker.tokenizer, 1, 40)
    with closing(open_target(models.find(str(speaker.folder)), 256, speaker.cache)) as engine:
        (whole,) = EngineCollector(engine, block=8, ends=frozenset()).collect([np.array(prompt)], 2, random.Random(0))
        ends = frozenset([int(whole.output[place])])
        end = whole.output.tolist().index(whole.output[place]) + 1
        (cut,) = EngineCollector(engine, block=8, ends=ends).collect([np.array(prompt)], 2, random.Random(0))
    assert cut.output.tolist() == whole.output[:end].tolist()
    assert [states.shape[1] for states in cut.states] == [min(8, end - start) for start in range(0, end, 8)]


def test_a_trajectory_ends_where_the_context_is_full(speaker: Speaker) -> None:
    ((prompt, _),) = made_up.held_out(speaker.tokenizer, 1, 40)
    with closing(open_target(models.find(str(speaker.folder)), len(prompt) + 30, speaker.cache)) as engine:
        (found,) = EngineCollector(engine, block=8, ends=frozenset()).collect([np.array(prompt)], 99, random.Random(0))
        assert 8 <= len(found.output) < engine.info.context - len(prompt)
        (nothing,) = EngineCollector(engine, block=32, ends=frozenset()).collect(
            [np.array(prompt)], 9, random.Random(0)
        )
    assert cleaned(nothing) is None


def _greedy(model: Any, tokens: list[int]) -> int:
    with torch.inference_mode():
        return int(model(input_ids=torch.tensor([tokens])).logits[0, -1].argmax())


def _said(engine: Engine, tokens: list[int]) -> int:
    engine.prefill(tokens[:-1], lambda: False)
    return engine.step(DraftTree.chain(tokens[-1:])).emitted[0]


def a_trajectory(output: list[int], block: int = 4) -> Trajectory:
    states = tuple(np.zeros((2, block), np.int64) for _ in range(len(output) // block))
    return Trajectory(np.arange(5), np.array(output), states, block)


def test_repetition_is_cleaned_away() -> None:
    lively = list(range(16))
    kept = cleaned(a_trajectory(lively))
    assert kept is not None
    assert kept.output.tolist() == lively
    assert all(len(states) == 1 for states in kept.states)
    output = lively[:8] + [1, 2, 1, 2] * 6
    looping = cleaned(a_trajectory(output))
    assert looping is not None
    assert looping.output.tolist() == output[:16]
    assert distinct_share(output[:20]) < 0.7 <= distinct_share(output[:16])
    assert cleaned(a_trajectory([7] * 16, block=8)) is None


def test_trajectories_survive_their_file(tmp_path: Path) -> None:
    whole = a_trajectory(list(range(8)))
    ended = Trajectory(np.arange(3), np.arange(6), (np.ones((3, 4), np.int64), np.ones((1, 2), np.int64)), 4)
    save(tmp_path / "t.npz", [whole, ended])
    for one, other in zip(load(tmp_path / "t.npz"), [whole, ended], strict=True):
        assert one.prompt.tolist() == other.prompt.tolist()
        assert one.output.tolist() == other.output.tolist()
        assert [state.tolist() for state in one.states] == [state.tolist() for state in other.states]
    (tmp_path / "t.npz").write_bytes(b"PK")
    with pytest.raises(FastcoderError):
        load(tmp_path / "t.npz")


def test_wrong_tokens_are_corrected_at_random() -> None:
    draw = np.random.default_rng(0)
    trajectory = Trajectory(np.arange(5), draw.integers(0, 50, 16), (draw.integers(50, 99, (1, 16)),), 16)
    sizes = {
        share: len(example_of(trajectory, CllmSettings(correct=share), random.Random(1))) - 21
        for share in (0.0, 0.4, 1.0)
    }
    assert sizes[1.0] == 0
    assert 0 < sizes[0.4] <= sizes[0.0] == 16
    assert CONSISTENCY not in example_of(trajectory, CllmSettings(correct=1.0), random.Random(1)).pairs


def test_published_settings_are_the_defaults_and_less_is_said() -> None:
    """On a large GPU steps and rate are the papers'; every setting that is scaled down has its note."""
    large = TrainingDevice("cuda", 140 << 30, fast_bf16=True, parameters=1_300_000_000)
    settings, notes = resolve_options("sdsat", RequestedOptions(), large)
    published = PUBLISHED["sdsat"]
    assert (settings.steps, settings.rate, settings.warm_up, settings.betas) == (2000, 5e-5, 400, (0.9, 0.95))
    assert settings.final_rate == pytest.approx(1e-5)
    assert settings.tuning == "full"
    assert any(str(f"{published.length:,}") in note for note in notes) == (settings.length != published.length)
    small, notes = resolve_options(
        "sdsat", RequestedOptions(), TrainingDevice("cpu", 8 << 30, fast_bf16=False, parameters=494_000_000)
    )
    assert small.tuning == "lora"
    assert len(notes) >= 5
    assert rate(0, settings) < rate(399, settings) == pytest.approx(5e-5)
    assert rate(1999, settings) == pytest.approx(1e-5, rel=1e-3)
