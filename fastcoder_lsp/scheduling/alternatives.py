"""More candidates for a place than the model's greedy text.

They branch from it at the early tokens that the model was least certain of, and continue greedily. All share the prompt
in the KV cache, and one pass over the first tokens finds all branches. Runs in the scheduler's thread, one piece of
work at a time.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

from fastcoder_lsp.completion.suggestions import Suggestion
from fastcoder_lsp.core import CacheLost, Counts, DraftTree
from fastcoder_lsp.decode.healing import Healing
from fastcoder_lsp.decode.loop import DecodeRequest
from fastcoder_lsp.scheduling.generation import LocalGeneration
from fastcoder_lsp.scheduling.prefetch import Prefill

EARLY_TOKENS = 8
"""Candidates branch from the first one within so many tokens; later branches would look the same."""
TOP_K = 3
"""How many tokens are considered at each position."""
ATTEMPTS = 5
"""The most branches that are decoded in search of candidates that look different."""


@dataclass(frozen=True, slots=True)
class Branch:
    """Another beginning: `tokens`, whose last one is below the model's first choice by `gap` in its logit."""

    tokens: tuple[int, ...]
    gap: float


class Alternatives:
    """The search for alternatives to the finished candidate `first`; at most `most` candidates with it.

    Attributes:
        found: the candidates so far, the plain answer first.
        counts: the work for the others.
        branch: the one being decoded.
    """

    def __init__(self, first: LocalGeneration, most: int) -> None:
        self.found: list[Suggestion] = [first.made()]
        self.counts = Counts()
        self.finished = most < 2 or not self.found[0].text
        self._first, self._most = first, most
        self._engine = first.runtime.engine_for(first.snapshot.uri)
        self._prompt = Prefill(self._engine, first.latency, first.clock, first.request.prompt[:-1])
        self._branches: list[Branch] | None = None
        self.branch: LocalGeneration | None = None

    def work(self, room_ms: float) -> bool:
        """Do one piece of work; returns False where none fits into `room_ms`."""
        if not self._prompt.finished:
            return self._prompt.work(room_ms)
        if self._branches is None:
            return self._look(room_ms)
        if self.branch is None:
            self._begin()
            return True
        if not self.branch.finished:
            return self.branch.work(room_ms)
        self._take(self.branch)
        return True

    def close(self) -> None:
        """End the search, and keep the whole lines of the unfinished candidate."""
        if self.branch is not None:
            self._take(self.branch)
        self.finished = True

    def _look(self, room_ms: float) -> bool:
        """One pass over the first tokens, which finds the alternatives to each."""
        first, latency = self._first, self._first.latency
        said = first.tokens()[:EARLY_TOKENS]
        chain = DraftTree.chain((first.request.prompt[-1], *said[:-1]))
        if latency.step_ms(len(chain)) > room_ms:
            return False
        started = first.clock()
        try:
            verified = self._engine.step(chain, top_k=TOP_K)
        except CacheLost:  # the caches evict each other, and would do so again
            self._engine.prefill(first.request.prompt[:-1], lambda: False)
            verified = self._engine.step(chain, top_k=TOP_K)
        latency.stepped(len(chain), first.clock() - started)
        self.counts = replace(self.counts, steps=self.counts.steps + 1)
        if verified.top_ids_NK is None or verified.top_logits_NK is None:
            self._branches = []
        else:
            self._branches = branches(
                first.request, said, verified.top_ids_NK.tolist(), verified.top_logits_NK.tolist()
            )[:ATTEMPTS]
        self.finished = not self._branches
        return True

    def _begin(self) -> None:
        """Begin the next branch."""
        if not self._branches:
            self.finished = True
            return
        first = self._first
        begun = from_branch(first.request, self._branches.pop(0))
        if begun is not None:
            head, request = begun
            self.branch = LocalGeneration(
                first.runtime, first.latency, first.clock, first.snapshot, first.place, request, head
            )

    def _take(self, branch: LocalGeneration) -> None:
        """End a branch; keep it as a candidate if its text differs from all others."""
        self.branch, self.counts = None, self.counts + branch.counts()
        suggestion = branch.useful()
        shown = {" ".join(known.text.split()) for known in self.found}
        if suggestion.text and " ".join(suggestion.text.split()) not in shown:
            self.found.append(suggestion)
        self.finished = len(self.found) >= self._most or not self._branches


def branches(
    request: DecodeRequest, said: tuple[int, ...], top_ids: list[list[int]], top_logits: list[list[float]]
) -> list[Branch]:
    """Where the text can branch, the most likely branches first.

    `top_ids`, `top_logits`: the best ids of each position of `said` and their logits. Tokens that end the text, or
    contradict what the user has typed, are left out.
    """
    found, healing = [], Healing(request.healing, request.piece, request.allow)
    for position, token in enumerate(said):
        logits = dict(zip(top_ids[position], top_logits[position], strict=True))
        best = logits.get(token, max(logits.values()))
        for other, logit in logits.items():
            if other != token and other not in request.end_ids and healing.after(other) is not None:
                found.append(Branch((*said[:position], other), best - logit))
        after = healing.after(token)
        assert after is not None, "what was said agrees with what was typed"
        healing = after
    return sorted(found, key=lambda branch: (branch.gap, len(branch.tokens)))


def from_branch(request: DecodeRequest, branch: Branch) -> tuple[str, DecodeRequest] | None:
    """The branch's text so far, and the request that continues it; None where the text ends there."""
    said = b"".join(map(request.piece, branch.tokens))
    new = said[len(request.healing) :]
    try:
        head = new.decode()
    except UnicodeDecodeError:  # it ends inside a character
        return None
    if request.cut(head) is not None or len(branch.tokens) >= request.max_tokens:
        return None
    return head, replace(
        request,
        prompt=(*request.prompt, *branch.tokens),
        max_tokens=request.max_tokens - len(branch.tokens),
        healing=request.healing[len(said) :],
        cut=_cut_after(head, request.cut),
        outdated=(),
    )


def _cut_after(head: str, cut: Callable[[str], int | None]) -> Callable[[str], int | None]:
    def rest(text: str) -> int | None:
        length = cut(head + text)
        return None if length is None else max(length - len(head), 0)

    return rest
