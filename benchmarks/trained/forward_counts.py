"""What Jacobi and SDSAT decoding do on a model, counted: fast-forward, stationary tokens, guesses accepted of k.

Owns the counting, by drafters that listen. Kou et al. 2024, section 4.3: the *fast-forward* count of a step is how many
tokens became final in it; *stationary* tokens are those of a guess that are right already though one before them is
wrong, and stay. Liu et al. 2024, table 3: of k guesses, how many are accepted.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from fastcoder_lsp.core import Draft, DraftContext, Drafter, DraftTree, Engine, Sampler, Verified
from fastcoder_lsp.decode.loop import DecodeRequest, decode
from fastcoder_lsp.draft.jacobi import JacobiDrafter, JacobiParameters
from fastcoder_lsp.draft.none import NoDrafter
from fastcoder_lsp.draft.sdsat import FROM_SDSAT, SdsatDrafter, SdsatParameters

GRAM = 4


class _Listening(NoDrafter):
    """A drafter whose drafts and outcomes are handed on."""

    def __init__(self, drafter: Drafter) -> None:
        super().__init__()
        self.drafter, self.name, self.traits = drafter, drafter.name, replace(drafter.traits, late=False)

    def begin(self, context: DraftContext) -> None:
        self.drafter.begin(context)

    def propose(self, context: DraftContext, nodes: int) -> Draft:
        return self.drafter.propose(context, nodes)

    def observe(self, tree: DraftTree, verified: Verified) -> None:
        self.drafter.observe(tree, verified)

    def forget(self, document: str) -> None:
        self.drafter.forget(document)

    def rename(self, old: str, new: str) -> None:
        self.drafter.rename(old, new)


class StateListener(_Listening):
    """Remembers every state of a Jacobi iteration and where it stood: (tokens of output before it, state)."""

    def __init__(self, block: int) -> None:
        super().__init__(JacobiDrafter(JacobiParameters(length=block)))
        self.states: list[tuple[int, tuple[int, ...]]] = []

    def propose(self, context: DraftContext, nodes: int) -> Draft:
        """Remember the state."""
        draft = super().propose(context, nodes)
        self.states.append((len(context.tokens) - context.prompt_length, draft.tokens))
        return draft


class AcceptListener(_Listening):
    """Counts how many guesses of each chain that was verified were accepted."""

    def __init__(self, adaptive: Sequence[int], k: int) -> None:
        super().__init__(SdsatDrafter(adaptive, SdsatParameters(k=k, branch=1, least=0.0, two_step=True)))
        self.accepted: list[int] = []

    def observe(self, tree: DraftTree, verified: Verified) -> None:
        """Count, where there were guesses."""
        if FROM_SDSAT.name in tree.sources:
            self.accepted.append(len(verified.path))
        super().observe(tree, verified)


@dataclass(slots=True)
class JacobiCount:
    """Sums over decodes with one block length."""

    tokens: int = 0
    steps: int = 0
    states: int = 0
    stationary: int = 0

    @property
    def fast_forward(self) -> float:
        """Tokens that became final in a step, on average."""
        return self.tokens / max(self.steps, 1)

    @property
    def stationary_mean(self) -> float:
        """Stationary tokens of a state, on average."""
        return self.stationary / max(self.states, 1)


@dataclass(slots=True)
class AcceptCount:
    """Sums over decodes with one k; `histogram[a]`: verifications that accepted a guesses."""

    tokens: int = 0
    steps: int = 0
    histogram: dict[int, int] = field(default_factory=dict)

    @property
    def accepted(self) -> float:
        """Guesses accepted of k in a verification, on average."""
        total = sum(self.histogram.values())
        return sum(count * times for count, times in self.histogram.items()) / max(total, 1)

    @property
    def tokens_a_pass(self) -> float:
        """Tokens over passes, those that only guess among them."""
        return self.tokens / max(self.steps, 1)


def stationary(states: Sequence[tuple[int, tuple[int, ...]]], output: Sequence[int]) -> tuple[int, int]:
    """How many states there are, and how many of all their tokens are right behind a wrong one."""
    right_behind = 0
    for start, state in states:
        final = output[start : start + len(state)]
        agrees = [token == said for token, said in zip(state, final, strict=False)]
        wrong = agrees.index(False) if False in agrees else len(agrees)
        right_behind += sum(agrees[wrong:])
    return len(states), right_behind


def count_jacobi(engine: Engine, requests: Sequence[DecodeRequest], block: int) -> JacobiCount:
    """Decode all `requests` by Jacobi iteration with n = `block`."""
    count = JacobiCount()
    for request in requests:
        listener = StateListener(block)
        result = decode(engine, listener, _wide(request, block + 1), lambda: False)
        states, right = stationary(listener.states, result.tokens)
        count.tokens += len(result.tokens)
        count.steps += result.counts.steps
        count.states += states
        count.stationary += right
    return count


def count_accepted(engine: Engine, requests: Sequence[DecodeRequest], adaptive: Sequence[int], k: int) -> AcceptCount:
    """Decode all `requests` by SDSAT in the paper's two steps with k guesses."""
    count = AcceptCount()
    for request in requests:
        listener = AcceptListener(adaptive, k)
        result = decode(engine, listener, _wide(request, 2 * k + 2), lambda: False)
        count.tokens += len(result.tokens)
        count.steps += result.counts.steps
        for accepted in listener.accepted:
            count.histogram[accepted] = count.histogram.get(accepted, 0) + 1
    return count


def distinct_share(outputs: Sequence[Sequence[int]]) -> float:
    """Distinct 4-grams over all of each output, averaged: what loops has few."""
    shares = []
    for output in outputs:
        grams = [tuple(output[place : place + GRAM]) for place in range(len(output) - GRAM + 1)]
        if grams:
            shares.append(len(set(grams)) / len(grams))
    return sum(shares) / max(len(shares), 1)


def _wide(request: DecodeRequest, nodes: int) -> DecodeRequest:
    """The request with room for pending tokens and `nodes` more."""
    return replace(request, nodes=nodes + 12, sampler=Sampler())
