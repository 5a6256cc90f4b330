"""The losses against a naive version in float64: one full forward for every context, loops over the vocabulary."""

import math
import random
from typing import Any

import numpy as np
import pytest
import torch
from transformers import AutoConfig, AutoModelForCausalLM

from fastcoder_lsp.papers.train import losses
from fastcoder_lsp.papers.train import sdsat as sdsat_examples
from fastcoder_lsp.papers.train.cllm import AUTOREGRESSIVE, CONSISTENCY, CllmSettings, Trajectory, example_of
from fastcoder_lsp.papers.train.example import Example, Labels, Pairs, Sequence, trunk
from fastcoder_lsp.papers.train.losses import Forward, agrees, term_sums, total
from fastcoder_lsp.papers.train.sdsat import MASKED, PLAIN, SdsatSettings, examples_of

VOCABULARY = 53
SIZES = {
    "vocab_size": VOCABULARY,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "num_key_value_heads": 2,
    "max_position_embeddings": 128,
}


@pytest.fixture(scope="module", params=["llama", "qwen2", "gpt_neox"])
def model(request: pytest.FixtureRequest) -> Any:
    torch.manual_seed(1)
    auto: Any = AutoModelForCausalLM
    made = auto.from_config(AutoConfig.for_model(request.param, **SIZES)).double().eval()
    with torch.no_grad():
        for parameter in made.parameters():
            parameter.mul_(3.0)  # far from the flat start, so that a wrong mask shows
    return made


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three rows at a time, so that every loss here is put together from several parts."""
    monkeypatch.setattr(losses, "CHUNK_CPU", 3 * VOCABULARY)


def naive_row(model: Any, tokens: list[int]) -> list[float]:
    """Log probabilities of what follows `tokens`, by a forward of its own, in float64."""
    with torch.no_grad():
        logits = model(input_ids=torch.tensor([tokens])).logits[0, -1].tolist()
    top = max(logits)
    normaliser = top + math.log(sum(math.exp(value - top) for value in logits))
    return [value - normaliser for value in logits]


def terms(model: Any, examples: list[Example], *, packed: bool) -> dict[str, float]:
    """The sum of each term by the code under test."""
    found: dict[str, float] = {}
    for example, (wanted, logits) in zip(examples, Forward(model, "cpu", packed=packed)(examples), strict=True):
        for name, value in term_sums(example, wanted, logits).items():
            found[name] = found.get(name, 0.0) + value.item()
    return found


def a_trajectory(seed: int = 0, block: int = 4) -> Trajectory:
    draw = np.random.default_rng(seed)
    output = draw.integers(0, VOCABULARY, 2 * block)
    states = []
    for place in range(2):
        fixed = output[place * block : (place + 1) * block]
        rows = [np.where(np.arange(block) < right, fixed, draw.integers(0, VOCABULARY, block)) for right in range(3)]
        states.append(np.stack(rows))
    return Trajectory(draw.integers(0, VOCABULARY, 6), output, tuple(states), block)


@pytest.mark.parametrize("packed", [True, False])
@pytest.mark.parametrize("kind", ["global", "local"])
def test_consistency_and_autoregressive_loss_are_the_papers(model: Any, packed: bool, kind: Any) -> None:
    """Σ D(q⁻(·|y*<i, x) ‖ q(·|y<i, x)) for whole states, one forward each, equals the branches' sum.

    Tokens in which a state is right already add nothing: both sides see the same.
    """
    trajectory, settings = a_trajectory(), CllmSettings(block=4, consistency=kind, states=9, correct=0.0)
    example = example_of(trajectory, settings, random.Random(0))
    found = terms(model, [example], packed=packed)
    prompt, output = trajectory.prompt.tolist(), trajectory.output.tolist()
    consistency = 0.0
    for block, states in enumerate(trajectory.states):
        before = prompt + output[: block * 4]
        fixed = trajectory.block_of(block).tolist()
        for place, state in enumerate(states.tolist()):
            after = states[place + 1].tolist() if kind == "local" and place + 1 < len(states) else fixed
            for i in range(1, 4):
                teacher, student = naive_row(model, before + after[:i]), naive_row(model, before + state[:i])
                consistency += sum(math.exp(t) * (t - s) for t, s in zip(teacher, student, strict=True))
    said = sum(-naive_row(model, prompt + output[:i])[output[i]] for i in range(len(output)))
    assert found[CONSISTENCY] == pytest.approx(consistency, rel=1e-9)
    assert found[AUTOREGRESSIVE] == pytest.approx(said, rel=1e-9)


def test_no_gradient_goes_through_the_teacher(model: Any) -> None:
    example = example_of(a_trajectory(3), CllmSettings(block=4, states=9, correct=0.0), random.Random(0))
    wanted, logits = Forward(model, "cpu")([example])[0]
    logits = logits.detach().requires_grad_()
    term_sums(example, wanted, logits)[CONSISTENCY].backward()  # type: ignore[no-untyped-call]
    pairs = example.pairs[CONSISTENCY]
    rows = {int(node): place for place, node in enumerate(wanted)}
    assert logits.grad is not None
    only_teach = {rows[int(node)] for node in pairs.teachers} - {rows[int(node)] for node in pairs.students}
    assert only_teach
    assert all(bool((logits.grad[row] == 0).all()) for row in only_teach)
    student = rows[int(pairs.students[0])]
    teachers = [rows[int(t)] for s, t in zip(pairs.students, pairs.teachers, strict=True) if rows[int(s)] == student]
    expected = sum(torch.softmax(logits[student], 0) - torch.softmax(logits[t], 0) for t in teachers)
    assert torch.allclose(logits.grad[student], torch.as_tensor(expected), atol=1e-12)


def test_gradients_are_those_of_the_formulas() -> None:
    draw, weights = np.random.default_rng(2), {"said": 0.3, "other": 1.7, "alike": 0.9}
    labels = {
        name: Labels(draw.integers(0, 12, count), draw.integers(0, VOCABULARY, count))
        for name, count in (("said", 11), ("other", 7))
    }
    pairs = {"alike": Pairs(draw.integers(0, 12, 10), draw.integers(0, 12, 10))}
    example = Example(*trunk(draw.integers(0, VOCABULARY, 12)), labels, pairs)
    wanted = example.wanted()
    found, expected = (
        torch.from_numpy(np.random.default_rng(3).normal(0, 3, (len(wanted), VOCABULARY))).requires_grad_()
        for _ in range(2)
    )
    sums = term_sums(example, wanted, found)
    rows = {int(node): expected[place] for place, node in enumerate(wanted)}
    naive: dict[str, Any] = {
        name: sum(-torch.log_softmax(rows[int(n)], 0)[int(i)] for n, i in zip(goal.nodes, goal.ids, strict=True))
        for name, goal in labels.items()
    }
    naive["alike"] = sum(
        (torch.softmax(right, 0) * (torch.log_softmax(right, 0) - torch.log_softmax(rows[int(s)], 0))).sum()
        for s, right in ((s, rows[int(t)].detach()) for s, t in zip(*_sides(pairs["alike"]), strict=True))
    )
    for values in (sums, naive):
        total(values, example.counts(), weights).backward()  # type: ignore[no-untyped-call]
    assert {name: value.item() for name, value in sums.items()} == pytest.approx(
        {name: value.item() for name, value in naive.items()}, rel=1e-12
    )
    assert found.grad is not None
    assert expected.grad is not None
    assert torch.allclose(found.grad, expected.grad, atol=1e-14)


def _sides(pairs: Pairs) -> tuple[list[int], list[int]]:
    return pairs.students.tolist(), pairs.teachers.tolist()


@pytest.mark.parametrize("stream", ["improved", "basic", "branches"])
@pytest.mark.parametrize("distinct", [False, True])
def test_sdsat_losses_are_the_papers(model: Any, stream: Any, distinct: bool) -> None:
    """½ (plain + w · masked), each a mean; basic: all tokens of one stream with adaptive tokens in it."""
    draw = np.random.default_rng(4)
    text = np.ones(24, np.bool_)
    text[10] = False
    sequence = Sequence(draw.integers(0, 40, 24), text)
    adaptive = (50, 51, 52) if distinct else (50,)
    settings = SdsatSettings(longest=3, weight=0.7, starts=0.3, stream=stream, distinct=distinct)
    examples = list(examples_of(sequence, adaptive, settings, random.Random(5)))
    counts: dict[str, int] = {}
    for example in examples:
        for name, count in example.counts().items():
            counts[name] = counts.get(name, 0) + count
    outputs = Forward(model, "cpu")(examples)
    parts = [
        total(term_sums(example, wanted, logits), counts, settings.weights())
        for example, (wanted, logits) in zip(examples, outputs, strict=True)
    ]
    tokens = sequence.tokens.tolist()
    windows = list(sdsat_examples._windows(24, settings, random.Random(5), apart=stream != "branches"))
    masked = list(tokens)
    plain_goals = [i for i in range(23) if text[i + 1]]
    masked_losses: list[float] = []
    for start, size in windows:
        for place in range(size):
            if stream == "branches":
                if not (text[start + place] and text[start + place + 1]):
                    break
                run = [adaptive[min(i, len(adaptive) - 1)] for i in range(place + 1)]
                masked_losses.append(-naive_row(model, tokens[:start] + run)[tokens[start + place + 1]])
            elif text[start + place]:
                masked[start + place] = adaptive[min(place, len(adaptive) - 1)]
            else:
                break
    replaced = [i for i in range(24) if masked[i] != tokens[i]]
    plain = np.mean([-naive_row(model, tokens[: i + 1])[tokens[i + 1]] for i in plain_goals])
    if stream == "basic":
        expected = np.mean([-naive_row(model, masked[: i + 1])[tokens[i + 1]] for i in plain_goals])
    else:
        if stream == "improved":
            goals = [i for i in replaced if i in plain_goals]
            masked_losses = [-naive_row(model, masked[: i + 1])[tokens[i + 1]] for i in goals]
        expected = 0.5 * (plain + 0.7 * np.mean(masked_losses))
        assert set(counts) == {PLAIN, MASKED}
    assert sum(part.item() for part in parts) == pytest.approx(float(expected), rel=1e-9)


def test_packed_and_unrolled_are_the_same(model: Any) -> None:
    """Several trees in one row, each as if it were alone; `agrees` finds that out by itself."""
    examples = [example_of(a_trajectory(seed), CllmSettings(block=4, states=2), random.Random(seed)) for seed in (1, 2)]
    packed, unrolled = (Forward(model, "cpu", packed=packed)(examples) for packed in (True, False))
    for (nodes, left), (others, right) in zip(packed, unrolled, strict=True):
        assert nodes.tolist() == others.tolist()
        assert torch.allclose(left, right, atol=1e-10)
    assert agrees(model, "cpu")


def test_a_model_that_takes_no_trees_is_noticed(model: Any) -> None:
    """One that ignores the mask gives other logits for packed trees."""

    class Maskless:
        dtype, config = model.dtype, model.config

        def get_input_embeddings(self) -> Any:
            return model.get_input_embeddings()

        def __call__(self, **given: Any) -> Any:
            given.pop("attention_mask", None)
            return model(**given)

    assert not agrees(Maskless(), "cpu")
