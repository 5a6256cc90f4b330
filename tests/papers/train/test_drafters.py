"""Drafters with weights of their own: trained for the small model, they say more tokens a pass, and change none."""

import dataclasses
import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch

from fastcoder_lsp import model as models
from fastcoder_lsp.cli.main import main
from fastcoder_lsp.core import GREEDY, DraftContext, Sampler
from fastcoder_lsp.decode.loop import decode
from fastcoder_lsp.draft.base import NoDrafter, Trained
from fastcoder_lsp.draft.registry import DrafterParts, make, require_tuned
from fastcoder_lsp.engine.tree_engine import TreeEngine
from fastcoder_lsp.errors import FastcoderError, ModelInvalidError, UsageError
from fastcoder_lsp.model.drafter_files import RECORD, WEIGHTS, open_drafter
from fastcoder_lsp.papers.eagle import EagleLayer
from fastcoder_lsp.papers.train.drafters import EagleSession, MedusaSession
from fastcoder_lsp.papers.train.eagle import EagleSettings, Steps
from fastcoder_lsp.papers.train.medusa import MedusaSettings
from fastcoder_lsp.papers.train.options import RequestedOptions, SampleOptions
from fastcoder_lsp.papers.train.samples import shape_of
from fastcoder_lsp.papers.train.session import Result
from tests.papers.train.conftest import Speaker, aside, check_same, train
from tests.papers.train.test_training import NUCLEUS, SAMPLED, engine_of, requests, tokens_a_pass

pytestmark = pytest.mark.ci

OPTIONS = {
    "medusa": ("--steps", "200", "--rate", "3e-3"),
    "eagle": ("--steps", "90", "--rate", "3e-3", "--test-steps", "3"),
}
LEAST = {"medusa": 2.0, "eagle": 2.6}
METHODS = tuple(OPTIONS)
SESSIONS: dict[str, type[MedusaSession | EagleSession]] = {
    "medusa": MedusaSession,
    "eagle": EagleSession,
}
OWN = {"medusa": MedusaSettings(heads=2), "eagle": EagleSettings(steps=2)}


