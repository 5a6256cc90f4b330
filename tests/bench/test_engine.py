"""`bench engine` on the light installation."""

import json
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from benchmarks.shapes import TINY, NamedShape, RandomSource, main, named, random_weights
from fastcoder_lsp.bench import engine
from fastcoder_lsp.core import DraftTree
from fastcoder_lsp.engine.int8.dot import AVX2, PLAIN, kinds_here, kinds_of_cpu
from fastcoder_lsp.engine.static.build import Recipe, build
from fastcoder_lsp.engine.static.device import CpuDevice
from fastcoder_lsp.engine.static.engine import StaticEngine
from fastcoder_lsp.errors import ResourceError, UsageError


def test_weights_are_unpacked_only_where_an_option_allows_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(engine, "missing_packages", lambda *_: ())
    monkeypatch.setattr(engine, "unpacked_bytes", lambda _folder: 2_500_000_000)
    for options, compared, said in (
        (engine.Options(), False, "run with --transformers: it writes 2.5 GB"),
        (engine.Options(transformers=True), True, "Writing 2.5 GB of unpacked weights to "),
        (engine.Options(no_transformers=True), False, ""),
    ):
        assert engine._compares(Path("converted"), options) == compared
        told = capsys.readouterr().err
        assert said in told
        assert told.count("\n") == bool(said)
    monkeypatch.setattr(engine, "unpacked_bytes", lambda _folder: 0)
    assert engine._compares(Path("converted"), engine.Options())
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    ("step_ms", "prefill_ms", "said"), [(20.0, 500.0, "fast enough"), (50.0, 500.0, "slow"), (20.0, 2000.0, "slow")]
)
def test_a_sentence_says_whether_it_is_fast_enough(step_ms: float, prefill_ms: float, said: str) -> None:
    assert f"That is {said} for" in engine._verdict(engine.Figures({"1": step_ms}, {"512": prefill_ms}))


def test_kinds_are_measured_each_in_its_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The environment names the kind, and the table has the share of the nearer limit."""
    shares = {"step of 1": 0.5, "step of 64": 0.1}

    def measured(command: list[str], env: dict[str, str], **_: object) -> SimpleNamespace:
        limits = {"limits": {"gb_s": 10.0, "ghz": 3.0, "products": 40.0}, "bandwidth": shares}
        rates = {"step of 1": 4.0, "step of 64": 32.0}
        report = {
            "settings": {"model": "M", "engine": "cpu-int4" if env["FASTCODER_KIND"] == "avx2" else "cpu-int8"},
            "forward_ms": {"1": 5.0, "64": 30.0},
            "prefill_ms": {},
            "limits": limits | {"products": rates},
            "kind": env["FASTCODER_KIND"],
        }
        Path(command[command.index("--json") + 1]).write_text(json.dumps(report), encoding="utf-8")
        return SimpleNamespace(returncode=0)

    monkeypatch.setattr(engine, "subprocess", SimpleNamespace(run=measured, DEVNULL=None))
    monkeypatch.setattr(engine, "WIDTHS", (1, 64))
    monkeypatch.setattr(engine, "PREFILLS", ())
    monkeypatch.setattr(engine, "kinds_of_cpu", lambda: (AVX2, PLAIN))
    assert engine.run(engine.Options(kinds="all", json=tmp_path / "all.json")) == 0
    printed = capsys.readouterr().out
    assert "50% m" in printed
    assert "80% p" in printed
    assert json.loads((tmp_path / "all.json").read_text())["kinds"]["avx2"]["kind"] == "avx2"
    with pytest.raises(UsageError, match="cannot run 'vnni-512'"):
        engine.run(engine.Options(kinds="avx2,vnni-512"))
    assert "M: cpu-int4; ms" in printed
    assert engine.run(engine.Options(kinds="avx2, plain,avx2")) == 0
    printed = capsys.readouterr().out
    assert "M; ms" in printed
    assert printed.count("cpu-int4") == printed.count("cpu-int8") == 1  # each kind's own precision
    monkeypatch.setattr(engine, "kinds_of_cpu", lambda: (PLAIN,))  # a CPU without any of the fast instructions
    assert engine.run(engine.Options(kinds="all")) == 0
    assert "plain" in capsys.readouterr().out


@pytest.mark.parametrize(("code", "said"), [(3, ""), (-9, "the measurement of avx2 was ended by signal 9")])
def test_a_kind_that_cannot_be_measured_ends_the_comparison(
    code: int, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The process of the kind has told why, unless it was killed."""
    ended = SimpleNamespace(run=lambda *_, **__: SimpleNamespace(returncode=code), DEVNULL=None)
    monkeypatch.setattr(engine, "subprocess", ended)
    monkeypatch.setattr(engine, "kinds_of_cpu", lambda: (AVX2, PLAIN))
    with pytest.raises(ResourceError, match=said) if said else nullcontext():
        assert engine.run(engine.Options(kinds="all")) == code


