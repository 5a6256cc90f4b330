"""Running examples through a transformers model: trees packed into one row, or unrolled into chains.

Packed, all examples of a pass form one row; a node sees its ancestors alone (a 4-D mask), and its position is its
depth. Models whose attention takes no such mask (recurrent ones, for example) run each branch as a text of its own:
the same logits for more work. `agrees` chooses by trying.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from fastcoder_lsp.train.example import Example, Ids, Labels

TOLERANCE = 2e-3
"""Of logits, relative to the largest: more than fp32 sums in another order differ, less than a wrong mask does."""


class Forward:
    """Examples in, logits at their wanted nodes out.

    Args:
        model: of transformers, or wrapped by peft.
        device: where it is.
        packed: run trees packed; see `agrees`.
    """

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
        """Logits [1, len(kept), V] of one row of tokens."""
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
