"""Another drafter as a source of `auto`: asked where what it brings is worth the time that it takes.

A drafter that runs a model costs milliseconds before anything is verified. What a draft takes and brings is known
before the first one (`forecast`), and corrected by what is measured: the time of its drafts and of reading the text for
them, and tokens that were accepted on its word alone. It is asked where that many tokens, at what a token costs
otherwise, are worth more than the asking takes. Where they are not, nothing is begun for it: it reads no text, and no
hidden states are kept. It is tried again when what a trial takes is a small part of the time since the last one; one
that reads hidden states only where the engine has some, for having them would cost more than all drafts of a trial.

Both prices are measured in the same steps, so that a busy machine makes both dearer alike. Owns the price; what is
guessed is the drafter's.
"""

import logging
import time
from collections import deque
from collections.abc import Callable, Sequence

import numpy as np

from fastcoder_lsp.core import NO_DRAFT, CacheLost, Draft, DraftContext, DraftTree, StepCosts, Verified
from fastcoder_lsp.draft.auto.branches import TAIL
from fastcoder_lsp.draft.auto.cells import SOURCES, TRAINED
from fastcoder_lsp.draft.auto.sources import FoundContinuations, QuietSource
from fastcoder_lsp.draft.base import BaseDrafter, Pinned
from fastcoder_lsp.draft.matching import GAP
from fastcoder_lsp.draft.pricing import BELIEVED, Forecast
from fastcoder_lsp.errors import FastcoderError

logger = logging.getLogger(__name__)

BESIDE = 0.35
"""Of the tokens that a drafter has accepted alone, the part that no other source of `auto` says: EAGLE's layer for the
0.5B model had 0.94 accepted in a step in which it drafted, and brought 0.33 (docs/training.md)."""
STEP_TOKENS = 2.0
"""What a step of `auto` is believed to give before one was made."""
STRENGTH = 6.0
"""So many tries what was believed before weighs as much as, at first."""
KEPT = 0.98
"""Of what was counted, and of what was believed, the part that is kept at each try."""
PATIENCE = 64
"""Empty drafts in a row that are the reading of a text; more of them are what the drafter has to say."""
NEWEST = 0.1
"""The weight of the newest time in each mean."""
TIMES = 4
"""Drafts that are asked for before anything is known, and in a trial; of their times the least is the price."""
TRIALS = 0.004
"""Of the time of all steps, what trials may take."""
_NODES = 16
"""Guesses that are asked for at once."""


