"""`auto`: one tree over all sources, sized by measured cost.

Before each step every source (`sources`) proposes continuations. One tree grows best first by the probability of each
path (`tree`), with probabilities learnt from outcomes (`evidence`), and ends where one more row would cost more than it
gains: at no row at all if drafting does not pay.
"""

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

import numpy as np
from typing_extensions import override

from fastcoder_lsp.core import NO_DRAFT, Draft, DraftContext, DrafterTraits, DraftTree, StepCosts, Verified
from fastcoder_lsp.documents import PerDocument
from fastcoder_lsp.draft.auto.evidence import (
    CORPUS,
    FROZEN,
    GROUPED,
    PAIRS,
    PAST,
    RANKS,
    RECYCLED,
    REPOSITORY,
    SOURCES,
    TEXT,
    Calibration,
    EvidenceCounts,
    GrownNodes,
    Priors,
    shipped_priors,
)
from fastcoder_lsp.draft.auto.preferences import PreferenceCache, new_table
from fastcoder_lsp.draft.auto.sources import (
    DEPTH,
    ContinuationSource,
    DrafterSource,
    FoundContinuations,
    Offer,
    OutdatedSource,
    RewriteSource,
    StoreSource,
    TailSource,
    resynchronise,
)
from fastcoder_lsp.draft.auto.tree import TAIL, DraftEvidence, draft_costs, grow, new_grown, new_scratch
from fastcoder_lsp.draft.base import FROM_ADAPTIVE, Drafter, DrafterParts, Pin, Specification, no_models, no_piece
from fastcoder_lsp.draft.frozen_table import TableShape, build
from fastcoder_lsp.draft.matching import TokenChain
from fastcoder_lsp.errors import UsageError
from fastcoder_lsp.extensions import DRAFTERS
from fastcoder_lsp.model.drafter_files import open_drafter

_TOKEN_MS = 20.0  # time of a token if the engine is unmeasured
_NO_FROZEN = np.zeros((0, 1), np.int32)
_WITH_WEIGHTS = ("medusa", "eagle")


@dataclass(frozen=True, slots=True)
class AutoParameters:
    """Parameters of `auto`."""

    width: Literal["cost", "fixed"] = "cost"
    """"cost" ends the tree where it stops paying, if the engine's costs are known; "fixed" fills it."""
    hits: int = 32  # continuations of each store
    history: int = 8192  # tokens of earlier outputs that are kept for one document
    skips: bool = True  # whether to leave out searches that seldom give anything
    learns: bool = True
    without: str = ""  # sources to leave out, by their names in `evidence.SOURCES`, separated by `/`
    weights: str = ""
    """The folder of a drafter's own weights (`medusa`, `eagle`), which is asked where that pays."""
    priced: bool = True
    """Whether drafters that run a model are left out where they do not pay; false asks them in every step."""

    def silent(self) -> frozenset[str]:
        """The sources to leave out. Raises UsageError if one of the names is no source."""
        names = frozenset(name for name in self.without.split("/") if name)
        if not names <= set(SOURCES):
            raise UsageError(f"auto has no source {sorted(names - set(SOURCES))}", f"It has: {', '.join(SOURCES)}.")
        return names


def _make(parameters: AutoParameters, parts: DrafterParts) -> "AutoDrafter":
    adaptive = _offered("sdsat", parts) if parts.trained.adaptive else None
    assert adaptive is None or isinstance(adaptive, TailSource)
    more = _model_sources(parts, parameters.weights, priced=parameters.priced)
    return AutoDrafter(
        parts.pin, parameters, costs=parts.costs, kept=parts.kept, more=more, adaptive=adaptive, piece=parts.piece
    )


