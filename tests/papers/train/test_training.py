"""What training reaches on a small model: more tokens a pass, on text never learnt that does not loop; exactly."""

import dataclasses
import json
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import fmean

import pytest

from benchmarks.trained import count_accepted, count_jacobi, distinct_share, stationary
from fastcoder_lsp import model as models
from fastcoder_lsp.cli.main import main
from fastcoder_lsp.core import GREEDY, Sampler
from fastcoder_lsp.decode.loop import DecodeRequest, decode
from fastcoder_lsp.draft.base import FROM_ADAPTIVE, Drafter, NoDrafter, load_trained
from fastcoder_lsp.draft.registry import DrafterParts, make
from fastcoder_lsp.engine.tree_engine import TreeEngine
from fastcoder_lsp.model.files import TrainingRecord, read_record
from fastcoder_lsp.papers.sdsat import SdsatDrafter, SdsatParameters
from fastcoder_lsp.papers.train.run_folder import read_points
from tests.engine import tiny_models
from tests.papers.train.conftest import Speaker
from tests.papers.train.made_up import held_out

pytestmark = pytest.mark.ci

TOKENS = 64
DISTINCT = 0.7
GROWTH = 1.5
SAMPLED = Sampler(temperature=0.8, top_p=0.95, seed=3)
NUCLEUS = Sampler(temperature=1.0, top_k=10, top_p=0.95, seed=4)


def requests(speaker: Speaker, count: int = 8, sampler: Sampler = GREEDY) -> list[DecodeRequest]:
    """Texts that were never learnt from, to be gone on with."""
    tokenizer = speaker.tokenizer
    return [
        DecodeRequest(
            prompt, TOKENS, tokenizer.end_ids, tokenizer.piece, tokenizer.starting_with, lambda _: None, sampler=sampler
        )
        for prompt, _ in held_out(tokenizer, count, 40)
    ]


def engine_of(folder: Path, speaker: Speaker, kind: str = "cpu-int8") -> TreeEngine:
    engine = tiny_models.load(folder, speaker.cache, kind, context=256)  # type: ignore[arg-type]
    assert engine.info.name.startswith(kind)
    return engine


@pytest.fixture(scope="module")
def base_engine(speaker: Speaker) -> Iterator[TreeEngine]:
    engine = engine_of(speaker.folder, speaker)
    yield engine
    engine.close()


@pytest.fixture(scope="module")
def sdsat_engine(speaker: Speaker, sdsat: Path) -> Iterator[TreeEngine]:
    engine = engine_of(sdsat, speaker)
    yield engine
    engine.close()


@pytest.fixture(scope="module")
def cllm_engine(speaker: Speaker, cllm: Path) -> Iterator[TreeEngine]:
    engine = engine_of(cllm, speaker)
    yield engine
    engine.close()


def tokens_a_pass(engine: TreeEngine, drafter: Drafter, asked: Sequence[DecodeRequest]) -> float:
    """Tokens of drafted decoding over its passes; it says what plain decoding says."""
    tokens = passes = 0
    for request in asked:
        drafted = decode(engine, drafter, request, lambda: False)
        assert drafted.tokens == decode(engine, NoDrafter(), request, lambda: False).tokens
        tokens, passes = tokens + len(drafted.tokens), passes + drafted.counts.steps
    return tokens / passes


def lively(engine: TreeEngine, speaker: Speaker) -> list[DecodeRequest]:
    """The requests, whose answers are seen not to loop."""
    asked = requests(speaker)
    outputs = [decode(engine, NoDrafter(), request, lambda: False).tokens for request in asked]
    assert distinct_share(outputs) >= DISTINCT
    return asked


def record_of(folder: Path) -> TrainingRecord:
    record = read_record(folder, models.find(str(folder)).digest)
    assert record is not None
    return record


def test_cllm_goes_faster_forward(speaker: Speaker, base_engine: TreeEngine, cllm_engine: TreeEngine) -> None:
    before = count_jacobi(base_engine, lively(base_engine, speaker), 16)
    after = count_jacobi(cllm_engine, lively(cllm_engine, speaker), 16)
    assert after["fast_forward"] >= GROWTH * before["fast_forward"]
    assert after["stationary"] > before["stationary"]


def test_sdsat_guesses_are_accepted(
    speaker: Speaker, base_engine: TreeEngine, sdsat: Path, sdsat_engine: TreeEngine
) -> None:
    adaptive = record_of(sdsat).adaptive
    after = count_accepted(sdsat_engine, lively(sdsat_engine, speaker), adaptive, 5)
    before = count_accepted(base_engine, lively(base_engine, speaker), (base_engine.info.vocabulary - 1,), 5)
    assert after["accepted"] >= max(1.0, GROWTH * before["accepted"])
    assert after["accepted"] == pytest.approx(fmean(Counter(after["histogram"]).elements()))
    assert tokens_a_pass(sdsat_engine, SdsatDrafter(adaptive), lively(sdsat_engine, speaker)) >= GROWTH