class DrafterSource(QuietSource):
    """A drafter's guesses, each path of its tree a continuation.

    Args:
        drafter: proposes by itself; it is told of the tree that was verified, not of the one that it proposed.
        clock: in seconds.
        costs: of the engine's steps, for what a token costs before a step was made; None: nobody timed them.
        priced: whether it is left out where it does not pay; False asks it in every step, as if it cost nothing.
    """

    name = SOURCES[TRAINED]

    def __init__(
        self,
        drafter: BaseDrafter,
        clock: Callable[[], float] = time.perf_counter,
        costs: StepCosts | None = None,
        *,
        priced: bool = True,
    ) -> None:
        self.drafter, self.top_k = drafter, drafter.traits.top_k
        self._clock, self._costs, self._priced = clock, costs, priced
        self._forecast: Forecast | None = None
        self._believed = BELIEVED
        """Tokens that asking is believed to bring, as far as nothing was counted."""
        self._strength = STRENGTH
        """…which weighs as much as so many tries."""
        self._tries = self._brought = 0.0
        self._empty = 0
        """Drafts in a row that held nothing."""
        self._failed = False
        self._step_ms = 0.0
        """What a step takes, as measured of late…"""
        self._known_ms = 0.0 if costs is None else costs.step_ms(1)
        """…and by the engine's costs: a forecast is compared with this, for a busy hour makes steps dearer alone."""
        self._step_tokens = 1.0 if costs is None else STEP_TOKENS
        self._asking_ms: deque[float] = deque(maxlen=TIMES)
        self._reading_ms = 0.0
        """What reading the text took, for each draft that was made of what was read: a mean."""
        self._unpaid_ms = 0.0
        """What it took since the last draft."""
        self._text_ms = 0.0
        """What the last long reading took."""
        self._asked = False
        self._since = 0.0
        self._guessed: dict[tuple[int, int], int] = {}
        """Of its last tree, by parent and token, the nodes."""
        self._trial = 0
        """Drafts that the trial has to make yet."""
        self._idle_ms = 0.0
        """What the steps took since it was last asked."""
        self._lent = False
        """Whether the engine ever kept hidden states for it: what is kept once stays so."""
        self.asked = self.left_out = 0

    @property
    def layers(self) -> tuple[int, ...]:
        """Whose hidden states the next decode must keep for it: none while it is not asked."""
        layers = self.drafter.traits.layers
        return layers if layers and (self.pays() or (self._lent and (self._trial or self._due()))) else ()

    def warm_up(self) -> None:
        """Have the drafter ready, and know its price."""
        self.drafter.warm_up()
        self._forecast = self.drafter.forecast(self._costs)
        if self._forecast is not None:
            self._believed = BESIDE * self._forecast.tokens

    def begin(self, context: DraftContext, stores: Pinned) -> None:  # noqa: ARG002 the interface
        """The drafter prepares; what was counted stays, for it is about the model and its user."""
        self._asked = False
        self._since = 0.0
        self._lent |= context.engine is not None
        if not self._trial and self._possible(context) and self._due() and not self.pays():
            self._trial = TIMES
            self._believed = self._brings()  # and what was counted long ago weighs no more than a forecast
            self._strength, self._tries, self._brought = STRENGTH, 0.0, 0.0
        self.drafter.begin(context)

    def find(self, context: DraftContext, found: FoundContinuations) -> None:
        """The paths of the drafter's tree, where it is worth asking."""
        before = self._clock()
        self._guessed = {}
        self._asked = self._possible(context) and (self._trial > 0 or self.pays())
        if self._asked:
            self.asked += 1
            self._idle_ms = 0.0
            draft = self._proposed(context)
            self._guessed = {at: node for node, at in enumerate(zip(draft.parents, draft.tokens, strict=True))}
            self._add(draft, found)
            took = (self._clock() - before) * 1e3
            self._empty = 0 if draft.tokens else self._empty + 1
            if 0 < self._empty <= PATIENCE:  # it is reading the text yet
                self._unpaid_ms += took
                self._asked = False
            else:
                self._took(took)
        else:
            self.left_out += 1
        self._since = self._clock()

    def observe(self, tree: DraftTree, verified: Verified, accepted: Sequence[int], start: int) -> None:  # noqa: ARG002
        """Count what was accepted on this source's word, and what a step takes and gives without it."""
        if self._since and verified.emitted:
            took = (self._clock() - self._since) * 1e3
            self._step_ms = _mean(self._step_ms, took)
            known = took if self._costs is None else self._costs.step_ms(len(tree.tokens))
            self._known_ms = _mean(self._known_ms, known)
            self._idle_ms += took
            brought = self._brought_by(verified.emitted, accepted)
            self._step_tokens = _mean(self._step_tokens, max(len(verified.emitted) - brought, 1))
            if self._asked:
                self._strength *= KEPT
                self._tries = KEPT * self._tries + 1
                self._brought = KEPT * self._brought + brought
                self._trial = max(self._trial - 1, 0)
        self._since = 0.0
        self.drafter.observe(tree, verified)

    def pays(self) -> bool:
        """Whether asking is worth its time, as far as is known; of what nobody knows anything the first drafts tell."""
        if self._failed or not self._priced:
            return not self._failed
        if self._measured:
            price, step_ms = self._price_ms(), self._step_ms
        elif self._forecast is not None and self._known_ms:
            price, step_ms = self._forecast.ms, self._known_ms
        else:
            return True
        return self._brings() * step_ms / self._step_tokens >= price

    def forget(self, document: str) -> None:
        """The document is closed."""
        self.drafter.forget(document)

    def rename(self, old: str, new: str) -> None:
        """The document has another URI."""
        self.drafter.rename(old, new)

    def _proposed(self, context: DraftContext) -> Draft:
        """The drafter's tree; one that fails, by weights that are not what they seem, costs no other source."""
        try:
            return self.drafter.propose(context, _NODES)
        except (FastcoderError, CacheLost):  # what a start tells, and what is there again after the next prefill
            raise
        except Exception:
            self._failed, self._trial = True, 0
            logger.exception("drafter %s failed; auto stops using it", self.drafter.name)
            return NO_DRAFT

    def _brings(self) -> float:
        """Tokens that asking brings in a step, as far as is known."""
        return (self._believed * self._strength + self._brought) / (self._strength + self._tries)

    @property
    def _measured(self) -> bool:
        """Whether enough drafts were made to know their price."""
        return len(self._asking_ms) == TIMES

    def _price_ms(self) -> float:
        """What a draft takes, as measured, else as forecast."""
        if self._measured or self._forecast is None:
            return min(self._asking_ms, default=0.0) + self._reading_ms
        return self._forecast.ms

    def _took(self, ms: float) -> None:
        """A draft was made; what was read before it, or within it, is for this one and those that follow."""
        self._asking_ms.append(ms)
        least = min(self._asking_ms)
        reading = self._unpaid_ms + ms - least
        self._reading_ms = KEPT * self._reading_ms + (1 - KEPT) * reading
        self._text_ms = reading if reading > least else self._text_ms
        self._unpaid_ms = 0.0

    def _due(self) -> bool:
        """Whether it was left alone for so long that a trial is a small part of that."""
        return not self._failed and TRIALS * self._idle_ms >= TIMES * self._price_ms() + self._text_ms

    def _possible(self, context: DraftContext) -> bool:
        """Whether the drafter has what it needs of the engine."""
        return context.engine is not None or not self.drafter.traits.layers

    def _brought_by(self, emitted: Sequence[int], accepted: Sequence[int]) -> int:
        """How many accepted tokens stand in this drafter's own tree: another one may speak by the same name."""
        node, brought = -1, 0
        for token, source in zip(emitted, accepted, strict=False):
            if (below := self._guessed.get((node, token))) is None:
                break
            node, brought = below, brought + (source == TRAINED)
        return brought

    def _add(self, draft: Draft, found: FoundContinuations) -> None:
        inner = set(draft.parents)
        for leaf in range(len(draft.tokens)):
            if leaf in inner:
                continue
            path: list[int] = []
            node = leaf
            while node >= 0:
                path.append(draft.tokens[node])
                node = draft.parents[node]
            row = np.full((1, found.depth), GAP, np.int32)
            kept = path[::-1][: found.depth]
            row[0, : len(kept)] = kept
            found.add(row, TRAINED, TAIL)


def _mean(mean: float, newest: float) -> float:
    """A mean that follows; the first value counts whole."""
    return newest if mean == 0.0 else mean + NEWEST * (newest - mean)
