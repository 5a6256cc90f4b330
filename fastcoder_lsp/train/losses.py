"""The losses, from logits alone: cross-entropy, and the consistency loss of Kou et al. 2024 (CLLM), equations 3 to 6.

Owns the formulas. `tests/train` holds them against a naive version in float64.

Legend: N nodes whose logits are there, V vocabulary.
"""

from collections.abc import Mapping

import numpy as np
import torch

from fastcoder_lsp.train.example import Example, Ids


def term_sums(example: Example, wanted: Ids, logits_NV: torch.Tensor) -> dict[str, torch.Tensor]:
    """The sum of each term's losses over one example, in nats.

    Args:
        example: its goals.
        wanted: the nodes that the rows of `logits_NV` belong to, ascending.
        logits_NV: in any precision; sums are made in fp32, or float64 where the logits are.
    """
    exact_NV = logits_NV if logits_NV.dtype == torch.float64 else logits_NV.float()

    def rows(nodes: Ids) -> torch.Tensor:
        return exact_NV[torch.from_numpy(np.searchsorted(wanted, nodes)).to(exact_NV.device)]

    sums = {}
    for name, labels in example.labels.items():
        if len(labels.nodes):
            ids = torch.from_numpy(labels.ids).to(exact_NV.device)
            sums[name] = cross_entropy_sum(rows(labels.nodes), ids)
    for name, pairs in example.pairs.items():
        if len(pairs.students):
            sums[name] = forward_kl_sum(rows(pairs.teachers), rows(pairs.students))
    return sums


def cross_entropy_sum(logits_NV: torch.Tensor, ids_N: torch.Tensor) -> torch.Tensor:
    """−Σ log p(id), over rows."""
    picked_N = logits_NV.gather(1, ids_N[:, None])[:, 0]
    return (logits_NV.logsumexp(1) - picked_N).sum()


def forward_kl_sum(teacher_NV: torch.Tensor, student_NV: torch.Tensor) -> torch.Tensor:
    """Σ D(q⁻ ‖ q) = Σ q⁻ (log q⁻ − log q), over rows; q⁻, the teacher, is stopped: no gradient goes through it."""
    kept_NV = torch.log_softmax(teacher_NV.detach(), 1)
    return (kept_NV.exp() * (kept_NV - torch.log_softmax(student_NV, 1))).sum()


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