def _model_sources(parts: DrafterParts, weights: str, *, priced: bool) -> list[ContinuationSource]:
    """Sources that run a model: CLLM's state, a smaller model, the model without some sublayers, and own weights.

    Raises UsageError if `auto` cannot use the folder `weights`, ModelInvalidError if its drafter is another model's.
    """
    offered = [
        _offered(name, parts, weights)
        for name, there in (
            ("jacobi", parts.trained.block),
            ("draft-model-tree", parts.smaller is not no_models),
            ("self", parts.skipped),
            (_method(weights, parts) if weights else "", weights),
        )
        if there
    ]
    return [
        DrafterSource(one, costs=parts.costs, priced=priced) if isinstance(one, Drafter) else one for one in offered
    ]


def _offered(name: str, parts: DrafterParts, weights: str = "") -> ContinuationSource | Drafter:
    """The source of the drafter `name`, from its module."""
    offer: Offer = DRAFTERS[name].load(f"the drafter {name}").for_auto
    return offer(parts, weights)


def _method(weights: str, parts: DrafterParts) -> str:
    """The drafter that the folder `weights` was trained for."""
    method = open_drafter(Path(weights), "", parts.trained.digest).record.method
    if method not in _WITH_WEIGHTS:
        raise UsageError(f"auto cannot use the drafter {method}", f"It can use: {', '.join(_WITH_WEIGHTS)}.")
    return method


AUTO = Specification(
    "auto",
    "the sources of several other drafters in one tree, sized by measured cost; the default",
    AutoParameters(),
    _make,
    sources=(*GROUPED, FROM_ADAPTIVE),
    traits=DrafterTraits(top_k=RANKS, late=True, weighs_costs=True),
    reads=frozenset({"repository", "corpus", "table"}),
    remembers=True,
)


@dataclass(frozen=True, slots=True)
class _Step:
    """A draft whose step is not observed yet: the text's length before it, its tree, and how much was drafted."""

    start: int
    grown: GrownNodes
    drafted: int


