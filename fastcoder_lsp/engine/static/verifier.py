"""Which token every row says, and which guesses were right, on the device and without a look from the host.

Owns choosing (as `engine.sampling` does, token for token) and the walk down the tree.

Legend: T rows, V vocabulary, K best ids.
"""

from dataclasses import dataclass

import torch

from fastcoder_lsp.engine.static.attention import TreeView
from fastcoder_lsp.engine.static.noise import gumbel
from fastcoder_lsp.engine.static.step_io import Inputs


@dataclass(frozen=True, slots=True)
class Ask:
    """What a step is asked for beside the accepted path; each combination is a program of its own.

    `sampled`: by noise, else greedy; `nucleus`: top-k or top-p bind; `bound`: some rows may say certain ids only;
    `top_k`: best ids of every row.
    """

    sampled: bool = False
    nucleus: bool = False
    bound: bool = False
    top_k: int = 0


@dataclass(frozen=True, slots=True)
class Followed:
    """The accepted path: `kept` rows stay, pending ones included; `nodes_T[d]` is the row at depth d of it."""

    kept: torch.Tensor
    nodes_T: torch.Tensor


def choose(
    logits_TV: torch.Tensor, inputs: Inputs, depths_T: torch.Tensor, keys_V: torch.Tensor, *, nucleus: bool
) -> torch.Tensor:
    """The token that every row says, drawn with the noise of the position after it; [T]."""
    scaled_TV = logits_TV.double() / inputs.temperature
    noisy_TV = scaled_TV + gumbel(inputs.noise, inputs.cached + depths_T + 1, keys_V)
    if nucleus:
        noisy_TV = torch.where(_nucleus(scaled_TV, inputs), noisy_TV, -torch.inf)
    return noisy_TV.argmax(1)


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


def follow(inputs: Inputs, view: TreeView, said_T: torch.Tensor) -> Followed:
    """The guesses that the model agrees with, from the root down.

    A guess is right where its parent says it; it is followed where all its ancestors are right too. No two children of
    a row hold the same token, so what is followed is one chain, and a row's depth is its place in it.
    """
    width = len(said_T)
    rows_T = torch.arange(width, device=said_T.device)
    right_T = inputs.tokens_T == said_T[inputs.parents_T.clamp(0, width - 1)]
    fits_T = view.depths_T < inputs.pending + inputs.room
    agreed_T = (rows_T < inputs.pending) | (right_T & fits_T & (rows_T < inputs.count))
    followed_T = ~(view.ancestors_TT & ~agreed_T).any(1) & (rows_T < inputs.count)
    # Rows that are not followed are written to a place behind the others.
    places_T = torch.where(followed_T, view.depths_T, width)
    nodes_T = torch.cat([rows_T, rows_T[:1]]).scatter(0, places_T, rows_T)[:width]
    return Followed(followed_T.sum(), nodes_T)


def top_rows(logits_TV: torch.Tensor, count: int) -> tuple[torch.Tensor, torch.Tensor]:
    """The `count` best ids and logits of every row, best first, equal ones by id: [T, K] each.

    Ids and logits are joined into keys that have one order: floats as integers that ascend with them, then ids.
    """
    vocabulary = logits_TV.shape[1]
    bits = (logits_TV.float() + 0.0).view(torch.int32)  # + 0.0 makes one zero of two
    ascending = bits ^ ((bits >> 31) & 0x7FFFFFFF)
    ids_V = torch.arange(vocabulary, device=logits_TV.device)
    keys = (ascending.long() << 32) + (vocabulary - 1 - ids_V)
    best = keys.topk(min(count, vocabulary), dim=1, sorted=True).values
    ids_TK = vocabulary - 1 - (best & 0xFFFFFFFF)
    return ids_TK, logits_TV.float().gather(1, ids_TK)
