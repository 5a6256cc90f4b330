"""What guesses the next tokens, as the loop sees it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from fastcoder_lsp.core.engine import GREEDY, KeepingEngine, Sampler, SkimmingEngine
from fastcoder_lsp.core.trees import DraftTree, Draw, Verified


@dataclass(frozen=True, slots=True)
class DraftContext:
    """What a drafter may look at before a step.

    Attributes:
        tokens: prompt and output so far, the pending ones included.
        prompt_length: how many of them are the prompt's.
        document: the document's URI, for caches that live as long as it does.
        outdated: what this output was expected to be, from its first token, before the text around changed (suggestions
            that were typed past, rejected, or cut).
        cached: how many of them the engine has run: those before the pending ones.
        engine: gives their hidden states, where the drafter asked for some and the engine can.
        sampler: how the model's tokens are chosen.
        target: the engine itself where it can run a part of its model; what it has cached is the text before the
            pending tokens, or nothing where its memory was given up.
    """

    tokens: Sequence[int]
    prompt_length: int
    document: str = ""
    outdated: tuple[tuple[int, ...], ...] = ()
    cached: int = 0
    engine: KeepingEngine | None = None
    sampler: Sampler = GREEDY
    target: SkimmingEngine | None = None


@dataclass(frozen=True, slots=True)
class Draft:
    """Guesses below the last pending token: parents index this draft's own nodes, -1 is the root; `draws` as a tree's.

    Where guesses are drawn by chance, how many are must not depend on what they are: such a draft is taken whole or not
    at all.
    """

    tokens: tuple[int, ...] = ()
    parents: tuple[int, ...] = ()
    sources: tuple[str, ...] = ()
    matches: tuple[int, ...] = ()
    draws: tuple[Draw, ...] = ()


NO_DRAFT = Draft()


@dataclass(frozen=True, slots=True)
class DrafterTraits:
    """What must be known of a drafter by those who drive it.

    Attributes:
        top_k: how many best ids of every verified row it wants to observe, rejected rows too; 0 for none.
        late: whether it may be told of a step after it was asked for the next draft.
        weighs_costs: whether it ends its drafts where one more row costs more than it gains, so that it may be offered
            many rows; other drafters fill what they are offered.
        skims: whether it drafts by a part of the model itself (`DraftContext.target`).
        layers: whose hidden states it reads, of all that is decided (`KeepingEngine.keep_states`).
    """

    top_k: int = 0
    late: bool = False
    weighs_costs: bool = False
    layers: tuple[int, ...] = ()
    skims: bool = False


class Drafter(Protocol):
    """Guesses what the model will say. It can change the speed only, never the output."""

    name: str
    traits: DrafterTraits

    def begin(self, context: DraftContext) -> None:
        """A new decode starts with this prompt."""
        ...

    def propose(self, context: DraftContext, nodes: int) -> Draft:
        """At most `nodes` guesses; `NO_DRAFT` where it has none."""
        ...

    def observe(self, tree: DraftTree, verified: Verified) -> None:
        """What became of the last tree (its own nodes and others')."""
        ...

    def forget(self, document: str) -> None:
        """The document is closed: drop what is kept for it."""
        ...

    def rename(self, old: str, new: str) -> None:
        """The document has another URI: what is kept for it follows."""
        ...

    def keep(self) -> None:
        """Write what was learnt to the disk, where it keeps that: milliseconds, for when nobody waits."""
        ...

    def warm_up(self) -> None:
        """Run what only some texts lead to, so that it is compiled; nothing is learnt of it."""
        ...

    def figures(self) -> Mapping[str, float]:
        """What it has counted of its own work, for reports; most count nothing."""
        ...