class AutoDrafter(Drafter):
    """Grows one tree over all sources, best first, sized by measured cost.

    Args:
        pin: gives the stores D_r and D_c, and Cacheback's frozen table.
        parameters: the product's by default.
        costs: of the engine's steps; None: the tree is filled.
        priors: log odds to start from; the shipped ones by default.
        kept: the file in which counts outlive the program.
        more: sources beside the built-in ones.
        adaptive: hangs adaptive tokens below the tree, on a model tuned by SDSAT.
        piece: gives the bytes of a token.
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
        adaptive: TailSource | None = None,
        piece: Callable[[int], bytes] = no_piece,
    ) -> None:
        params = parameters or AutoParameters()
        self._documents = PerDocument(lambda: PreferenceCache(TokenChain(params.history)))
        super().__init__(AUTO, self._documents)
        self._pin, self._parameters = pin, params
        self._costs = costs if params.width == "cost" else None
        self._kept = kept
        self.calibration = Calibration(
            shipped_priors() if priors is None else priors,
            EvidenceCounts.none() if kept is None else EvidenceCounts.load(kept),
        )
        silent = params.silent()
        self._adaptive = adaptive if adaptive is not None and adaptive.name not in silent else None
        self._uses = [name not in silent for name in SOURCES]
        token_ms = costs.step_ms(1) if costs is not None else _TOKEN_MS
        self.sources: list[ContinuationSource] = [
            StoreSource(REPOSITORY, hits=params.hits, skips=params.skips, token_ms=token_ms),
            StoreSource(CORPUS, hits=params.hits, skips=params.skips, token_ms=token_ms),
            OutdatedSource(),
            RewriteSource(piece),
            *more,
            *([] if adaptive is None else [adaptive]),
        ]
        self.sources = [source for source in self.sources if source.name not in silent]
        rows = {"recycling", "recycling-pairs"} - silent
        self.traits = DrafterTraits(
            top_k=max([RANKS if rows else 0, *(source.top_k for source in self.sources)]),
            # A trained source drafts from the model's last guesses, so it must have observed them.
            late=not more and adaptive is None,
            weighs_costs=True,
            skims=any(source.drafter.traits.skims for source in self._drafters()),
            layers=self._layers(),
        )
        self._document = self._documents.fetch("")
        self._text, self._prompt_length = TokenChain(), 0
        self._found = FoundContinuations(max([DEPTH, *(source.depth for source in self.sources)]))
        self._scratch = new_scratch(0, self._found.capacity)
        self._grown, self._spare = new_grown(0), new_grown(0)
        self._steps: deque[_Step] = deque(maxlen=2)
        self._told = 0  # tokens of the text that were observed
        self._frozen_VR, self._changed = _NO_FROZEN, False
        self._silence = TokenChain(), new_table(8)

    def begin(self, context: DraftContext) -> None:
        """Add the last decode's output to its document's history, and pin the stores."""
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
        # The last tree is judged when its step is observed, perhaps after this call.
        self._grown, self._spare = self._spare, self._grown
        if len(self._grown.token_N) != nodes:
            self._grown = new_grown(nodes)
        tail, costs, grown = self._found.tail(context.tokens), draft_costs(self._costs, nodes), self._grown
        _, best = grow(tail, self.evidence(), costs, self._scratch, grown)
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
        # They come with the next context, too, except the last ones: no context follows those.
        self._text.extend(verified.emitted[len(self._text) - start :])
        if verified.top_ids_NK is not None and verified.top_logits_NK is not None:
            before = int(self._text.tokens[start - tree.pending - 1]) if start > tree.pending else -1
            self._document.learn(tree, before, verified)
        while self._steps and self._steps[0].start <= start:
            step = self._steps.popleft()
            if self._parameters.learns and step.drafted and step.start == start:
                self.calibration.judge(step.grown, step.drafted, verified.emitted)
                self._changed = True
        accepted = [SOURCES.index(tree.sources[node]) for node in verified.path if tree.sources[node] in SOURCES]
        for source in self.sources:
            source.observe(tree, verified, accepted, start)

    def warm_up(self) -> None:
        """Compile the code that only some texts reach; nothing is learnt."""
        self.calibration.judge(new_grown(1), 0, (0,))
        resynchronise(np.array([1, 2], np.int32), np.array([2, 3], np.int32), TAIL)
        build(np.zeros(0, np.int32), TableShape()).commonest_VR  # noqa: B018 made when it is asked for
        for source in self._drafters():
            source.warm_up()
        self._ask_states()

    def forget(self, document: str) -> None:
        """Drop the memory of a closed document, and write the counts to the disk."""
        super().forget(document)
        for source in self.sources:
            source.forget(document)
        self.keep()

    @override
    def rename(self, old: str, new: str) -> None:
        super().rename(old, new)
        for source in self.sources:
            source.rename(old, new)

    def figures(self) -> Mapping[str, float]:
        """How often each drafter that runs a model was asked, and left out."""
        counted = {source.drafter.name: (source.asked, source.left_out) for source in self._drafters()}
        return {
            f"{name}, {what}": float(count)
            for name, counts in counted.items()
            for what, count in zip(("asked", "left out"), counts, strict=True)
        }

    @override
    def keep(self) -> None:
        if self._kept is not None and self._changed:
            self.calibration.counts.save(self._kept)
            self._changed = False

    def _ask_states(self) -> None:
        self.traits = replace(self.traits, layers=self._layers())

    def _drafters(self) -> list[DrafterSource]:
        return [source for source in self.sources if isinstance(source, DrafterSource)]

    def _layers(self) -> tuple[int, ...]:
        return tuple(sorted({layer for source in self._drafters() for layer in source.layers}))

    def evidence(self) -> DraftEvidence:
        """The evidence that the tree grows from; sources that are left out have none."""
        uses, document, (no_text, no_rows) = self._uses, self._document, self._silence
        return DraftEvidence(
            (self._text if uses[TEXT] else no_text).chains,
            (document.past if uses[PAST] else no_text).chains,
            self._found.continuations,
            document.recycled if uses[RECYCLED] else no_rows,
            document.pairs if uses[PAIRS] else no_rows,
            self._frozen_VR,
            self.calibration.weights,
        )
