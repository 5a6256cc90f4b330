"""Common ground of all drafters: the specification, the parts a drafter is made of, and the base class.

Everything that depends on a drafter's name is derived from its `Specification`. This module compiles and loads nothing,
so that the server can read settings before any compiler is imported.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, Literal, NamedTuple, TypeVar

from typing_extensions import override

from fastcoder_lsp.core import NO_DRAFT, Draft, DraftContext, DrafterTraits, DraftTree, StepCosts, Verified
from fastcoder_lsp.core.arrays import Floats
from fastcoder_lsp.documents import PerDocument, Slots
from fastcoder_lsp.draft.pricing import Forecast
from fastcoder_lsp.model.files import read_record

if TYPE_CHECKING:
    from fastcoder_lsp.draft.frozen_table import FrozenTable, TableShape
    from fastcoder_lsp.index.searcher import Hits, Searcher


Parameters = TypeVar("Parameters")
Group = Literal["datastore", "cache", "prompt", "model", "other"]
"""Colour group of a token in pictures; "model" is a token that no drafter guessed."""
Store = Literal["repository", "corpus", "table"]
"""A part of the datastore: the repository's code D_r, common code D_c, or the frozen table counted from D_c."""
Linear = Callable[[Floats], Floats]  # rows [T, K] times the weights: [T, N]
MakeLinear = Callable[[Floats], Linear]
"""Makes the product with weights [N, K], which it need not keep. Its rounding changes drafts, never the output."""
Smaller = Callable[[], Sequence[Slots]]
"""Gives the smaller models, those most like the model first; the first call loads them."""
PLAIN = DrafterTraits()  # traits of a drafter that needs nothing but the text


class Source(NamedTuple):
    """Origin of a draft: the name in `Draft.sources`, and its colour group."""

    name: str
    group: Group


FROM_PROMPT = Source("prompt", "prompt")
FROM_CACHE = Source("cache", "cache")
FROM_REPOSITORY = Source("repository", "datastore")
FROM_CORPUS = Source("corpus", "datastore")
FROM_RECYCLING = Source("recycling", "cache")
FROM_JACOBI = Source("jacobi", "other")
FROM_ADAPTIVE = Source("sdsat-adaptive", "other")


def limited(default: int, least: int = 0, most: float = math.inf) -> int:
    """A drafter's parameter, whose value users choose within these limits; without this it is at least 0."""
    limits: int = field(default=default, metadata={"limits": (least, most)})
    return limits


@dataclass(frozen=True, slots=True)
class Specification(Generic[Parameters]):
    """One name under which users select a drafter."""

    name: str
    guesses_from: str  # where its guesses come from, in the words of docs/drafters.md
    parameters: Parameters  # default values under this name; None if it has none
    make: "Callable[[Parameters, DrafterParts], Drafter]"
    paper: str = ""  # the paper, for people; empty if there is none
    sources: tuple[Source, ...] = ()  # all sources its guesses may carry
    traits: DrafterTraits = PLAIN  # with the default parameters, on a model without tuning
    reads: frozenset[Store] = frozenset()
    """The parts of the datastore it reads; no datastore is kept for a drafter that reads none."""
    tuned_by: Literal["", "sdsat"] = ""  # the tuning method that the model needs; empty if any model will do
    remembers: bool = False  # whether a decode in a document teaches it something for the next decode there
    smaller: bool = False  # whether it drafts by smaller models; without any it drafts nothing
    own_weights: bool = False
    """Whether it drafts by weights trained for the model, in the folder of its parameter `weights`."""


@dataclass(frozen=True, slots=True)
class Trained:
    """The tuning of a model as drafters need it: SDSAT's token ids, CLLM's n (0 without), the hash of the weights.

    `longest`: SDSAT's L, the longest run of adaptive tokens in training; 0 if unknown.
    """

    adaptive: tuple[int, ...] = ()
    block: int = 0
    digest: str = ""
    longest: int = 0

    def suits(self, method: Literal["", "sdsat"]) -> bool:
        """Whether the model was tuned by `method`; "" suits every model."""
        return not method or bool(self.adaptive)


UNTRAINED = Trained()


def load_trained(folder: Path, digest: str) -> Trained:
    """The tuning of the model in `folder` with weights of hash `digest`; ModelInvalidError for a damaged record."""
    record = read_record(folder, digest)
    return Trained(digest=digest) if record is None else Trained(record.adaptive, record.block, digest, record.longest)


def no_table(shape: "TableShape") -> "FrozenTable | None":  # noqa: ARG001 the interface
    """No frozen table of any shape."""
    return None


