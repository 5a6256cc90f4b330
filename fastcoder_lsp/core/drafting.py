"""What passes between drafters, which guess the next tokens, and the decoding loop."""

from collections.abc import Sequence
from dataclasses import dataclass

from fastcoder_lsp.core.engine import GREEDY, KeepingEngine, Sampler, SkimmingEngine
from fastcoder_lsp.core.trees import Draw


@dataclass(frozen=True, slots=True)
class Rewrite:
    """What is known of an answer that repeats most of an old text.

    Attributes:
        old: the tokens of the answer that changes nothing, without its end.
        ends: tokens that may end the answer, the likeliest first.
        changes: changes that the user made before, oldest first: the old side and the new one.
    """

    old: tuple[int, ...]
    ends: tuple[int, ...] = ()
    changes: tuple[tuple[tuple[int, ...], tuple[int, ...]], ...] = ()


@dataclass(frozen=True, slots=True)
class DraftContext:
    """A drafter's input before a step.

    Attributes:
        tokens: prompt and output so far, including the pending ones.
        prompt_length: the number of prompt tokens.
        document: the document's URI, for caches that live as long as the document.
        outdated: earlier guesses at this output, from its first token: suggestions typed past, rejected or cut.
        cached: the number of tokens in the KV cache: those before the pending ones.
        engine: gives the hidden states of cached tokens, if the drafter asked for some and the engine keeps them.
        target: the engine, if it can run a part of its model; its cache holds the text before the pending tokens, or
            nothing if its memory was freed.
        rewrite: the old text, if the answer is expected to repeat most of one.
    """

    tokens: Sequence[int]
    prompt_length: int
    document: str = ""
    outdated: tuple[tuple[int, ...], ...] = ()
    cached: int = 0
    engine: KeepingEngine | None = None
    sampler: Sampler = GREEDY
    target: SkimmingEngine | None = None
    rewrite: Rewrite | None = None


@dataclass(frozen=True, slots=True)
class Draft:
    """Guesses below the last pending token: parents index this draft's own nodes, -1 is the root; `draws` as a tree's.

    In a sampled draft the number of guesses must not depend on the guesses, so such a draft is taken as a whole or not
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
    """Properties of a drafter for the decoding loop.

    Attributes:
        top_k: the number of best ids that it observes for every verified row, including rejected ones; 0: none.
        late: whether it may observe a step after it proposed the next draft.
        weighs_costs: whether it ends its drafts where one more row costs more than it gains, so that it may be offered
            many rows; other drafters use all rows.
        skims: whether it drafts with a part of the model itself (`DraftContext.target`).
        layers: the layers whose hidden states it reads, for all decided tokens (`KeepingEngine.keep_states`).
    """

    top_k: int = 0
    late: bool = False
    weighs_costs: bool = False
    layers: tuple[int, ...] = ()
    skims: bool = False
