"""The best ids of every row: whole rows are read once, and sorted is only what can be among the best.

Owns the order: higher first, equal ones by id.

Legend: T rows, V vocabulary, K best ids, C chunks of a row, N ids of a chunk, M candidates.
"""

import torch

CHUNK = 128
"""Ids that are judged by their highest."""


def top_rows(logits_TV: torch.Tensor, count: int, chunk: int = CHUNK) -> tuple[torch.Tensor, torch.Tensor]:
    """The `count` best ids and logits of every row, best first, equal ones by id: [T, K] each.

    What is among the best lies in one of as many chunks, those whose highest are best: each chunk before its own in
    that order holds something that is better, or equal and of a lower id.
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
    """Places and values of the best of few.

    They are joined into keys that have one order: floats as integers that ascend with them, then places.
    """
    last = values_TM.shape[1] - 1
    wide = values_TM.float() + 0.0  # makes one zero of two
    bits = wide.view(torch.int32)
    ascending = bits ^ ((bits >> 31) & 0x7FFFFFFF)
    keys = (ascending.long() << 32) + (last - torch.arange(last + 1, device=values_TM.device))
    places_TK = last - (keys.topk(count, dim=1, sorted=True).values & 0xFFFFFFFF)
    return places_TK, wide.gather(1, places_TK)
