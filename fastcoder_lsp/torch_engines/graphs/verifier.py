"""Chooses each row's token under sampling, and every row's best ids: on the device, without the host.

The choice is that of `engine.verification`, token for token: a draw is a function of (seed, position, id), by
SplitMix64 in wrapping int64, whose logical shifts are arithmetic ones with the copies of the sign masked off.

Legend: T rows, V vocabulary, K best ids, C chunks of a row, N ids of a chunk, M candidates.
"""

from dataclasses import dataclass

import torch

from fastcoder_lsp.torch_engines.graphs.step_io import Inputs

GOLDEN = 0x9E3779B97F4A7C15 - (1 << 64)  # 2^64 over the golden ratio, as a wrapped int64


def keys_of(vocabulary: int, device: torch.device) -> torch.Tensor:
    """The part of every id's noise that depends only on the id, [V]; made once."""
    return _mix(torch.arange(vocabulary, dtype=torch.int64, device=device) * GOLDEN + GOLDEN)


def gumbel(start: torch.Tensor, positions_T: torch.Tensor, keys_V: torch.Tensor) -> torch.Tensor:
    """Gumbel noise of every id at every position, float64 [T, V]."""
    streams_T = _mix(start + positions_T * GOLDEN)
    bits_TV = _mix(streams_T[:, None] ^ keys_V)
    uniform_TV = (_shift(bits_TV, 11).double() + 0.5) * 2.0**-53
    return -torch.log(-torch.log(uniform_TV))


def _mix(values: torch.Tensor) -> torch.Tensor:
    """SplitMix64's finaliser (Steele, Lea, Flood 2014)."""
    values = (values ^ _shift(values, 30)) * (0xBF58476D1CE4E5B9 - (1 << 64))
    values = (values ^ _shift(values, 27)) * (0x94D049BB133111EB - (1 << 64))
    return values ^ _shift(values, 31)


def _shift(values: torch.Tensor, bits: int) -> torch.Tensor:
    return (values >> bits) & ((1 << (64 - bits)) - 1)


CHUNK = 128  # ids in a chunk, which its highest represents


def top_rows(logits_TV: torch.Tensor, count: int, chunk: int = CHUNK) -> tuple[torch.Tensor, torch.Tensor]:
    """The `count` best ids and logits of every row, best first, equal ones by id: [T, K] each.

    They lie in the `count` chunks with the best maxima: each chunk before an id's own in that order holds one that is
    better, or equal and of a lower id.
    """
    vocabulary = logits_TV.shape[1]
    count, chunks = min(count, vocabulary), vocabulary // chunk
    if chunks <= count:
        return _best(logits_TV, count)
    whole = chunks * chunk
    highest_TC = logits_TV[:, :whole].view(-1, chunks, chunk).amax(2)
    chosen_TK = _best(highest_TC, count)[0].sort(1).values
    inside_N = torch.arange(chunk, device=logits_TV.device)
    ids_TM = (chosen_TK[:, :, None] * chunk + inside_N).flatten(1)
    if whole < vocabulary:
        rest = torch.arange(whole, vocabulary, device=logits_TV.device)
        ids_TM = torch.cat([ids_TM, rest.expand(len(ids_TM), -1)], dim=1)
    places_TK, values_TK = _best(logits_TV.gather(1, ids_TM), count)
    return ids_TM.gather(1, places_TK), values_TK


