"""Which token every row says where noise decides, on the device and without a look from the host.

Owns choosing, as `engine.sampling` does, token for token.

Legend: T rows, V vocabulary.
"""

from dataclasses import dataclass

import torch

from fastcoder_lsp.engine.static.noise import gumbel
from fastcoder_lsp.engine.static.step_io import Inputs
from fastcoder_lsp.engine.static.top import top_rows

HEAD, HEAD_CHUNK = 512, 16
"""Best ids that are looked at first where top-k or top-p bind; found in chunks so small that few others come along."""
ROWS = 16
"""Rows that are drawn at a time: noise has 64 bits for every id, and of all rows at once a small card has no room."""
UNDECIDED = -1
"""What a row says whose token may lie outside of the best."""


@dataclass(frozen=True, slots=True)
class Ask:
    """What a step is asked for beside what every row says; each combination is a program of its own.

    `sampled`: by noise, else greedy; `nucleus`: top-k or top-p bind, and `whole` vocabularies are sorted for it;
    `bound`: some rows may say certain ids only; `top_k`: best ids of every row.
    """

    sampled: bool = False
    nucleus: bool = False
    whole: bool = False
    bound: bool = False
    top_k: int = 0


def choose_rows(logits_TV: torch.Tensor, inputs: Inputs, keys_V: torch.Tensor, ask: Ask) -> torch.Tensor:
    """The token that every row says, drawn with the noise of the position after it; [T].

    Where top-k or top-p bind, only the best are looked at unless `ask.whole`: a row that needs more says `UNDECIDED`.
    """
    parts = zip(torch.split(logits_TV, ROWS), torch.split(inputs.positions_T + 1, ROWS), strict=True)
    return torch.cat([_choose(part_TV, after_T, inputs, keys_V, ask) for part_TV, after_T in parts])


def _choose(
    logits_TV: torch.Tensor, after_T: torch.Tensor, inputs: Inputs, keys_V: torch.Tensor, ask: Ask
) -> torch.Tensor:
    """The same for some of the rows; `after_T`: the positions whose noise decides."""
    if ask.nucleus and not ask.whole:
        return _among_best(logits_TV, after_T, inputs, keys_V)
    scaled_TV = logits_TV.double() / inputs.temperature
    noisy_TV = scaled_TV + gumbel(inputs.noise, after_T, keys_V)
    if ask.nucleus:
        noisy_TV = torch.where(_nucleus(scaled_TV, inputs), noisy_TV, -torch.inf)
    return noisy_TV.argmax(1)


def _among_best(logits_TV: torch.Tensor, after_T: torch.Tensor, inputs: Inputs, keys_V: torch.Tensor) -> torch.Tensor:
    """The same from the `HEAD` best ids of every row, which nearly always hold the mass that is asked for."""
    count = min(HEAD, logits_TV.shape[1])
    ids_TK, best_TK = top_rows(logits_TV, count, HEAD_CHUNK)
    scaled_TK = best_TK.double() / inputs.temperature
    rank_K = torch.arange(count, device=ids_TK.device)
    all_of_them = inputs.top_k <= 0
    in_top_k_K = all_of_them | (rank_K < inputs.top_k)
    weights_TK = torch.where(in_top_k_K, (scaled_TK - scaled_TK[:, :1]).exp(), 0.0)
    everything_T1 = (logits_TV.double() / inputs.temperature - scaled_TK[:, :1]).exp().sum(1, keepdim=True)
    mass_T1 = torch.where(all_of_them, everything_T1, weights_TK.sum(1, keepdim=True))
    held_TK = weights_TK.cumsum(1)
    enough = inputs.top_p * mass_T1
    in_top_p = (inputs.top_p >= 1.0) | (held_TK - weights_TK < enough) | (rank_K == 0)
    noisy_TK = scaled_TK + gumbel(inputs.noise, after_T, keys_V[ids_TK])
    drawn_T1 = torch.where(in_top_k_K & in_top_p, noisy_TK, -torch.inf).argmax(1, keepdim=True)
    known = (~all_of_them & (inputs.top_k <= count)) | ((inputs.top_p < 1.0) & (held_TK[:, -1:] >= enough))
    return torch.where(known, ids_TK.gather(1, drawn_T1), UNDECIDED)[:, 0]


def _nucleus(scaled_TV: torch.Tensor, inputs: Inputs) -> torch.Tensor:
    """Which ids top-k and then top-p leave; ties at an edge go to the lower id."""
    vocabulary = scaled_TV.shape[1]
    best_first, order_TV = scaled_TV.sort(dim=1, descending=True, stable=True)
    rank_V = torch.arange(vocabulary, device=scaled_TV.device)
    in_top_k_V = rank_V < torch.where(inputs.top_k > 0, inputs.top_k, vocabulary)
    weights = torch.where(in_top_k_V, (best_first - best_first[:, :1]).exp(), 0.0)
    before = weights.cumsum(1) - weights
    in_top_p = (inputs.top_p >= 1.0) | (before < inputs.top_p * weights.sum(1, keepdim=True)) | (rank_V == 0)
    return torch.zeros_like(scaled_TV, dtype=torch.bool).scatter_(1, order_TV, in_top_k_V & in_top_p)
