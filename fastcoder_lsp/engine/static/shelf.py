"""Other prefixes: what the KV cache held before it was needed for another document, so that going back costs a copy.

Owns the copies, the oldest of which fall when they are too many or too large. Documents that share repository context
share the head of their prompts; the longest common prefix is looked for among all that is kept.
"""

from dataclasses import dataclass

import torch

from fastcoder_lsp.core import Tokens
from fastcoder_lsp.engine.prefix import common_prefix
from fastcoder_lsp.engine.static.cache import Saved, StaticCache

WORTH = 64
"""Tokens that must be gained, or lost, for a copy to pay."""
ENTRIES = 8


@dataclass(frozen=True, slots=True)
class _Kept:
    """Tokens and a copy of their slots."""

    tokens: tuple[int, ...]
    slots: Saved


class Shelf:
    """Kept prefixes, the latest last; at most `limit_bytes` of them together."""

    def __init__(self, limit_bytes: int) -> None:
        self._limit = limit_bytes
        self._kept: list[_Kept] = []

    def __len__(self) -> int:
        return len(self._kept)

    def exchange(self, cache: StaticCache, held: Tokens, wanted: Tokens) -> int:
        """Make ready for `wanted`: keep what of `held` would be lost, restore what fits better; tokens in place now."""
        shared = common_prefix(held, wanted)
        best = max(self._kept, key=lambda kept: common_prefix(kept.tokens, wanted), default=None)
        found = common_prefix(best.tokens, wanted) if best is not None else 0
        if len(held) - shared >= WORTH and shared < len(wanted):
            self._keep(cache, held)
        if best is None or found < shared + WORTH:
            return shared
        cache.restore(best.slots, found)
        if best in self._kept:
            self._kept.remove(best)
            self._kept.append(best)
        return found

    def clear(self) -> None:
        """Forget all."""
        self._kept.clear()

    def _keep(self, cache: StaticCache, tokens: Tokens) -> None:
        """Copy the slots of `tokens`; a copy that begins like them and holds no more is dropped for it."""
        new = tuple(tokens)
        self._kept = [kept for kept in self._kept if common_prefix(kept.tokens, new) < len(kept.tokens)]
        while len(self._kept) >= ENTRIES:
            del self._kept[0]
        try:
            slots = cache.save(len(new))
        except torch.OutOfMemoryError:
            self._kept.clear()  # a shelf is a luxury
            return
        self._kept.append(_Kept(new, slots))
        while self._kept and sum(kept.slots.nbytes for kept in self._kept) > self._limit:
            del self._kept[0]
