"""EAGLE's first layer: it begins as the best linear guess, learns from there, and decodes as it learnt."""

from pathlib import Path

import numpy as np
import pytest
import torch

from fastcoder_lsp.cli.main import main
from fastcoder_lsp.core import NORMED
from fastcoder_lsp.decode.loop import decode
from fastcoder_lsp.draft.eagle import EagleLayer
from fastcoder_lsp.draft.none import NoDrafter
from fastcoder_lsp.draft.registry import make
from fastcoder_lsp.model.drafter_files import open_drafter
from fastcoder_lsp.train.eagle import EagleSettings, sized
from fastcoder_lsp.train.layer import Steps
from fastcoder_lsp.train.samples import shape_of
from tests.train.conftest import Speaker, aside
from tests.train.test_training import engine_of, requests

pytestmark = pytest.mark.ci


@pytest.fixture(scope="module")
def layers(speaker: Speaker, tmp_path_factory: pytest.TempPathFactory) -> dict[int, Path]:
    """The layer after one step, whose rate is next to nothing, and after sixty."""
    found = {}
    for steps, rate in ((1, "1e-9"), (60, "2e-3")):
        out = tmp_path_factory.mktemp("eagle1")
        common = ["--model", str(speaker.folder), "--data", str(speaker.texts), "--out", str(out)]
        own = ["--version", "1", "--test-steps", "3", "--inner", "48", "--length", "128", "--batch", "8"]
        with aside(speaker.cache):
            assert main(["train", "eagle", *common, *own, "--steps", str(steps), "--rate", rate]) == 0
        found[steps] = out / "drafter"
    return found


def test_it_begins_as_a_guess_and_learns(speaker: Speaker, layers: dict[int, Path]) -> None:
    """The linear guess alone brings tokens, what is learnt brings more; no token is another one."""
    engine, found = engine_of(speaker.folder, speaker), []
    for folder in layers.values():
        drafter, tokens, steps = make(f"eagle:weights={folder}"), 0, 0
        for request in requests(speaker):
            drafted = decode(engine, drafter, request, lambda: False)
            assert drafted.tokens == decode(engine, NoDrafter(), request, lambda: False).tokens
            tokens, steps = tokens + len(drafted.tokens), steps + drafted.counts.steps
        found.append(tokens / steps)
    engine.close()
    guessed, learnt = found
    assert 1.3 < guessed < learnt
    assert learnt >= 2.6


def test_it_computes_in_decoding_what_it_learnt(speaker: Speaker, layers: dict[int, Path]) -> None:
    """In numpy, over rows that are decided and on over its own features: training's, unscaled."""
    files = open_drafter(layers[60], "eagle")
    assert files.record.layers == (NORMED,)
    layer, tensors, shape = EagleLayer(files.record, files.tensors()), files.tensors(), shape_of(speaker.folder)
    assert tensors["gate"].shape == (48, shape.width)
    draw = np.random.default_rng(4)
    rows = 9
    features = (draw.normal(size=(rows, shape.width)) / tensors["feature_scale"]).astype(np.float32)
    embedded = draw.normal(size=(rows + 1, shape.width)).astype(np.float32)
    parts = {name: torch.from_numpy(value) for name, value in tensors.items()}
    learnt = Steps(parts, sized(shape, EagleSettings(version=1, inner=48)))
    hidden = learnt.step(torch.from_numpy(embedded[:rows]), torch.from_numpy(features * tensors["feature_scale"]))
    seen = np.tri(rows, dtype=np.bool_)
    out, keys = layer.forward(embedded[:rows], layer.fused(features), np.arange(rows), layer.none(), seen)
    assert np.allclose(hidden.numpy(), out, atol=1e-3)
    hidden = learnt.step(torch.from_numpy(embedded[1:]), hidden)
    chain = np.ones((1, rows + 1), np.bool_)
    out, _ = layer.forward(embedded[rows:], out[-1:], np.array([rows]), keys, chain)
    assert np.allclose(hidden[-1].numpy(), out[0], atol=1e-3)
