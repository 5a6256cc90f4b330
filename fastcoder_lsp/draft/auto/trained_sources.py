"""What a tuned model offers to `auto`: its guesses as sources of the one tree.

CLLM: the state of the Jacobi iteration is a continuation of the text; rows of it that are worth their time are run, and
give the next state. SDSAT: what adaptive tokens guessed is a continuation, too, and further adaptive tokens are hung
below the tree that `auto` grew, where decoding is likely to stop. Owns both sources; `sdsat` has the guesses' form, and
`trained` says which of the two there is.
"""

import random
from collections.abc import Sequence

import numpy as np

from fastcoder_lsp.core import Draft, DraftContext, DraftTree, StepCosts, Verified
from fastcoder_lsp.draft.auto.cells import SOURCES, TRAINED
from fastcoder_lsp.draft.auto.sources import FoundContinuations, QuietSource
from fastcoder_lsp.draft.base import FROM_ADAPTIVE, Pinned
from fastcoder_lsp.draft.matching import GAP
from fastcoder_lsp.draft.sdsat import SdsatDrafter

_BELIEVED, _FADE = 5.0, 0.98
"""Tokens that adaptive rows are believed to have brought, and to have been hoped to bring; old ones fade a step."""


class JacobiSource(QuietSource):
    """CLLM's state as one continuation.

    In a merged tree the state's tokens may be anywhere below the root, and only those that paid are there. So the next
    state is read by walking the tree along this one; a token whose row was not run stays as it was.
    """

    name = SOURCES[TRAINED]
    top_k = 1

    def __init__(self, block: int, seed: int = 0) -> None:
        self._block, self._seed = block, seed
        self._random = random.Random(seed)  # noqa: S311 a guess is no secret
        self._state: list[int] = []

    def begin(self, context: DraftContext, stores: Pinned) -> None:  # noqa: ARG002 the interface
        """The state starts as random tokens of the prompt."""
        self._random.seed(self._seed)
        self._state = []

    def find(self, context: DraftContext, found: FoundContinuations) -> None:
        """The state, filled up with random tokens of the prompt where it became short."""
        prompt = context.tokens[: context.prompt_length] or context.tokens
        while len(self._state) < self._block:
            self._state.append(self._random.choice(prompt))
        found.add(np.array([self._state[: found.depth]], np.int32), TRAINED, 1)

    def observe(self, tree: DraftTree, verified: Verified, accepted: Sequence[int], start: int) -> None:  # noqa: ARG002
        """The row of the state's i-th token says what its next token becomes."""
        if not self._state:  # there was no room for a guess yet
            return
        assert verified.top_ids_NK is not None
        below, node = tree.children(), tree.pending - 1
        fresh: list[int | None] = []
        for token in self._state:
            child = below.get(node, {}).get(token) if node >= 0 else None
            node = -1 if child is None else child
            fresh.append(None if child is None else int(verified.top_ids_NK[child, 0]))
        first = len(verified.emitted) - 1
        old = [*self._state[1:], None]
        moved = zip(fresh[first:], old[first:], strict=True)
        self._state = [token for token in (kept if new is None else new for new, kept in moved) if token is not None]


class SdsatSource(QuietSource):
    """SDSAT's guesses as continuations, and the adaptive tokens that give the next ones."""

    name = SOURCES[TRAINED]

    def __init__(self, drafter: SdsatDrafter) -> None:
        self._drafter = drafter
        self.top_k = drafter.traits.top_k
        self._hoped = self._gained = _BELIEVED

    def begin(self, context: DraftContext, stores: Pinned) -> None:  # noqa: ARG002 the interface
        """The last decode's guesses say nothing of this one."""
        self._drafter.begin(context)

    def find(self, context: DraftContext, found: FoundContinuations) -> None:  # noqa: ARG002 as above
        """The likeliest tokens in a row, and at each place its other candidates."""
        candidates = [places for places in self._drafter.candidates() if places]
        firsts = [places[0].token for places in candidates][: found.depth]
        for place in range(len(firsts)):
            for candidate in candidates[place][1 if place else 0 :]:
                row = [*firsts[:place], candidate.token]
                if candidate is candidates[0][0]:
                    row = firsts
                padded = np.full((1, found.depth), GAP, np.int32)
                padded[0, : len(row)] = row
                found.add(padded, TRAINED, 1)

    def observe(self, tree: DraftTree, verified: Verified, accepted: Sequence[int], start: int) -> None:  # noqa: ARG002
        """Count what was accepted on this source's word, and read the next guesses."""
        self._gained += accepted.count(TRAINED)
        self._drafter.observe(tree, verified)

    def extended(self, draft: Draft, likely: Sequence[float], nodes: int, costs: StepCosts | None) -> Draft:
        """`draft` with adaptive tokens below it, as many as are worth their rows.

        A guess that comes true is no gain where other sources say the same. So what rows brought is counted by the
        tokens that were accepted on this source's word, and rows are worth the share of it that came of late.

        Args:
            draft: the tree that `auto` grew.
            likely: the probability of each of its nodes' paths.
            nodes: how many it may have in all.
            costs: what rows cost; None: a row must bring `SdsatParameters.least` tokens.
        """
        drafter = self._drafter
        stops = [1.0, *likely]
        for parent, chance in zip(draft.parents, likely, strict=True):
            stops[parent + 1] -= chance
        came = self._gained / self._hoped
        offers = sorted(
            (
                (came * max(stop, 0.0) * drafter.calibration.survival(place), -place, node - 1)
                for node, stop in enumerate(stops)
                for place in range(drafter.k)
            ),
            reverse=True,
        )
        tokens, parents, sources = list(draft.tokens), list(draft.parents), list(draft.sources)
        ends = {node: node for node in range(-1, len(draft.tokens))}
        for worth, place, below in offers:
            if len(tokens) >= nodes or worth < self._least(len(tokens), costs):
                break
            self._hoped += worth / came
            parents.append(ends[below])
            ends[below] = len(tokens)
            tokens.append(drafter.adaptive_id(-place))
            sources.append(FROM_ADAPTIVE.name)
        self._hoped, self._gained = (_FADE * value + (1 - _FADE) * _BELIEVED for value in (self._hoped, self._gained))
        matches = (*draft.matches, *(0 for _ in range(len(tokens) - len(draft.tokens))))
        return Draft(tuple(tokens), tuple(parents), tuple(sources), matches)

    def _least(self, drafts: int, costs: StepCosts | None) -> float:
        """The tokens that one more row must bring, for the time it takes: half of a plain step's would bring one."""
        if costs is None:
            return self._drafter.parameters.least
        more = costs.step_ms(drafts + 2) - costs.step_ms(drafts + 1)
        return max(self._drafter.parameters.least, 2 * more / costs.step_ms(1))
