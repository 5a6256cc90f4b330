"""Jacobi decoding: guess the next n tokens, run all, replace each by the argmax before it, until nothing moves.

Santilli et al. 2023, *Accelerating Transformer Inference for Translation via Parallel Decoding*, Algorithm 1 (PJ);
Kou et al. 2024 (*CLLMs*, section 3.1) for the start from random tokens *of the prompt*. One forward pass is one Jacobi
iteration: the accepted path is the part that no longer moves (the *fast-forward*), the rest of the state is the guess.
"""

import random
from dataclasses import dataclass, field

from fastcoder_lsp.core import NO_DRAFT, Draft, DraftContext, DraftTree, Verified


@dataclass(frozen=True, slots=True)
class JacobiParameters:
    """`length`: n, tokens guessed at once (paper: 16 or 32); `seed`: of the random start."""

    length: int = 16
    seed: int = 0


@dataclass(slots=True)
class JacobiDrafter:
    """Drafts one chain: the state of the iteration, y^(j)."""

    parameters: JacobiParameters = field(default_factory=JacobiParameters)
    name: str = "jacobi"
    top_k: int = 1
    _guess: list[int] = field(default_factory=list)
    _random: random.Random = field(default_factory=random.Random)

    def begin(self, context: DraftContext) -> None:  # noqa: ARG002 the interface
        """See `core.Drafter`; y^(0) is drawn in the first `propose`."""
        self._guess = []
        self._random.seed(self.parameters.seed)

    def propose(self, context: DraftContext, nodes: int) -> Draft:
        """See `core.Drafter`: the state, filled up with random tokens of the prompt where it became short."""
        length = min(self.parameters.length, nodes)
        if length < 1:
            return NO_DRAFT
        prompt = context.tokens[: context.prompt_length] or context.tokens
        while len(self._guess) < length:
            self._guess.append(self._random.choice(prompt))
        guess = tuple(self._guess[:length])
        return Draft(guess, tuple(range(-1, length - 1)), ("jacobi",) * length, (0,) * length)

    def observe(self, tree: DraftTree, verified: Verified) -> None:
        """y_i^(j+1) = argmax p(y | y_<i^(j), x): the argmax of each row is the next state, the accepted part cut off.

        The row of the last accepted node gave the token that is decided; the rows behind it give the new guess.
        """
        assert verified.top_ids_NK is not None
        last = verified.path[-1] if verified.path else tree.pending - 1
        self._guess = verified.top_ids_NK[last + 1 :, 0].tolist()

    def forget(self, document: str) -> None:
        """Nothing outlives a decode."""

    def rename(self, old: str, new: str) -> None:
        """Nothing outlives a decode."""
