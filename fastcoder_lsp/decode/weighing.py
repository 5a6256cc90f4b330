"""Weighs the tokens that may begin a text whose first bytes are given: a word that the user has begun.

The likeliest of them is often a part of these bytes, such as `f` of `foun`: likely as a whole word, while hardly any
token that the model says after it spells the rest, because it would write the word by other tokens. So the chance of a
part counts together with that of the likeliest token that goes on with the given bytes.
"""

from dataclasses import dataclass, field
from math import inf

import numpy as np

from fastcoder_lsp.core import DraftTree, Verified
from fastcoder_lsp.core.arrays import Floats, Int64s
from fastcoder_lsp.decode.tree import Healing

WEIGHED = 64
"""Best tokens after a part, of which the likeliest that goes on with the given bytes is looked for."""


@dataclass(slots=True)
class Weighing:
    """The candidates after a step, and what is known of them.

    `tree`, `verified`: the step, with the token that it emitted first; `logits`: the candidates', of parts that have
    been tried together with what follows; `parts`: those that have not.
    """

    tree: DraftTree
    verified: Verified
    healing: Healing
    logits: dict[int, float]
    parts: set[int] = field(default_factory=set)

    @classmethod
    def of(cls, tree: DraftTree, verified: Verified, healing: Healing) -> "Weighing | None":
        """None where the step's first token needs no weighing: it spells all bytes, or nothing competes with it."""
        token, ids_NK, logits_NK = verified.emitted[0], verified.top_ids_NK, verified.top_logits_NK
        if ids_NK is None or logits_NK is None or not _ends_in_word(healing.remaining) or not _is_part(token, healing):
            return None
        root = tree.pending - 1
        allowed = set(healing.allow(healing.remaining).tolist())
        found = zip(ids_NK[root].tolist(), logits_NK[root].tolist(), strict=True)
        logits = {one: logit for one, logit in found if one in allowed and logit > -inf}
        if token not in logits or len(logits) == 1:
            return None
        first = Verified((), (token,), ids_NK, logits_NK)
        return cls(tree, first, healing, logits, {one for one in logits if _is_part(one, healing)})

    @property
    def best(self) -> int:
        """The likeliest candidate by what is known; the lowest id of equals."""
        return max(self.logits, key=lambda token: (self.logits[token], -token))

    @property
    def settled(self) -> bool:
        """Whether the best candidate is known to be the best."""
        return self.best not in self.parts

    def tried(self, token: int, ids_K: Int64s, logits_K: Floats) -> None:
        """Weigh a part by the best tokens after it. If none of them goes on, it counts as the last of them."""
        after = self.healing.after(token)
        assert after is not None, "only parts of the given bytes are tried"
        goes_on = set(after.allow(after.remaining).tolist())
        shares_K = logits_K.astype(np.float64) - float(np.logaddexp.reduce(logits_K.astype(np.float64)))
        places = (place for place, one in enumerate(ids_K.tolist()) if one in goes_on)
        self.logits[token] += float(shares_K[next(places, -1)])
        self.parts.discard(token)

    def outcome(self) -> Verified:
        """The step with the best candidate as its token; the candidates' logits are those that are known now."""
        ids_NK, logits_NK = self.verified.top_ids_NK, self.verified.top_logits_NK
        assert ids_NK is not None, "a step without ranks is not weighed"
        assert logits_NK is not None, "a step without ranks is not weighed"
        ids_NK, logits_NK, root = ids_NK.copy(), logits_NK.copy(), self.tree.pending - 1
        ranked = sorted(self.logits, key=lambda token: (-self.logits[token], token))
        ids_NK[root, : len(ranked)], ids_NK[root, len(ranked) :] = ranked, ranked[-1]
        logits_NK[root, : len(ranked)], logits_NK[root, len(ranked) :] = [self.logits[one] for one in ranked], -inf
        return Verified((), (self.best,), ids_NK, logits_NK)


def _is_part(token: int, healing: Healing) -> bool:
    return len(healing.piece(token)) < len(healing.remaining)


def _ends_in_word(given: bytes) -> bool:
    letter = given.decode(errors="ignore")[-1:]
    return letter.isalnum() or letter == "_"
