"""From examples to losses: forward passes through a transformers model, and the loss terms from its logits.

The terms are cross-entropy, and the consistency loss of Kou et al. 2024 (CLLM, arXiv 2403.00835), equations 4 to 7.
`tests/papers/train` holds formulas and gradients against a naive version in float64. The gradients are written out
because of the vocabulary: of 150,000 tokens, a row's probabilities in fp32 weigh as much as hundreds of its hidden
states. With autograd, each of a loss's five intermediate results keeps all rows of them; here a few rows at a time are
computed, forward and backward, and only the logits are kept.

Packed, all examples of a pass form one row; a node sees its ancestors alone (a 4-D mask), and its position is its
depth. Models whose attention takes no such mask (recurrent ones, for example) run each branch as a text of its own: the
same logits for more work. `agrees` chooses by trying.

Legend: N nodes with logits, M goals of one term, C goals of one chunk, V vocabulary.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from fastcoder_lsp.papers.train.example import Example, Ids, Labels

CHUNK_CPU, CHUNK_GPU = 1 << 20, 1 << 26  # numbers of one chunk: few enough for a CPU's cache, many enough to fill a GPU
TOLERANCE = 2e-3
"""Of logits, relative to the largest: more than fp32 sums in another order differ, less than a wrong mask does."""


@dataclass(frozen=True, slots=True)
class Goals:
    """One term's goals: row `rows_M[i]` predicts token `ids_M[i]`, or like row `teachers_M[i]`; the other is None."""

    rows_M: torch.Tensor
    ids_M: torch.Tensor | None
    teachers_M: torch.Tensor | None


def term_sums(example: Example, wanted: Ids, logits_NV: torch.Tensor) -> dict[str, torch.Tensor]:
    """The sum of each term's losses over one example, in nats: −Σ log p(id), or the forward KL to the teachers.

    `wanted`: the nodes that the rows of `logits_NV` belong to, ascending. Sums are made in fp32, or float64 where the
    logits are.
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
    """Σ weight · sum / count: each term's mean over the goals of one whole step (`counts`), weighed."""
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


class Forward:
    """Computes the logits of examples at the nodes that have goals. `packed`: run trees packed; see `agrees`."""

    def __init__(self, model: Any, device: str, *, packed: bool = True) -> None:
        self.model, self.device, self.packed = model, device, packed

    def __call__(self, examples: Sequence[Example]) -> list[tuple[Ids, torch.Tensor]]:
        """For each example the nodes that its goals need, and their logits [N, V]."""
        if self.packed:
            return self._packed(examples)
        return [self._unrolled(example) for example in examples]

    def _packed(self, examples: Sequence[Example]) -> list[tuple[Ids, torch.Tensor]]:
        tokens = np.concatenate([example.tokens for example in examples])
        depths = np.concatenate([example.depths() for example in examples])
        mask = None if len(examples) == 1 and examples[0].is_chain else self._mask(forest_mask(examples))
        wanted = [example.wanted() for example in examples]
        starts = np.cumsum([0, *map(len, examples)])[:-1]
        kept = np.concatenate([nodes + start for nodes, start in zip(wanted, starts, strict=True)])
        logits_NV = self._run(tokens[None], depths[None], mask, torch.from_numpy(kept).to(self.device))[0]
        return list(zip(wanted, torch.split(logits_NV, [len(nodes) for nodes in wanted]), strict=True))

    def _unrolled(self, example: Example) -> tuple[Ids, torch.Tensor]:
        """Run every chain from the start to a leaf; a node's logits come from the first chain through it."""
        wanted = example.wanted()
        found: dict[int, Any] = {}
        for leaf in sorted(set(range(len(example))) - set(example.parents.tolist())):
            path = example.path(leaf)
            places = [place for place, node in enumerate(path) if node not in found]
            logits_NV = self._run(example.tokens[path][None], None, None, torch.tensor(places, device=self.device))[0]
            found.update(zip((path[place] for place in places), logits_NV, strict=True))
        return wanted, torch.stack([found[node] for node in wanted.tolist()])

    def _run(self, tokens: Ids, places: Ids | None, mask: torch.Tensor | None, kept: torch.Tensor) -> torch.Tensor:
        given: dict[str, Any] = {"input_ids": torch.from_numpy(tokens).to(self.device), "use_cache": False}
        if places is not None:
            given["position_ids"] = torch.from_numpy(places).to(self.device)
        if mask is not None:
            given["attention_mask"] = mask
        logits: torch.Tensor = self.model(**given, logits_to_keep=kept).logits
        return logits if logits.shape[1] == len(kept) else logits[:, kept]

    def _mask(self, seen: npt.NDArray[np.bool_]) -> torch.Tensor:
        """An additive mask, which every kind of attention takes: 0 for a visible node, else the least number."""
        visible = torch.from_numpy(seen).to(self.device)
        dtype = self.model.dtype
        if self.model.config._attn_implementation == "sdpa":  # noqa: SLF001 there is no public name
            return visible[None, None]
        return torch.zeros(visible.shape, dtype=dtype, device=self.device).masked_fill(
            ~visible, torch.finfo(dtype).min
        )[None, None]


def forest_mask(examples: Sequence[Example]) -> npt.NDArray[np.bool_]:
    """Which node sees which, [T, T], all examples one after the other."""
    size = sum(map(len, examples))
    seen = np.zeros((size, size), np.bool_)
    start = 0
    for example in examples:
        parents = example.parents
        chain = int(np.argmin(parents == np.arange(-1, len(example) - 1))) or len(example)
        seen[start : start + chain, start : start + chain] = np.tri(chain, dtype=np.bool_)
        for node in range(chain, len(example)):
            seen[start + node] = seen[start + parents[node]]
            seen[start + node, start + node] = True
        start += len(example)
    return seen


def agrees(model: Any, device: str) -> bool:
    """Whether packed trees give the logits of plain texts, tried on a small one."""
    ids = np.arange(11, 19, dtype=np.int64) % int(model.get_input_embeddings().weight.shape[0])
    parents = np.array([-1, 0, 1, 2, 3, 1, 5, 1], np.int64)
    example = Example(ids, parents, {"all": Labels(np.arange(8, dtype=np.int64), ids)}, {})
    with torch.inference_mode():
        _, expected = Forward(model, device, packed=False)([example])[0]
        try:
            _, found = Forward(model, device, packed=True)([example])[0]
        except (TypeError, ValueError, RuntimeError):
            return False
    if found.shape != expected.shape:
        return False
    scale = 10 if expected.dtype != torch.float32 else 1
    return bool((found - expected).abs().max() <= TOLERANCE * scale * expected.abs().max())
