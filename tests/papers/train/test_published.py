"""Checkpoints made in the shape of the published ones: they draft, and what is not known of one is said."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from fastcoder_lsp.cli.main import main
from fastcoder_lsp.core import NORMED
from fastcoder_lsp.decode.loop import decode
from fastcoder_lsp.draft.base import NoDrafter
from fastcoder_lsp.draft.registry import make
from fastcoder_lsp.engine.architecture import Shape
from fastcoder_lsp.errors import ModelInvalidError, UsageError
from fastcoder_lsp.model.drafter_files import open_drafter
from fastcoder_lsp.papers.eagle import EagleLayer
from fastcoder_lsp.papers.train.eagle import EagleSettings, Steps, sized
from fastcoder_lsp.papers.train.published import bring_in
from fastcoder_lsp.papers.train.samples import shape_of
from tests.papers.train.conftest import Speaker, aside
from tests.papers.train.test_training import engine_of, requests, tokens_a_pass

pytestmark = pytest.mark.ci

Tensors = dict[str, torch.Tensor]

SMALL = 48

"""Tokens of EAGLE-3's own vocabulary."""


def config(shape: Shape, **more: object) -> dict[str, object]:
    """What all published configurations say."""
    return {
        "hidden_size": shape.width,
        "num_attention_heads": shape.heads,
        "num_key_value_heads": shape.kv_heads,
        "rms_norm_eps": 1e-6,
        "rope_theta": 10000.0,
        "rope_scaling": None,
        **more,
    }


def layer(shape: Shape, prefix: str, inputs: int) -> Tensors:
    """A decoder layer whose attention takes `inputs` numbers."""
    q, kv, width, inner = shape.heads * shape.head_dim, shape.kv_heads * shape.head_dim, shape.width, shape.inner
    sizes = {
        "self_attn.q_proj": (q, inputs),
        "self_attn.k_proj": (kv, inputs),
        "self_attn.v_proj": (kv, inputs),
        "self_attn.o_proj": (width, q),
        "mlp.gate_proj": (inner, width),
        "mlp.up_proj": (inner, width),
        "mlp.down_proj": (width, inner),
    }
    found = {f"{prefix}.{name}.weight": torch.randn(size) * 0.1 for name, size in sizes.items()}
    return found | {f"{prefix}.post_attention_layernorm.weight": torch.ones(width)}


def medusa(shape: Shape) -> tuple[dict[str, object], Tensors, str]:
    """As FasterDecoding/Medusa writes it: a list of heads, each a residual block and a linear layer; a pickle."""
    found: Tensors = {}
    for head in range(3):
        found |= {
            f"{head}.0.linear.weight": torch.zeros(shape.width, shape.width),
            f"{head}.0.linear.bias": torch.zeros(shape.width),
            f"{head}.1.weight": torch.randn(shape.vocabulary, shape.width),
        }
    return {"medusa_num_heads": 2, "medusa_num_layers": 1}, found, "medusa_lm_head.pt"


def eagle(shape: Shape) -> tuple[dict[str, object], Tensors, str]:
    """As SafeAILab/EAGLE writes EAGLE and EAGLE-2: embedding, a linear layer with bias, a layer without input norm."""
    found = layer(shape, "layers.0", shape.width) | {
        "embed_tokens.weight": torch.randn(shape.vocabulary, shape.width),
        "fc.weight": torch.randn(shape.width, 2 * shape.width) * 0.1,
        "fc.bias": torch.randn(shape.width) * 0.1,
    }
    return config(shape, num_hidden_layers=1), found, "pytorch_model.bin"


def eagle3(shape: Shape) -> tuple[dict[str, object], Tensors, str]:
    """As SafeAILab/EAGLE writes EAGLE-3: three features, a small vocabulary by its distances to the target's."""
    ids = torch.arange(SMALL) * 3 + 40
    kept = torch.zeros(shape.vocabulary, dtype=torch.bool)
    kept[ids] = True
    found = layer(shape, "midlayer", 2 * shape.width) | {
        "midlayer.hidden_norm.weight": torch.ones(shape.width),
        "midlayer.input_layernorm.weight": torch.ones(shape.width),
        "norm.weight": torch.ones(shape.width),
        "fc.weight": torch.randn(shape.width, 3 * shape.width) * 0.1,
        "lm_head.weight": torch.randn(SMALL, shape.width),
        "d2t": ids - torch.arange(SMALL),
        "t2d": kept,
    }
    return config(shape, draft_vocab_size=SMALL), found, "pytorch_model.bin"


MADE = {"medusa": medusa, "eagle": eagle, "eagle3": eagle3}

LAYERS = {"medusa": (NORMED,), "eagle": (NORMED,), "eagle3": (2, 1, 1)}


def write(folder: Path, made: tuple[dict[str, object], Tensors, str]) -> Path:
    settings, tensors, name = made
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(settings))
    if name.endswith(".safetensors"):
        save_file(tensors, folder / name)
    else:
        torch.save(tensors, folder / name)
    return folder


@pytest.mark.parametrize("kind", MADE)
def test_a_published_checkpoint_drafts(speaker: Speaker, tmp_path: Path, kind: str) -> None:
    torch.manual_seed(1)
    shape = shape_of(speaker.folder)
    published, out = write(tmp_path / "published", MADE[kind](shape)), tmp_path / "ours"
    assert main(["train", "import", str(published), "--model", str(speaker.folder), "--to", str(out)]) == 0
    method = kind.rstrip("3")
    record = open_drafter(out, method).record
    assert record.layers == LAYERS[kind]
    engine, drafter, drafted = engine_of(speaker.folder, speaker), make(f"{method}:weights={out}"), list[int]()
    try:
        for request in requests(speaker, 2):
            plain = decode(engine, NoDrafter(), request, lambda: False)
            told = decode(
                engine,
                drafter,
                request,
                lambda: False,
                on_step=lambda tree, _: drafted.extend(tree.tokens[tree.pending :]),
            )
            assert told.tokens == plain.tokens
    finally:
        engine.close()
    assert len(drafted) > 100
    if kind == "eagle3":
        assert {(token - 40) % 3 for token in drafted} == {0}