@dataclass(frozen=True, slots=True)
class Pinned:
    """One state of the datastore, as it stood when the decode began.

    `repository` is D_r, `corpus` D_c; `generation` changes whenever either does. `frozen` gives Cacheback's table of
    D_c in a shape; None while there is none.
    """

    repository: "Searcher | None" = None
    corpus: "Searcher | None" = None
    generation: tuple[int, ...] = ()
    frozen: "Callable[[TableShape], FrozenTable | None]" = no_table


Pin = Callable[[str], Pinned]  # pins the stores for a decode in the document with the given URI


def nothing(document: str) -> Pinned:  # noqa: ARG001 the interface
    """Pin no stores."""
    return Pinned()


def search(
    store: "Searcher | None", context: Sequence[int], n_max: int, max_hits: int, depth: int, n_min: int = 1
) -> "Hits | None":
    """The longest match of at least `n_min` tokens with its continuations; None if there is none."""
    if store is None:
        return None
    hits = store.search(context, n_max, max_hits, depth)
    return hits if hits.length >= n_min and len(hits.continuations_HD) else None


def exact(weight_NK: Floats) -> Linear:
    """The product in fp32, by numpy."""

    def product(x_TK: Floats) -> Floats:
        found: Floats = x_TK @ weight_NK.T
        return found

    return product


def no_models() -> Sequence[Slots]:
    """No smaller models."""
    return ()


def no_piece(token: int) -> bytes:  # noqa: ARG001 the interface
    """No bytes, whatever the token."""
    return b""


@dataclass(frozen=True, slots=True)
class DrafterParts:
    """Everything a drafter may be made of."""

    pin: Pin = nothing
    piece: Callable[[int], bytes] = no_piece  # gives the bytes of a token
    costs: StepCosts | None = None  # of the engine's steps, for drafters that choose a width by them
    kept: Path | None = None  # the file in which a drafter may store what it learns; None: it stores nothing
    trained: Trained = UNTRAINED
    smaller: Smaller = no_models
    skipped: frozenset[int] = frozenset()
    """Sublayers that the model may leave out when it drafts for itself; empty: no search was made."""
    linear: MakeLinear = exact  # makes products with a drafter's own weights
    skipped_speed: float = 0.0  # the speedup over plain decoding that the search promised for `skipped`; 0: unknown


class Drafter:
    """Guesses the model's next tokens. It affects the speed only, never the output.

    `specification` gives the name and traits until others are set. `memory`: its state for each document; None:
    nothing outlives a decode.
    """

    def __init__(self, specification: Specification[Any], memory: PerDocument[Any] | None = None) -> None:
        self.name: str = specification.name
        self.traits: DrafterTraits = specification.traits
        self._memory = memory

    def begin(self, context: DraftContext) -> None:
        """Begin a decode with this prompt."""

    def propose(self, context: DraftContext, nodes: int) -> Draft:
        """At most `nodes` guesses below the last token of `context`; `NO_DRAFT` if it has none."""
        raise NotImplementedError

    def observe(self, tree: DraftTree, verified: Verified) -> None:
        """Learn from the outcome of the last tree; the accepted tokens also come with the next context."""

    def forget(self, document: str) -> None:
        """Drop the memory of a closed document."""
        if self._memory is not None:
            self._memory.forget(document)

    def rename(self, old: str, new: str) -> None:
        """Move the memory of a document to its new URI."""
        if self._memory is not None:
            self._memory.rename(old, new)

    def keep(self) -> None:
        """Write what was learnt to the disk, if it is kept; takes milliseconds, so call it between requests."""

    def warm_up(self) -> None:
        """Run code that only some texts need, so that it is compiled; learns nothing."""

    def forecast(self, costs: StepCosts | None) -> Forecast | None:  # noqa: ARG002 the interface
        """Price and yield of a draft before the first one; None if unknown. `costs` of the engine, if measured."""
        return None

    def figures(self) -> Mapping[str, float]:
        """Its own counts, for reports; most drafters have none."""
        return {}


def chain(tokens: Sequence[int], source: Source, match: int = 0) -> Draft:
    """A draft in which each token hangs below the one before it."""
    count = len(tokens)
    if not count:
        return NO_DRAFT
    return Draft(tuple(tokens), tuple(range(-1, count - 1)), (source.name,) * count, (match,) * count)


NONE = Specification("none", "nothing: plain decoding", parameters=None, make=lambda _parameters, _parts: NoDrafter())


class NoDrafter(Drafter):
    """A drafter without guesses."""

    def __init__(self) -> None:
        super().__init__(NONE)

    @override
    def propose(self, context: DraftContext, nodes: int) -> Draft:
        return NO_DRAFT
