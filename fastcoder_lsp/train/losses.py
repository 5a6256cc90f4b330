"""The losses, from logits alone: cross-entropy, and the consistency loss of Kou et al. 2024 (CLLM), equations 3 to 6.

Owns the formulas and their gradients. `tests/train` holds both against a naive version in float64.

The gradients are written out because of the vocabulary: of 150,000 tokens, a row's probabilities in fp32 weigh as much
as hundreds of its hidden states. With autograd, each of a loss's five intermediate results keeps all rows of them;
here a few rows at a time are computed, forward and backward, and only the logits are kept.

Legend: N nodes with logits, M goals of one term, C goals of one chunk, V vocabulary.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from fastcoder_lsp.train.example import Example, Ids

CHUNK_CPU, CHUNK_GPU = 1 << 20, 1 << 26
"""Numbers of one chunk: few enough for a CPU's cache, many enough to fill a GPU."""


@dataclass(frozen=True, slots=True)
class Goals:
    """One term's goals: row `rows_M[i]` predicts token `ids_M[i]`, or like row `teachers_M[i]`; the other is None."""

    rows_M: torch.Tensor
    ids_M: torch.Tensor | None
    teachers_M: torch.Tensor | None


def term_sums(example: Example, wanted: Ids, logits_NV: torch.Tensor) -> dict[str, torch.Tensor]:
    """The sum of each term's losses over one example, in nats: −Σ log p(id), or the forward KL to the teachers.

    Args:
        example: its goals.
        wanted: the nodes that the rows of `logits_NV` belong to, ascending.
        logits_NV: in any precision; sums are made in fp32, or float64 where the logits are.
    """
    nodes_N = torch.from_numpy(wanted)

    def rows(nodes: Ids) -> torch.Tensor:
        return torch.searchsorted(nodes_N, torch.from_numpy(nodes)).to(logits_NV.device)

    goals = {
        name: Goals(rows(labels.nodes), torch.from_numpy(labels.ids).to(logits_NV.device), None)
        for name, labels in example.labels.items()
        if len(labels.nodes)
    }
    goals |= {
        name: Goals(rows(pairs.students), None, rows(pairs.teachers))
        for name, pairs in example.pairs.items()
        if len(pairs.students)
    }
    if not goals:
        return {}
    sums = _Sums.apply(logits_NV, list(goals.values()))  # type: ignore[no-untyped-call]
    return dict(zip(goals, sums.unbind(), strict=True))


def total(sums: Mapping[str, torch.Tensor], counts: Mapping[str, int], weights: Mapping[str, float]) -> torch.Tensor:
    """Σ weight · sum / count: each term's mean over all its goals of one step, weighed.

    `counts` are those of the whole step, so that the parts of a step that is run in several passes add up to it.
    """
    assert sums, "an example without goals teaches nothing"
    parts = [weights[name] * value / counts[name] for name, value in sums.items()]
    loss = parts[0]
    for part in parts[1:]:
        loss = loss + part
    return loss


class _Sums(torch.autograd.Function):
    """Logits and the goals of some terms → each term's sum. No gradient goes through a teacher (q⁻ is stopped)."""

    @staticmethod
    def forward(ctx: Any, logits_NV: torch.Tensor, goals: Sequence[Goals]) -> torch.Tensor:
        ctx.save_for_backward(logits_NV)
        ctx.goals = goals
        sums = []
        for term in goals:
            parts = []
            for chunk in _chunks(term, logits_NV):
                said_CV = _log_probabilities(logits_NV, chunk.rows_M)
                if chunk.ids_M is not None:
                    parts.append(-said_CV.gather(1, chunk.ids_M[:, None]).sum())
                else:
                    assert chunk.teachers_M is not None
                    right_CV = _log_probabilities(logits_NV, chunk.teachers_M)
                    parts.append((right_CV.exp() * (right_CV - said_CV)).sum())
            sums.append(torch.stack(parts).sum())
        return torch.stack(sums)

    @staticmethod
    def backward(ctx: Any, *upstream: torch.Tensor) -> tuple[torch.Tensor, None]:
        """The gradient of both losses: the predicted less the right probabilities."""
        (logits_NV,) = ctx.saved_tensors
        gradient_NV = torch.zeros_like(logits_NV)
        for term, weight in zip(ctx.goals, upstream[0].unbind(), strict=True):
            for chunk in _chunks(term, logits_NV):
                wrong_CV = _log_probabilities(logits_NV, chunk.rows_M).exp_()
                if chunk.ids_M is not None:
                    wrong_CV.scatter_add_(1, chunk.ids_M[:, None], wrong_CV.new_full((len(chunk.ids_M), 1), -1.0))
                else:
                    assert chunk.teachers_M is not None
                    wrong_CV -= _log_probabilities(logits_NV, chunk.teachers_M).exp_()
                wrong_CV *= weight
                # A row may have several goals; this way of adding is in a fixed order on a GPU, too.
                gradient_NV.index_put_((chunk.rows_M,), wrong_CV.to(gradient_NV.dtype), accumulate=True)
        return gradient_NV, None


def _log_probabilities(logits_NV: torch.Tensor, rows_C: torch.Tensor) -> torch.Tensor:
    """Of some rows, in fp32 or float64: a new tensor."""
    taken_CV = logits_NV.index_select(0, rows_C)
    return torch.log_softmax(taken_CV, 1, dtype=torch.promote_types(taken_CV.dtype, torch.float32))


def _chunks(term: Goals, logits_NV: torch.Tensor) -> Iterator[Goals]:
    numbers = CHUNK_CPU if logits_NV.device.type == "cpu" else CHUNK_GPU
    size = max(1, numbers // logits_NV.shape[1])
    for start in range(0, len(term.rows_M), size):
        part = slice(start, start + size)
        yield Goals(
            term.rows_M[part],
            None if term.ids_M is None else term.ids_M[part],
            None if term.teachers_M is None else term.teachers_M[part],
        )