def test_eagle_without_norms_is_the_published_arithmetic(speaker: Speaker, tmp_path: Path) -> None:
    """EAGLE's first layer by hand in torch: joined, attended causally, and no norm before it or behind it."""
    torch.manual_seed(2)
    shape = shape_of(speaker.folder)
    settings, tensors, name = eagle(shape)
    bring_in(write(tmp_path / "a", (settings, tensors, name)), str(speaker.folder), tmp_path / "b", speaker.cache)
    files = open_drafter(tmp_path / "b", "eagle")
    ours = EagleLayer(files.record, files.tensors())
    embedded, hidden = torch.randn(7, shape.width), torch.randn(7, shape.width)
    seen = np.tri(7, dtype=np.bool_)
    found, _ = ours.forward(embedded.numpy(), hidden.numpy(), np.arange(7), ours.none(), seen)

    def linear(part: str, x: torch.Tensor) -> torch.Tensor:
        return x @ tensors[f"layers.0.{part}.weight"].T

    x = torch.cat([embedded, hidden], 1) @ tensors["fc.weight"].T + tensors["fc.bias"]
    angles = torch.arange(7)[:, None] * 10000.0 ** (-torch.arange(0, shape.head_dim, 2) / shape.head_dim)
    cos, sin = torch.cat([angles.cos()] * 2, 1)[:, None], torch.cat([angles.sin()] * 2, 1)[:, None]

    def turned(part: str) -> torch.Tensor:
        heads = linear(part, x).view(7, -1, shape.head_dim)
        low, high = heads.chunk(2, -1)
        return heads * cos + torch.cat([-high, low], -1) * sin

    q, k, v = turned("self_attn.q_proj"), turned("self_attn.k_proj"), linear("self_attn.v_proj", x)
    mixed = torch.nn.functional.scaled_dot_product_attention(
        q.transpose(0, 1),
        k.transpose(0, 1).repeat_interleave(shape.group, 0),
        v.view(7, -1, shape.head_dim).transpose(0, 1).repeat_interleave(shape.group, 0),
        is_causal=True,
    )
    x = x + linear("self_attn.o_proj", mixed.transpose(0, 1).reshape(7, -1))
    h = x * torch.rsqrt(x.pow(2).mean(1, keepdim=True) + 1e-6)
    right = x + linear("mlp.down_proj", torch.nn.functional.silu(linear("mlp.gate_proj", h)) * linear("mlp.up_proj", h))
    assert np.allclose(found, right.numpy(), atol=1e-3)


def test_what_is_not_known_is_said(speaker: Speaker, tmp_path: Path) -> None:
    shape = shape_of(speaker.folder)

    def bring(name: str, made: tuple[dict[str, object], Tensors, str]) -> None:
        bring_in(write(tmp_path / name, made), str(speaker.folder), tmp_path / f"{name}-ours", speaker.cache)

    settings, tensors, name = eagle3(shape)
    with pytest.raises(UsageError, match=r"unknown tensors: midlayer\.gate\.weight"):
        bring("more", (settings, tensors | {"midlayer.gate.weight": torch.ones(1)}, name))
    with pytest.raises(UsageError, match=r"lacks norm\.weight"):
        bring("less", (settings, {key: value for key, value in tensors.items() if key != "norm.weight"}, name))
    with pytest.raises(UsageError, match="'yarn'"):
        bring("places", ({**settings, "rope_scaling": {"rope_type": "yarn"}}, tensors, name))
    with pytest.raises(ModelInvalidError, match="but this model needs"):
        bring("wide", (settings, tensors | {"fc.weight": torch.randn(shape.width, 2 * shape.width)}, name))
    with pytest.raises(ModelInvalidError, match="the drafter's q has the shape"):
        bring(
            "heads", ({**settings, "num_attention_heads": 2 * shape.heads, "head_dim": shape.head_dim}, tensors, name)
        )
    with pytest.raises(UsageError, match="lacks a field: 'hidden_size'"):
        bring("sizes", ({key: value for key, value in settings.items() if key != "hidden_size"}, tensors, name))
    assert not (tmp_path / "heads-ours").exists()
    with pytest.raises(UsageError, match="unknown kind of checkpoint"):
        bring("other", (settings, {"a.weight": torch.ones(2)}, name))
    (tmp_path / "empty").mkdir()
    with pytest.raises(UsageError, match="contains none of"):
        bring_in(tmp_path / "empty", str(speaker.folder), tmp_path / "out", speaker.cache)
    write(tmp_path / "code", (settings, tensors, name))
    torch.save({"fc.weight": Path("/")}, tmp_path / "code" / name)
    with pytest.raises(ModelInvalidError, match=r"cannot be read|more than weights"):
        bring_in(tmp_path / "code", str(speaker.folder), tmp_path / "out", speaker.cache)


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
    engine = engine_of(speaker.folder, speaker)
    drafters = (make(f"eagle:weights={folder}") for folder in layers.values())
    guessed, learnt = (tokens_a_pass(engine, drafter, requests(speaker)) for drafter in drafters)
    engine.close()
    assert 1.3 < guessed < learnt
    assert learnt >= 2.6


def test_it_computes_in_decoding_what_it_learnt(speaker: Speaker, layers: dict[int, Path]) -> None:
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
