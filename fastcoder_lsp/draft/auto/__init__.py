"""`auto`: one tree over all sources, as wide as pays.

Before each step every source says what may follow; same token, same node; the tree grows best first by the probability
of each path (`auto_growth`, `auto_branches`), probabilities are learnt from what was accepted (`calibration`), and the
tree ends where one more row would cost more than it gains, at none at all where drafting does not pay.

Owns the order of these parts and what is kept of each document; none of the arithmetic.
"""

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

import numpy as np

from fastcoder_lsp.core import NO_DRAFT, Draft, DraftContext, DrafterTraits, DraftTree, StepCosts, Verified
from fastcoder_lsp.documents import PerDocument
from fastcoder_lsp.draft.auto import kept_counts
from fastcoder_lsp.draft.auto.branches import TAIL, Said
from fastcoder_lsp.draft.auto.cells import CORPUS, FROZEN, GROUPED, PAIRS, PAST, RECYCLED, REPOSITORY, SOURCES, TEXT
from fastcoder_lsp.draft.auto.drafters import DrafterSource
from fastcoder_lsp.draft.auto.evidence import Calibration, EvidenceCounts, Priors, shipped_priors
from fastcoder_lsp.draft.auto.models import layers_read, model_sources, skims
from fastcoder_lsp.draft.auto.row_table import RANKS, RowTable, learn
from fastcoder_lsp.draft.auto.sources import (
    ContinuationSource,
    FoundContinuations,
    OutdatedSource,
    StoreSource,
    resynchronise,
)
from fastcoder_lsp.draft.auto.trained_sources import SdsatSource
from fastcoder_lsp.draft.auto.tree import Grown, grow, new_grown, new_scratch
from fastcoder_lsp.draft.auto.width import draft_costs
from fastcoder_lsp.draft.base import FROM_ADAPTIVE, BaseDrafter, DrafterParts, Pin, Specification
from fastcoder_lsp.draft.chain import TokenChain
from fastcoder_lsp.draft.frozen_table import TableShape, build
from fastcoder_lsp.draft.sdsat import SdsatDrafter
from fastcoder_lsp.errors import UsageError

_TOKEN_MS = 20.0
"""What a token takes where nobody timed the engine."""
_NO_FROZEN = np.zeros((0, 1), np.int32)


@dataclass(frozen=True, slots=True)
class AutoParameters:
    """How `auto` drafts.

    Attributes:
        width: "cost" ends the tree where it stops paying, if the engine's costs are known; "fixed" fills it.
        hits: continuations of each store.
        history: tokens of earlier outputs that are kept for one document.
        skips: whether to leave out searches that seldom give anything.
        learns: whether to count what is accepted.
        without: sources that are left out, by their names in `evidence.SOURCES`, parted by `/`.
        weights: the folder of a drafter's own weights (`medusa`, `eagle`, `dflash`): it is asked where that pays.
        priced: whether drafters that run a model are left out where they do not pay; false asks them in every step.
    """

    width: Literal["cost", "fixed"] = "cost"
    hits: int = 32
    history: int = 8192
    skips: bool = True
    learns: bool = True
    without: str = ""
    weights: str = ""
    priced: bool = True

    def silent(self) -> frozenset[str]:
        """The sources left out.

        Raises:
            UsageError: one of them is none.
        """
        names = frozenset(name for name in self.without.split("/") if name)
        if not names <= set(SOURCES):
            raise UsageError(f"auto has no source {sorted(names - set(SOURCES))}", f"It has: {', '.join(SOURCES)}.")
        return names


def _make(parameters: AutoParameters, parts: DrafterParts) -> "AutoDrafter":
    adaptive = SdsatSource(SdsatDrafter(parts.trained.adaptive)) if parts.trained.adaptive else None
    more = model_sources(parts, parameters.weights, priced=parameters.priced)
    return AutoDrafter(parts.pin, parameters, costs=parts.costs, kept=parts.kept, more=more, adaptive=adaptive)


AUTO = Specification(
    "auto",
    "all sources of the others in one tree, as wide as pays; the default",
    AutoParameters(),
    _make,
    sources=(*GROUPED, FROM_ADAPTIVE),
    traits=DrafterTraits(top_k=RANKS, late=True, weighs_costs=True),
    reads=frozenset({"repository", "corpus", "table"}),
    remembers=True,
)