@pytest.mark.parametrize("method", ["sdsat", "cllm"])
def test_losses_fall(method: str, request: pytest.FixtureRequest) -> None:
    folder: Path = request.getfixturevalue(method)
    term = "masked" if method == "sdsat" else "consistency"
    figures = record_of(folder).figures
    assert figures[f"held_out_{term}_last"] < 0.8 * figures[f"held_out_{term}_first"]
    points = [point for point in read_points(folder.parent / "losses.jsonl") if point.held_out]
    assert points[-1].losses[term] == figures[f"held_out_{term}_last"]
    picture = (folder.parent / "losses.svg").read_text()
    assert picture.startswith("<svg")
    assert term in picture


NAMES = ("sdsat", "sdsat:k=9,branch=10", "sdsat:two_step=true,branch=1", "jacobi", "lookahead", "auto")


@pytest.mark.parametrize("sampler", [GREEDY, SAMPLED, NUCLEUS])
@pytest.mark.parametrize("name", NAMES)
def test_decoding_is_exact(
    speaker: Speaker, sdsat: Path, sdsat_engine: TreeEngine, name: str, sampler: Sampler
) -> None:
    parts = DrafterParts(trained=load_trained(sdsat, record_of(sdsat).weights))
    drafter = make(name, parts)
    for nodes in (2, 8, 24, 60):
        asked = [dataclasses.replace(request, nodes=nodes) for request in requests(speaker, 2, sampler)]
        tokens_a_pass(sdsat_engine, drafter, asked)


def test_auto_drafts_what_was_trained(
    speaker: Speaker, sdsat: Path, sdsat_engine: TreeEngine, cllm: Path, cllm_engine: TreeEngine
) -> None:
    for folder, engine in ((sdsat, sdsat_engine), (cllm, cllm_engine)):
        parts = DrafterParts(trained=load_trained(folder, record_of(folder).weights))
        steps = {}
        for name in ("auto", "auto:without=trained"):
            drafter, used = make(name, parts), list[str]()
            steps[name] = 0
            for request in requests(speaker):
                asked = dataclasses.replace(request, nodes=24)
                done = decode(
                    engine,
                    drafter,
                    asked,
                    lambda: False,
                    on_step=lambda tree, verified, used=used: used.extend(tree.sources[node] for node in verified.path),  # type: ignore[misc]
                )
                steps[name] += done.counts.steps
            assert ("trained" in used) == (name == "auto")
        assert 1.1 * steps["auto"] <= steps["auto:without=trained"]


def test_k_can_be_changed_at_run_time(speaker: Speaker, sdsat: Path, sdsat_engine: TreeEngine) -> None:
    adaptive = record_of(sdsat).adaptive
    assert len(adaptive) == 1
    for k in (1, 4, 9):
        deepest = 0

        def listen(tree: object, _verified: object) -> None:
            nonlocal deepest
            deepest = max(deepest, sum(source == FROM_ADAPTIVE.name for source in tree.sources))  # type: ignore[attr-defined]

        drafter = SdsatDrafter(adaptive, SdsatParameters(k=5, branch=1, least=0.0, two_step=True))
        drafter.parameters = dataclasses.replace(drafter.parameters, k=k)
        request = dataclasses.replace(requests(speaker, 1)[0], nodes=40)
        decode(sdsat_engine, drafter, request, lambda: False, on_step=listen)
        assert deepest == k
    assert SdsatDrafter((1, 2, 3), SdsatParameters(k=9)).k == 3


def test_an_untuned_model_is_told(speaker: Speaker, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The drafter sdsat on a model that knows no adaptive token: what to do about it, not silence."""
    source = tmp_path / "a.py"
    source.write_text("x = 1\n")
    arguments = [f"{source}:1:1", "--model", str(speaker.folder), "--drafter", "sdsat"]
    assert main(["complete", *arguments]) == 2
    assert "fastcoder-lsp train sdsat" in capsys.readouterr().err


def test_one_command_tells_the_numbers(
    speaker: Speaker, sdsat: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """`bench trained`, as `train` names it at its end: before and after, on the user's own code."""
    report = tmp_path / "report.json"
    options = ["--parts", "counts,speed", "--data", str(speaker.texts), "--limit", "3", "--tokens", "24", "--ks", "3"]
    engine = ["--engine", "cpu-int8", "--blocks", "8", "--drafters", "sdsat,jacobi", "--json", str(report)]
    assert main(["bench", "trained", "--model", str(sdsat), "--before", str(speaker.folder), *options, *engine]) == 0
    found = json.loads(report.read_text())
    assert found["after"]["sdsat"]["3"]["accepted"] > 0
    assert found["before"]["sdsat"] == {}
    assert found["after"]["speed"]["sdsat"]["identical"]
    assert set(found["before"]["speed"]) == {"jacobi"}, "sdsat drafts on no model that was not tuned for it"
    assert {"fast_forward", "stationary"} == set(found["after"]["jacobi"]["8"])
    assert "sdsat k=3" in capsys.readouterr().out


def test_stationary_tokens_are_right_behind_a_wrong_one() -> None:
    assert stationary([(0, (5, 6, 9, 8))], (5, 7, 9, 8)) == (1, 2)
    assert stationary([(0, (5, 7, 9)), (1, (7, 9, 8))], (5, 7, 9, 8)) == (2, 0)
    assert stationary([(2, (1, 8, 4))], (5, 7, 9, 8)) == (1, 1)