def test_a_forced_kind_hides_no_other_from_the_comparison(monkeypatch: pytest.MonkeyPatch) -> None:
    before = kinds_of_cpu()
    monkeypatch.setenv("FASTCODER_KIND", "plain")
    assert kinds_of_cpu() == before
    assert kinds_here() == (PLAIN,)


def test_a_tiny_shape_is_measured_on_the_graph_engine(tmp_path: Path) -> None:
    report = tmp_path / "shapes.json"
    main(["--shapes", "tiny Qwen2", "--engine", "cpu-graphs", "--rounds", "1", "--json", str(report)])
    [taken] = json.loads(report.read_text())["shapes"].values()
    assert set(taken["steps_s"]) == {"1", "16"}
    assert taken["weights_bytes"] > 0


def tiny() -> tuple[NamedShape, StaticEngine, Any]:
    """A tiny model with random weights on the graph engine, and the same by transformers."""
    from transformers import AutoConfig, AutoModelForCausalLM

    model, device = named(TINY)[0], CpuDevice()
    recipe = Recipe(
        name="cpu-graphs",
        model=model.name,
        source="random weights",
        shape=model.shape,
        open_source=lambda: random_weights(model, device.place, torch.float32),
        context=1024,
        dtype=torch.float32,
        progress=lambda _share, _what: None,
    )
    given = dict(model.config)
    auto: Any = AutoModelForCausalLM
    network = auto.from_config(AutoConfig.for_model(given.pop("model_type"), **given), dtype=torch.float32).eval()
    with random_weights(model, device.place, torch.float32) as source, torch.no_grad():
        for name, weight in network.named_parameters():
            weight.copy_(source.raw(name, *weight.shape))
    return model, build(recipe, device), network


def gaps(model: NamedShape, engine: StaticEngine, network: Any) -> list[float]:
    """Where they differ: by transformers' logits, how much more its own best token is worth than the engine's."""
    prompt = np.random.default_rng(0).integers(0, model.shape.vocabulary, 100).tolist()
    said: list[int] = []
    while len(said) < 24:
        tokens: Sequence[int] = [*prompt, *said]
        engine.prefill(tokens[:-1], lambda: False)
        said += engine.step(DraftTree((tokens[-1], 3, 5, 7), (-1, 0, 0, 2))).emitted
    with torch.inference_mode():
        logits_NV = network(torch.tensor([[*prompt, *said]])).logits[0, len(prompt) - 1 : -1]
    apart_N = logits_NV.amax(1) - logits_NV.gather(1, torch.tensor(said)[:, None])[:, 0]
    return [gap for gap in apart_N.tolist() if gap > 0]


@pytest.mark.ci
def test_the_graph_engine_says_what_transformers_says(monkeypatch: pytest.MonkeyPatch) -> None:
    model, engine, network = tiny()
    assert gaps(model, engine, network) == []
    raw = RandomSource.raw

    def spoilt(source: RandomSource, name: str, *shape: int) -> Any:
        values = raw(source, name, *shape)
        return values.roll(1, 0) if name == "model.layers.1.mlp.up_proj.weight" else values

    monkeypatch.setattr(RandomSource, "raw", spoilt)
    _, wrong, _ = tiny()
    assert max(gaps(model, wrong, network)) > 0.2