def _best(values_TM: torch.Tensor, count: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Places and values of the best of few, by keys that order floats as integers, then places."""
    last = values_TM.shape[1] - 1
    wide = values_TM.float() + 0.0  # makes one zero of two
    bits = wide.view(torch.int32)
    ascending = bits ^ ((bits >> 31) & 0x7FFFFFFF)
    keys = (ascending.long() << 32) + (last - torch.arange(last + 1, device=values_TM.device))
    places_TK = last - (keys.topk(count, dim=1, sorted=True).values & 0xFFFFFFFF)
    return places_TK, wide.gather(1, places_TK)


HEAD, HEAD_CHUNK = 512, 16
"""Best ids that are read first under top-k or top-p; found in chunks so small that few others come along."""
ROWS = 16
"""Rows that are drawn at a time: noise has 64 bits for every id, and a small card has no room for all rows at once."""
UNDECIDED = -1  # the choice of a row whose token may lie outside of the best


@dataclass(frozen=True, slots=True)
class StepVariant:
    """A step's request besides every row's choice; each combination is a program of its own."""

    sampled: bool = False  # by noise, else greedy
    nucleus: bool = False  # under top-k, top-p or min-p, with `whole` vocabularies sorted for it
    whole: bool = False
    bound: bool = False  # some rows may be followed only by certain ids
    top_k: int = 0  # best ids of every row


def choose_rows(logits_TV: torch.Tensor, inputs: Inputs, keys_V: torch.Tensor, ask: StepVariant) -> torch.Tensor:
    """The choice of every row, drawn with the noise of the position after it; [T].

    Under top-k, top-p or min-p it reads only the best ids unless `ask.whole`: a row needing more chooses `UNDECIDED`.
    """
    parts = zip(torch.split(logits_TV, ROWS), torch.split(inputs.positions_T + 1, ROWS), strict=True)
    return torch.cat([_choose(part_TV, after_T, inputs, keys_V, ask) for part_TV, after_T in parts])


def _choose(
    logits_TV: torch.Tensor, after_T: torch.Tensor, inputs: Inputs, keys_V: torch.Tensor, ask: StepVariant
) -> torch.Tensor:
    """The choices of some of the rows; `after_T`: the positions of their noise."""
    if ask.nucleus and not ask.whole:
        return _among_best(logits_TV, after_T, inputs, keys_V)
    scaled_TV = logits_TV.double() / inputs.temperature
    noisy_TV = scaled_TV + gumbel(inputs.noise, after_T, keys_V)
    if ask.nucleus:
        noisy_TV = torch.where(_nucleus(scaled_TV, inputs), noisy_TV, -torch.inf)
    return noisy_TV.argmax(1)


def _among_best(logits_TV: torch.Tensor, after_T: torch.Tensor, inputs: Inputs, keys_V: torch.Tensor) -> torch.Tensor:
    """The choices from the `HEAD` best ids of every row, which nearly always hold the required mass."""
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
    likely_TK = scaled_TK >= scaled_TK[:, :1] + inputs.least
    drawn_T1 = torch.where(in_top_k_K & in_top_p & likely_TK, noisy_TK, -torch.inf).argmax(1, keepdim=True)
    known = (~all_of_them & (inputs.top_k <= count)) | ((inputs.top_p < 1.0) & (held_TK[:, -1:] >= enough))
    known |= (all_of_them | (inputs.top_p >= 1.0)) & ~likely_TK[:, -1:]
    return torch.where(known, ids_TK.gather(1, drawn_T1), UNDECIDED)[:, 0]


def _nucleus(scaled_TV: torch.Tensor, inputs: Inputs) -> torch.Tensor:
    """Which ids top-k, then top-p, then min-p keep; ties at an edge go to the lower id."""
    vocabulary = scaled_TV.shape[1]
    best_first, order_TV = scaled_TV.sort(dim=1, descending=True, stable=True)
    rank_V = torch.arange(vocabulary, device=scaled_TV.device)
    in_top_k_V = rank_V < torch.where(inputs.top_k > 0, inputs.top_k, vocabulary)
    weights = torch.where(in_top_k_V, (best_first - best_first[:, :1]).exp(), 0.0)
    before = weights.cumsum(1) - weights
    in_top_p = (inputs.top_p >= 1.0) | (before < inputs.top_p * weights.sum(1, keepdim=True)) | (rank_V == 0)
    likely_TV = best_first >= best_first[:, :1] + inputs.least
    return torch.zeros_like(scaled_TV, dtype=torch.bool).scatter_(1, order_TV, in_top_k_V & in_top_p & likely_TV)
