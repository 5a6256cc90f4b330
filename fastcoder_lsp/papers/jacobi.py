"""Jacobi decoding, and lookahead decoding, which verifies the n-grams of its trajectory.

`jacobi`: guess the next n tokens, run all, replace each by the argmax before it, until nothing changes. Santilli et al.
2023, *Accelerating Transformer Inference for Translation via Parallel Decoding*, Algorithm 1 (PJ); Kou et al. 2024
(*CLLMs*, section 3.1) for the start from random tokens *of the prompt*. One forward pass is one iteration: the accepted
path is the part that no longer changes (the *fast-forward*), the rest of the state is the guess.

`lookahead`: Fu et al. 2024, *Break the Sequential Dependency of LLM Inference Using Lookahead Decoding*, Algorithm 2.
One forward pass runs two branches. The *lookahead branch* is a window of W columns and N-1 levels of a Jacobi
trajectory: a token of level j in column i sees level 0 up to its column, then its own column's levels below j (Figure
3). That is a tree: level 0 is a chain below the last token, and from each of its tokens hangs a chain through the
levels. The *verification branch* holds up to G n-grams of the pool that begin with the last token.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace

from typing_extensions import override

from fastcoder_lsp.core import NO_DRAFT, Draft, DraftContext, DrafterTraits, DraftTree, Verified
from fastcoder_lsp.documents import PerDocument
from fastcoder_lsp.draft.auto.evidence import SOURCES, TRAINED
from fastcoder_lsp.draft.auto.sources import ContinuationSource, FoundContinuations
from fastcoder_lsp.draft.base import FROM_JACOBI, Drafter, DrafterParts, Pinned, Source, Specification, chain, limited
from fastcoder_lsp.papers.cacheback import LruTable
from fastcoder_lsp.papers.trees import Trie

FROM_LOOKAHEAD = Source("lookahead", "cache")
UNTUNED = 16  # n on a model that no CLLM tuned


@dataclass(frozen=True, slots=True)
class JacobiParameters:
    """Parameters of `jacobi`: n, tokens guessed at once (paper: 16 or 32), and the seed of the random start.

    n is at first the model's, 16 on one that was not tuned; no more are guessed than a verification has rows.
    """

    length: int = 0
    seed: int = 0


JACOBI = Specification(
    "jacobi",
    "the state of a Jacobi iteration",
    JacobiParameters(),
    lambda parameters, parts: JacobiDrafter(parameters, parts.trained.block),
    paper="Santilli et al. 2023, Algorithm 1",
    sources=(FROM_JACOBI,),
    traits=DrafterTraits(top_k=1),
)


class JacobiDrafter(Drafter):
    """Drafts one chain: the state of the iteration, y^(j)."""

    def __init__(self, parameters: JacobiParameters | None = None, block: int = 0) -> None:
        super().__init__(JACOBI)
        self._parameters = parameters or JacobiParameters()
        self._length = self._parameters.length or block or UNTUNED
        self._guess: list[int] = []
        self._random = random.Random(self._parameters.seed)  # noqa: S311 a guess is no secret

    @override
    def begin(self, context: DraftContext) -> None:
        self._guess = []
        self._random.seed(self._parameters.seed)

    @override
    def propose(self, context: DraftContext, nodes: int) -> Draft:
        length = min(self._length, nodes)
        if length < 1:
            return NO_DRAFT
        prompt = context.tokens[: context.prompt_length] or context.tokens
        while len(self._guess) < length:
            self._guess.append(self._random.choice(prompt))
        return chain(self._guess[:length], FROM_JACOBI)

    def observe(self, tree: DraftTree, verified: Verified) -> None:
        """y_i^(j+1) = argmax p(y | y_<i^(j), x): the argmax of each row is the next state, the accepted part cut off.

        The row of the last accepted node gave the decided token; the rows after it give the new guess.
        """
        assert verified.top_ids_NK is not None
        last = verified.path[-1] if verified.path else tree.pending - 1
        self._guess = verified.top_ids_NK[last + 1 :, 0].tolist()


@dataclass(frozen=True, slots=True)
class LookaheadParameters:
    """Parameters of `lookahead`.

    Where the verification is narrower than W·(N-1) + G·(N-1) rows, the guesses take what they need first, half of it at
    most, and the window shrinks; the rest holds the beginning of one more guess.
    """

    window: int = 15  # W (paper: 15 for 7B models)
    gram: int = limited(5, least=2)  # N (paper: 5)
    guesses: int = 15  # G (paper: 15)
    seed: int = 0  # of the random start
    prompt: bool = False
    """Whether the pool starts with the n-grams of the prompt (the paper's ablation: "prompt as reference")."""
    leaders_at_most: int = 8192  # bounds one document's pool


LOOKAHEAD_PAPER = Specification(
    "lookahead-paper",
    "n-grams of a Jacobi trajectory",
    LookaheadParameters(),
    lambda parameters, _parts: LookaheadDrafter(parameters),
    paper="Fu et al. 2024, Algorithm 2",
    sources=(FROM_LOOKAHEAD, FROM_JACOBI),
    traits=DrafterTraits(top_k=1),
    remembers=True,
)
LOOKAHEAD = replace(
    LOOKAHEAD_PAPER,
    name="lookahead",
    guesses_from="n-grams of a Jacobi trajectory and of the prompt",
    parameters=LookaheadParameters(prompt=True),
)


class LookaheadDrafter(Drafter):
    """Drafts the pool's n-grams, and the window that makes new ones."""

    def __init__(self, parameters: LookaheadParameters | None = None) -> None:
        self._parameters = params = parameters or LookaheadParameters()
        # First token → the N-1 tokens after it, at most G of them.
        self._documents = PerDocument(lambda: LruTable[int](params.leaders_at_most, params.guesses))
        super().__init__(LOOKAHEAD, self._documents)
        self.pool = self._documents.fetch("")  # the n-grams of this decode's document
        self._random = random.Random(params.seed)  # noqa: S311 a guess is no secret
        self._levels: list[list[int]] = []
        self._width = 0  # columns of the window that were drafted in this step

    def begin(self, context: DraftContext) -> None:
        """Algorithm 2, line 2: level 0 starts as random tokens, taken from the prompt; the others come step by step."""
        self.pool = self._documents.fetch(context.document)
        self._random.seed(self._parameters.seed)
        prompt = context.tokens[: context.prompt_length] or context.tokens
        self._levels = [[self._random.choice(prompt) for _ in range(self._parameters.window)]]
        if self._parameters.prompt:
            for start in range(len(prompt) - self._parameters.gram + 1):
                self.pool.insert(prompt[start], tuple(prompt[start + 1 : start + self._parameters.gram]))

    def propose(self, context: DraftContext, nodes: int) -> Draft:
        """Both branches, the verification branch first: if room is short, its guesses are worth more."""
        if nodes < 1 or not self._levels:
            return NO_DRAFT
        levels = len(self._levels)
        guesses = self.pool.peek(context.tokens[-1])
        for_window = min(
            self._parameters.window * levels, max(nodes // 2, nodes - len(guesses) * (self._parameters.gram - 1))
        )
        self._width = for_window // levels
        draft = Trie(nodes)
        for gram in guesses:
            left = draft.left() - self._width * levels
            if left < 1:
                break
            draft.chain(-1, gram[:left], FROM_LOOKAHEAD, self._parameters.gram)
        place = -1
        for column in range(self._width):
            place = draft.chain(place, [self._levels[0][column]], FROM_JACOBI)
            draft.chain(place, [level[column] for level in self._levels[1:]], FROM_JACOBI)
        return draft.draft()

    def observe(self, tree: DraftTree, verified: Verified) -> None:
        """Algorithm 2, lines 12–20: the argmax below the top level is the new level; each column is a new n-gram.

        The tree is walked by tokens, for twins were merged and nodes that healing forbids were dropped.
        """
        assert verified.top_ids_NK is not None
        best = verified.top_ids_NK[:, 0]
        below, root = tree.children(), tree.pending - 1
        fresh: list[int | None] = []
        place: int | None = root
        for column in range(self._width):
            place = self._step(below, place, self._levels[0][column])
            top = place
            for level in self._levels[1:]:
                top = self._step(below, top, level[column])
            fresh.append(None if top is None else int(best[top]))
        if not fresh:
            return
        self._advance(fresh)

    def _advance(self, fresh: Sequence[int | None]) -> None:
        """Add the level `fresh`; a column that was not run keeps its top token. Once N-1 levels stand, the pool grows.

        With the new level each column of a full window is an n-gram of N tokens; then the lowest level falls.
        """
        top = self._levels[-1]
        level = [top[i] if i >= len(fresh) or fresh[i] is None else fresh[i] for i in range(len(top))]
        self._levels.append([token for token in level if token is not None])
        if len(self._levels) < self._parameters.gram:
            return
        for column, token in enumerate(fresh):
            if token is not None:
                self.pool.insert(self._levels[0][column], tuple(row[column] for row in self._levels[1:]))
        del self._levels[0]

    @staticmethod
    def _step(below: dict[int, dict[int, int]], node: int | None, token: int) -> int | None:
        return None if node is None else below.get(node, {}).get(token)


class JacobiSource(ContinuationSource):
    """On a model tuned by CLLM, the state of the Jacobi iteration as one continuation.

    In a merged tree the state's tokens may be anywhere below the root, so the next state is read by walking the tree
    along this one; a token whose row was not run stays.
    """

    name = SOURCES[TRAINED]
    top_k = 1

    def __init__(self, block: int) -> None:
        self._block = self.depth = block
        self._random = random.Random(0)  # noqa: S311 a guess is no secret
        self._state: list[int] = []

    @override
    def begin(self, context: DraftContext, stores: Pinned) -> None:
        self._random.seed(0)
        self._state = []

    def find(self, context: DraftContext, found: FoundContinuations) -> None:
        """Add the state, filled up with random tokens of the prompt."""
        prompt = context.tokens[: context.prompt_length] or context.tokens
        while len(self._state) < self._block:
            self._state.append(self._random.choice(prompt))
        found.add_row(self._state, TRAINED, 1)

    def observe(self, tree: DraftTree, verified: Verified, accepted: Sequence[int], start: int) -> None:  # noqa: ARG002
        """The best id of the row of the state's i-th token is its next token."""
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


SPECIFICATIONS = (JACOBI, LOOKAHEAD, LOOKAHEAD_PAPER)


def for_auto(parts: DrafterParts, _weights: str) -> JacobiSource:
    """The source of `auto` (`draft.auto.sources.Offer`), on a model tuned by CLLM."""
    return JacobiSource(parts.trained.block)
