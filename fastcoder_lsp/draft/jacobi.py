"""Jacobi decoding: guess the next n tokens, run all, replace each by the argmax before it, until nothing moves.

Santilli et al. 2023, *Accelerating Transformer Inference for Translation via Parallel Decoding*, Algorithm 1 (PJ);
Kou et al. 2024 (*CLLMs*, section 3.1) for the start from random tokens *of the prompt*. One forward pass is one Jacobi
iteration: the accepted path is the part that no longer moves (the *fast-forward*), the rest of the state is the guess.
"""

import random
from dataclasses import dataclass

from fastcoder_lsp.core import NO_DRAFT, Draft, DraftContext, DrafterTraits, DraftTree, Verified
from fastcoder_lsp.draft.base import FROM_JACOBI, BaseDrafter, Specification


@dataclass(frozen=True, slots=True)
class JacobiParameters:
    """How many tokens are guessed, and from where.

    Attributes:
        length: n, tokens that are guessed at once (paper: 16 or 32).
        seed: of the random start.
    """

    length: int = 16
    seed: int = 0


JACOBI = Specification(
    "jacobi",
    "the state of a Jacobi iteration",
    JacobiParameters(),
    lambda parameters, _parts: JacobiDrafter(parameters),
    paper="Santilli et al. 2023, Algorithm 1",
    sources=(FROM_JACOBI,),
    traits=DrafterTraits(top_k=1),
)


class JacobiDrafter(BaseDrafter):
    """Drafts one chain: the state of the iteration, y^(j)."""

    def __init__(self, parameters: JacobiParameters | None = None) -> None:
        super().__init__(JACOBI)
        self._parameters = parameters or JacobiParameters()
        self._guess: list[int] = []
        self._random = random.Random(self._parameters.seed)  # noqa: S311 a guess is no secret

    def begin(self, context: DraftContext) -> None:  # noqa: ARG002 the interface
        """Forget the last decode's state; y^(0) is drawn in the first `propose`."""
        self._guess = []
        self._random.seed(self._parameters.seed)

    def propose(self, context: DraftContext, nodes: int) -> Draft:
        """The state, filled up with random tokens of the prompt where it became short."""
        length = min(self._parameters.length, nodes)
        if length < 1:
            return NO_DRAFT
        prompt = context.tokens[: context.prompt_length] or context.tokens
        while len(self._guess) < length:
            self._guess.append(self._random.choice(prompt))
        guess = tuple(self._guess[:length])
        return Draft(guess, tuple(range(-1, length - 1)), (FROM_JACOBI.name,) * length, (0,) * length)

    def observe(self, tree: DraftTree, verified: Verified) -> None:
        """y_i^(j+1) = argmax p(y | y_<i^(j), x): the argmax of each row is the next state, the accepted part cut off.

        The row of the last accepted node gave the token that is decided; the rows behind it give the new guess.
        """
        assert verified.top_ids_NK is not None
        last = verified.path[-1] if verified.path else tree.pending - 1
        self._guess = verified.top_ids_NK[last + 1 :, 0].tolist()
