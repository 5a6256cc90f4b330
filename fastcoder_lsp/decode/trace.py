"""Records where every token of an output came from, step by step, in plain values; never changes the loop."""

import codecs
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from fastcoder_lsp.core import DraftTree, StepTrace, TracedToken, Verified


class Tracer:
    """Listens to the loop (`decode(..., on_step=tracer)`); `healed` leading bytes are no part of the output."""

    def __init__(self, piece: Callable[[int], bytes], healed: int = 0) -> None:
        self._piece, self._healed = piece, healed
        self._steps: list[tuple[DraftTree, Verified]] = []

    def __call__(self, tree: DraftTree, verified: Verified) -> None:
        """Keep a step; conversion waits for `trace`."""
        self._steps.append((tree, verified))

    def trace(self, tokens: int) -> tuple[StepTrace, ...]:
        """The steps that gave the output's first `tokens` tokens, without the tokens after its end."""
        traced, healed = [], self._healed
        for tree, verified in self._steps:
            step = trace_step(tree, verified, self._piece, tokens)
            tokens -= len(step.tokens)
            shown = []
            for token in step.tokens:
                shown.append(replace(token, piece=token.piece[healed:]))
                healed = max(healed - len(token.piece), 0)
            traced.append(replace(step, tokens=tuple(shown)))
        return tuple(traced)


def trace_step(tree: DraftTree, verified: Verified, piece: Callable[[int], bytes], at_most: int) -> StepTrace:
    """One step in plain values; at most `at_most` of its tokens belong to the output."""
    path = verified.path[:at_most]
    tokens = [TracedToken(piece(tree.tokens[node]), tree.sources[node], tree.matches[node]) for node in path]
    if len(verified.path) < at_most:
        tokens.append(TracedToken(piece(verified.emitted[-1])))
    return StepTrace(tuple(tokens), tree, tuple(map(piece, tree.tokens)), path)


def texts(pieces: Iterable[bytes]) -> list[str]:
    """The texts of consecutive tokens; a character made of several tokens belongs to the last of them."""
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    return [decoder.decode(piece) for piece in pieces]


def token_texts(steps: Sequence[StepTrace]) -> list[list[str]]:
    """The texts of each step's tokens; joined, they are the output."""
    every = iter(texts(token.piece for step in steps for token in step.tokens))
    return [[next(every) for _ in step.tokens] for step in steps]


def as_plain(steps: Sequence[StepTrace]) -> list[dict[str, object]]:
    """The trace as plain JSON values.

    A step has `tokens` {text, source, match} (the model's own have the source "model") and the `draft`: lists `texts`,
    `parents` (-1: the root), `sources`, `matches`, all by node, and `accepted`: the nodes that were accepted, in order.
    """
    return [
        {
            "tokens": [
                {"text": text, "source": token.source or "model", "match": token.match}
                for token, text in zip(step.tokens, step_texts, strict=True)
            ],
            "draft": _plain_draft(step),
        }
        for step, step_texts in zip(steps, token_texts(steps), strict=True)
    ]


def _plain_draft(step: StepTrace) -> dict[str, object]:
    tree, first = step.tree, step.tree.pending
    return {
        "texts": [piece.decode("utf-8", errors="replace") for piece in step.pieces[first:]],
        "parents": [max(parent - first, -1) for parent in tree.parents[first:]],
        "sources": list(tree.sources[first:]),
        "matches": list(tree.matches[first:]),
        "accepted": [node - first for node in step.path],
    }
