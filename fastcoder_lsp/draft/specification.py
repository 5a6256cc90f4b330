"""What is known of a drafter before there is one: its name, what it is made of, and what it asks of those around it.

Each drafter's file begins with its specification (several, where one class has several names); `registry` collects
them, and everything else that depends on which drafter it is, is made from them. Owns the form of a specification and
the sources that several drafters draw from. Compiles nothing and loads nothing.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, Literal, NamedTuple, TypeVar

from fastcoder_lsp.core import Drafter, DrafterTraits

if TYPE_CHECKING:
    from fastcoder_lsp.draft.parts import DrafterParts

Parameters = TypeVar("Parameters")
Group = Literal["datastore", "cache", "prompt", "model", "other"]
"""What pictures colour a token as; "model" are those that nobody guessed."""
Store = Literal["repository", "corpus", "table"]
"""Of the datastore: the repository's code D_r, common code D_c, and the frozen table that is counted from D_c."""


PLAIN = DrafterTraits()
"""Of a drafter that asks for nothing beyond the text."""


class Source(NamedTuple):
    """Where a guess comes from, by the name that it carries in `Draft.sources`, and the group that this belongs to."""

    name: str
    group: Group


FROM_PROMPT = Source("prompt", "prompt")
FROM_CACHE = Source("cache", "cache")
FROM_REPOSITORY = Source("repository", "datastore")
FROM_CORPUS = Source("corpus", "datastore")
FROM_RECYCLING = Source("recycling", "cache")
FROM_JACOBI = Source("jacobi", "other")
FROM_ADAPTIVE = Source("sdsat-adaptive", "other")


@dataclass(frozen=True, slots=True)
class Specification(Generic[Parameters]):
    """One name that a drafter can be asked for by.

    Attributes:
        name: the name.
        guesses_from: where its guesses come from, for people, as docs/drafters.md says it.
        parameters: their values under this name; None where it has none.
        make: makes the drafter with these or other values.
        paper: the paper, for people; empty where there is none.
        sources: all that its guesses may come from.
        traits: with these parameters, on a model that was not tuned.
        reads: what it reads of the datastore; for a drafter that reads nothing none is kept.
        tuned_by: the method by which a model must have been tuned, for it drafts on no other; empty where any model
            will do.
        smaller: whether it drafts by smaller models; without any it drafts nothing.
        remembers: whether what is decoded in a document teaches it something for the next decode there.
        own_weights: whether it drafts by weights that were trained for the model, whose folder its parameter `weights`
            names; without them it drafts nothing.
    """

    name: str
    guesses_from: str
    parameters: Parameters
    make: "Callable[[Parameters, DrafterParts], Drafter]"
    paper: str = ""
    sources: tuple[Source, ...] = ()
    traits: DrafterTraits = PLAIN
    reads: frozenset[Store] = frozenset()
    tuned_by: Literal["", "sdsat"] = ""
    remembers: bool = False
    smaller: bool = False
    own_weights: bool = False

    @property
    def replayable(self) -> bool:
        """Whether recorded text is all that it needs; others live on what the model said or computed on the way."""
        return not (self.traits.top_k or self.traits.layers or self.traits.skims)