@dataclass(slots=True)
class _Document:
    """What was said in a document, and what the model would have said, by the last token and by the last two."""

    past: TokenChain
    recycled: RowTable = field(default_factory=RowTable)
    pairs: RowTable = field(default_factory=RowTable)


@dataclass(frozen=True, slots=True)
class _Step:
    """A draft of whose step nobody told yet: the text's length before it, its tree, and how much of it was drafted."""

    start: int
    grown: Grown
    drafted: int


class AutoDrafter(BaseDrafter):
    """Grows one tree over all sources, best first, as wide as pays.

    Args:
        pin: gives the stores D_r and D_c, and Cacheback's frozen table.
        parameters: the product's by default.
        costs: of the engine's steps; None: the tree is filled.
        priors: what is believed at first; those that come with the program by default.
        kept: the file in which what is learnt outlives the program.
        more: sources beside those that are built in.
        adaptive: the source that also hangs adaptive tokens below the tree, on a model that was tuned by SDSAT.
    """

    def __init__(
        self,
        pin: Pin,
        parameters: AutoParameters | None = None,
        *,
        costs: StepCosts | None = None,
        priors: Priors | None = None,
        kept: Path | None = None,
        more: Sequence[ContinuationSource] = (),
        adaptive: SdsatSource | None = None,
    ) -> None:
        asked = parameters or AutoParameters()
        self._documents = PerDocument(lambda: _Document(TokenChain(asked.history)))
        super().__init__(AUTO, self._documents)
        self._pin, self._parameters = pin, asked
        self._costs = costs if asked.width == "cost" else None
        self._kept = kept
        self.calibration = Calibration(
            shipped_priors() if priors is None else priors,
            EvidenceCounts.none() if kept is None else kept_counts.load(kept),
        )
        silent = asked.silent()
        self._adaptive = adaptive if adaptive is not None and adaptive.name not in silent else None
        self._uses = [name not in silent for name in SOURCES]
        token_ms = costs.step_ms(1) if costs is not None else _TOKEN_MS
        self.sources: list[ContinuationSource] = [
            StoreSource(REPOSITORY, hits=asked.hits, skips=asked.skips, token_ms=token_ms),
            StoreSource(CORPUS, hits=asked.hits, skips=asked.skips, token_ms=token_ms),
            OutdatedSource(),
            *more,
            *([] if adaptive is None else [adaptive]),
        ]
        self.sources = [source for source in self.sources if source.name not in silent]
        rows = {"recycling", "recycling-pairs"} - silent
        self.traits = DrafterTraits(
            top_k=max([RANKS if rows else 0, *(source.top_k for source in self.sources)]),
            # A model's own last guesses are what a trained source drafts from, so it must know them.
            late=not more and adaptive is None,
            weighs_costs=True,
            skims=skims(self.sources),
            layers=layers_read(self.sources),
        )
        self._document = self._documents.fetch("")
        self._text, self._prompt_length = TokenChain(), 0
        self._found = FoundContinuations()
        self._scratch = new_scratch(0, self._found.capacity)
        self._grown, self._spare = new_grown(0), new_grown(0)
        self._steps: deque[_Step] = deque(maxlen=2)
        self._told = 0
        """Tokens of the text that steps were told of."""
        self._frozen_VR, self._changed = _NO_FROZEN, False
        self._silence = TokenChain(), RowTable(8)

    def begin(self, context: DraftContext) -> None:
        """The last decode's output becomes history of its document; the stores are pinned."""
        output = self._text.tokens[self._prompt_length :]
        if len(output):
            self._document.past.extend([*output.tolist(), -1])
        self._document = self._documents.fetch(context.document)
        stores = self._pin(context.document)
        table = stores.frozen(TableShape()) if self._uses[FROZEN] else None
        self._frozen_VR = _NO_FROZEN if table is None else table.commonest_VR
        self._text.clear()
        self._text.extend(context.tokens)
        self._prompt_length = self._told = len(context.tokens)
        self._steps.clear()
        for source in self.sources:
            source.begin(context, stores)
        self._ask_states()

    def propose(self, context: DraftContext, nodes: int) -> Draft:
        """Ask the sources, and grow the tree."""
        self._text.extend(context.tokens[len(self._text) :])
        if nodes < 1:
            return NO_DRAFT
        self._found.clear()
        for source in self.sources:
            source.find(context, self._found)
        if len(self._scratch.depth_N) < nodes:
            self._scratch = new_scratch(nodes, self._found.capacity)
        # The last tree is judged when its step is told of, which may be later.
        self._grown, self._spare = self._spare, self._grown
        if len(self._grown.token_N) != nodes:
            self._grown = new_grown(nodes)
        _, best = grow(
            self._found.tail(context.tokens), self.said(), draft_costs(self._costs, nodes), self._scratch, self._grown
        )
        grown = self._grown
        self._steps.append(_Step(len(context.tokens), grown, int(best)))
        names = tuple(map(SOURCES.__getitem__, grown.source_N[:best].tolist()))
        draft = Draft(
            tuple(grown.token_N[:best].tolist()),
            tuple(grown.parent_N[:best].tolist()),
            names,
            tuple(grown.match_N[:best].tolist()),
        )
        if self._adaptive is None:
            return draft
        return self._adaptive.extended(draft, grown.likely_N[:best].tolist(), nodes, self._costs)

    def observe(self, tree: DraftTree, verified: Verified) -> None:
        """Learn: rows from the model's best ids, probabilities from what was accepted."""
        start = self._told
        self._told += len(verified.emitted)
        # They come with the next context, too, but for the last ones: after those there is none.
        self._text.extend(verified.emitted[len(self._text) - start :])
        if verified.top_ids_NK is not None and verified.top_logits_NK is not None:
            before = int(self._text.tokens[start - tree.pending - 1]) if start > tree.pending else -1
            learn(self._document.recycled, self._document.pairs, tree, before, verified)
        while self._steps and self._steps[0].start <= start:
            step = self._steps.popleft()
            if self._parameters.learns and step.drafted and step.start == start:
                self.calibration.judge(step.grown, step.drafted, verified.emitted)
                self._changed = True
        accepted = [SOURCES.index(tree.sources[node]) for node in verified.path if tree.sources[node] in SOURCES]
        for source in self.sources:
            source.observe(tree, verified, accepted, start)

    def warm_up(self) -> None:
        """Run what only some texts lead to, so that it is compiled; nothing is learnt of it."""
        self.calibration.judge(new_grown(1), 0, (0,))
        resynchronise(np.array([1, 2], np.int32), np.array([2, 3], np.int32), TAIL)
        build(np.zeros(0, np.int32), TableShape()).commonest_VR  # noqa: B018 made when it is asked for
        for source in self.sources:
            if isinstance(source, DrafterSource):
                source.warm_up()
        self._ask_states()

    def forget(self, document: str) -> None:
        """The document is closed: drop what is remembered of it, and keep what was learnt of all."""
        super().forget(document)
        for source in self.sources:
            source.forget(document)
        self.keep()

    def rename(self, old: str, new: str) -> None:
        """The document has another URI: what is remembered of it follows."""
        super().rename(old, new)
        for source in self.sources:
            source.rename(old, new)

    def figures(self) -> Mapping[str, float]:
        """How often drafters that run a model were asked, and left out."""
        priced = [source for source in self.sources if isinstance(source, DrafterSource)]
        counted = {source.drafter.name: (source.asked, source.left_out) for source in priced}
        return {
            f"{name}, {what}": float(count)
            for name, counts in counted.items()
            for what, count in zip(("asked", "left out"), counts, strict=True)
        }

    def keep(self) -> None:
        """Write what was learnt since the last time to the disk; milliseconds, for when nobody waits."""
        if self._kept is not None and self._changed:
            kept_counts.save(self.calibration.counts, self._kept)
            self._changed = False

    def _ask_states(self) -> None:
        """From the next decode on, hidden states are kept for those who are asked; a text is read before it begins."""
        self.traits = replace(self.traits, layers=layers_read(self.sources))

    def said(self) -> Said:
        """What the tree grows from; sources that are left out say nothing."""
        uses, document, (nobody, no_rows) = self._uses, self._document, self._silence
        return Said(
            (self._text if uses[TEXT] else nobody).chains,
            (document.past if uses[PAST] else nobody).chains,
            self._found.continuations,
            (document.recycled if uses[RECYCLED] else no_rows).rows,
            (document.pairs if uses[PAIRS] else no_rows).rows,
            self._frozen_VR,
            self.calibration.weights,
        )