@pytest.fixture(scope="module")
def trained(speaker: Speaker, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    found = {}
    for method, options in OPTIONS.items():
        out = tmp_path_factory.mktemp(method)
        common = ["--model", str(speaker.folder), "--data", str(speaker.texts), "--out", str(out)]
        with aside(speaker.cache):
            assert main(["train", method, *common, "--length", "128", "--batch", "8", *options]) == 0
        found[method] = out / "drafter"
    return found


@pytest.fixture(scope="module")
def engine(speaker: Speaker) -> Iterator[TreeEngine]:
    made = engine_of(speaker.folder, speaker)
    yield made
    made.close()


@pytest.mark.parametrize("method", METHODS)
def test_a_pass_gives_more_tokens(speaker: Speaker, trained: dict[str, Path], engine: TreeEngine, method: str) -> None:
    assert tokens_a_pass(engine, make(f"{method}:weights={trained[method]}"), requests(speaker)) >= LEAST[method]
    figures = open_drafter(trained[method], method).record.figures
    assert figures["identical"] == 1.0
    assert figures["tokens_a_pass"] >= LEAST[method]


@pytest.mark.parametrize("sampler", [GREEDY, SAMPLED, NUCLEUS])
@pytest.mark.parametrize("method", METHODS)
def test_decoding_is_exact(
    speaker: Speaker, trained: dict[str, Path], engine: TreeEngine, method: str, sampler: Sampler
) -> None:
    drafter = make(f"{method}:weights={trained[method]}")
    for nodes in (2, 8, 40):
        asked = [dataclasses.replace(request, nodes=nodes) for request in requests(speaker, 2, sampler)]
        tokens_a_pass(engine, drafter, asked)


@pytest.mark.long
@pytest.mark.parametrize("sampler", [GREEDY, SAMPLED])
@pytest.mark.parametrize("method", METHODS)
def test_two_hundred_texts_are_the_same(
    speaker: Speaker, trained: dict[str, Path], engine: TreeEngine, method: str, sampler: Sampler
) -> None:
    tokens_a_pass(engine, make(f"{method}:weights={trained[method]}"), requests(speaker, 200, sampler))


@pytest.mark.parametrize("method", METHODS)
def test_another_target_is_refused(speaker: Speaker, trained: dict[str, Path], tmp_path: Path, method: str) -> None:
    digest = models.find(str(speaker.folder)).digest
    name = f"{method}:weights={trained[method]}"
    make(name, DrafterParts(trained=Trained(digest=digest)))
    with pytest.raises(ModelInvalidError, match="was made for"):
        make(name, DrafterParts(trained=Trained(digest="0" * 64)))
    with pytest.raises(UsageError, match="needs weights"):
        require_tuned(method, Trained())
    with pytest.raises(UsageError, match="there is no drafter"):
        make(f"{method}:weights={tmp_path}")
    row = json.loads((trained[method] / RECORD).read_text())
    for change in ({"version": 9}, {"layers": None}, {"lists": 3}):
        (tmp_path / RECORD).write_text(json.dumps(row | change))
        with pytest.raises(FastcoderError):
            make(f"{method}:weights={tmp_path}")
    (tmp_path / RECORD).write_text(json.dumps(row | {"method": "another"}))
    with pytest.raises(UsageError, match="another"):
        make(f"{method}:weights={tmp_path}")


def go(speaker: Speaker, out: Path, method: str, steps: int | None = None, said: int = 0) -> Result:
    """Train six steps, stopped after `steps` where that is given."""
    asked, collected = RequestedOptions(steps=6, length=64, batch=2, rate=1e-3), SampleOptions(samples=20, said=said)
    return train(SESSIONS[method], speaker, out, asked, OWN[method], steps, collected=collected)


@pytest.mark.parametrize("method", METHODS)
def test_an_interrupted_run_ends_at_the_same_weights(speaker: Speaker, tmp_path: Path, method: str) -> None:
    whole = go(speaker, tmp_path / "whole", method, said=8)
    for steps in (2, 1):
        assert not go(speaker, tmp_path / "parts", method, steps, said=8).outcome.finished
    parts = go(speaker, tmp_path / "parts", method, said=8)
    check_same(tmp_path / "whole", tmp_path / "parts", f"drafter/{WEIGHTS}")
    assert whole.record == parts.record
    with pytest.raises(UsageError, match="another run"):
        go(speaker, tmp_path / "parts", method, 1, said=4)


def test_eagle_computes_in_decoding_what_it_learnt(speaker: Speaker, trained: dict[str, Path]) -> None:
    files = open_drafter(trained["eagle"], "eagle")
    layer = EagleLayer(files.record, files.tensors())
    shape = shape_of(speaker.folder)
    draw = np.random.default_rng(4)
    rows, steps = 12, 3
    features = draw.normal(size=(rows, 3 * shape.width)).astype(np.float32)
    embedded = draw.normal(size=(rows + steps, shape.width)).astype(np.float32)
    parts = {
        name: torch.nn.Parameter(torch.from_numpy(value)) for name, value in files.tensors().items() if name != "ids"
    }
    learnt, hidden = Steps(parts, shape), torch.from_numpy(layer.fused(features))
    seen = np.tri(rows, dtype=np.bool_)
    out, keys = layer.forward(embedded[:rows], layer.fused(features), np.arange(rows), layer.none(), seen)
    for step in range(steps):
        with torch.no_grad():
            hidden = learnt.step(torch.from_numpy(embedded[step : step + rows]), hidden)
        assert np.allclose(hidden[-1].numpy(), out[-1], atol=1e-3)
        places = np.array([rows + step])
        chain = np.ones((1, rows + step + 1), np.bool_)
        out, own = layer.forward(embedded[rows + step][None], out[-1:], places, keys, chain)
        keys = keys.joined(own)


def test_what_is_new_alone_is_read(speaker: Speaker, trained: dict[str, Path], engine: TreeEngine) -> None:
    """Over a text that is gone on with, cut and gone on with otherwise, it drafts what a fresh one drafts."""
    name = f"eagle:weights={trained['eagle']},window=30"
    used, text = make(name), list(requests(speaker, 1)[0].prompt)
    engine.keep_states(used.traits.layers)
    for tokens in (text[:20], text[:24], text[:21], [*text[:12], 7, 9, 11], text, [*text, *text[:60]]):
        engine.prefill(tokens[:-1], lambda: False)
        context = DraftContext(tokens, 3, "d", (), len(tokens) - 1, engine)
        fresh = make(name)
        if len(tokens) <= 30:
            assert used.propose(context, 12) == fresh.propose(context, 12)
        else:
            assert len(used.propose(context, 12).tokens) == 12


def test_a_chain_is_a_tree_of_one_child(speaker: Speaker, trained: dict[str, Path], engine: TreeEngine) -> None:
    """`top_k=1` drafts a chain of `depth`."""
    drafter, text = make(f"eagle:weights={trained['eagle']},top_k=1,depth=5"), requests(speaker, 1)[0].prompt
    engine.keep_states(drafter.traits.layers)
    engine.prefill(text[:-1], lambda: False)
    draft = drafter.propose(DraftContext(text, 3, "d", (), len(text) - 1, engine), 16)
    assert draft.parents == (-1, 0, 1, 2, 3)


@pytest.mark.parametrize("method", METHODS)
def test_auto_asks_a_drafter_with_weights(
    speaker: Speaker, trained: dict[str, Path], engine: TreeEngine, method: str
) -> None:
    steps, used = {}, list[str]()
    for name in ("auto:learns=false,width=fixed", f"auto:learns=false,width=fixed,weights={trained[method]}"):
        drafter, steps[name] = make(name), 0
        for request in requests(speaker):
            plain = decode(engine, NoDrafter(), request, lambda: False)
            told = decode(
                engine,
                drafter,
                request,
                lambda: False,
                on_step=lambda tree, verified: used.extend(tree.sources[node] for node in verified.path),
            )
            assert told.tokens == plain.tokens
            steps[name] += told.counts.steps
    without, with_it = steps.values()
    assert "trained" in used
    assert with_it < without
