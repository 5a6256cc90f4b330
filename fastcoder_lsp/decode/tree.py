"""Makes a well-formed tree for the engine out of any draft.

Owns no policy: it drops nodes that cannot be verified (unknown ids, broken parents, twins, nodes beyond the room, text
that healing forbids) and keeps the order of the rest.
"""

from operator import lt

from fastcoder_lsp.core import NO_DRAFT, Draft, DraftTree, Draw, Tokens
from fastcoder_lsp.decode.healing import Healing


def build_tree(pending: Tokens, draft: Draft, *, room: int, vocabulary: int, healing: Healing) -> DraftTree:
    """The pending chain with the usable part of `draft` below it.

    Args:
        pending: tokens that are decided but not in the KV cache, at least one.
        draft: guesses; parents index the draft's own nodes, -1 is the last pending token. A node whose parent was
            dropped is dropped; of twins (same token, same parent) the first stays and takes over the other's children.
            A sampled draft is taken as a whole or not at all: with parts missing, its acceptance would be biased.
        room: most draft nodes.
        vocabulary: the number of ids.
        healing: the bytes before the cursor that the first tokens must spell.
    """
    if not healing.remaining and _is_sound(draft, room, vocabulary):
        return _joined(pending, draft)
    if draft.draws:
        return _joined(pending, NO_DRAFT)
    root = len(pending) - 1
    tokens, parents = list(pending), list(range(-1, root))
    sources, matches = [""] * len(pending), [0] * len(pending)
    place: dict[int, int] = {-1: root}
    twins: dict[tuple[int, int], int] = {}
    demands: dict[int, Healing] = {root: healing}
    for guess, (token, above) in enumerate(zip(draft.tokens, draft.parents, strict=False)):
        parent = place.get(above)
        if parent is None or above >= guess or not 0 <= token < vocabulary:
            continue
        if (twin := twins.get((parent, token))) is not None:
            place[guess] = twin
            continue
        below = demands[parent].after(token)
        if below is None or len(tokens) - len(pending) >= room:
            continue
        node = place[guess] = twins[parent, token] = len(tokens)
        demands[node] = below
        tokens.append(token)
        parents.append(parent)
        sources.append(draft.sources[guess] if guess < len(draft.sources) else "unnamed")
        matches.append(draft.matches[guess] if guess < len(draft.matches) else 0)
    return DraftTree(tuple(tokens), tuple(parents), len(pending), tuple(sources), tuple(matches))


def _is_sound(draft: Draft, room: int, vocabulary: int) -> bool:
    """Whether the draft needs no repair: true of good drafters, and checked in a quarter of the time."""
    tokens, parents = draft.tokens, draft.parents
    return (
        len(tokens) == len(parents) == len(draft.sources) == len(draft.matches)
        and 0 < len(tokens) <= room
        and min(tokens) >= 0
        and max(tokens) < vocabulary
        and min(parents) >= -1
        and all(map(lt, parents, range(len(parents))))
        and len(set(zip(parents, tokens, strict=True))) == len(tokens)
    )


def _joined(pending: Tokens, draft: Draft) -> DraftTree:
    """All of `draft` below the pending chain."""
    first = len(pending)
    return DraftTree(
        tokens=(*pending, *draft.tokens),
        parents=(*range(-1, first - 1), *(parent + first for parent in draft.parents)),
        pending=first,
        sources=(*[""] * first, *draft.sources),
        matches=(*[0] * first, *draft.matches),
        draws=tuple(Draw(draw.node + first, draw.proposal) for draw in draft.draws),
    )
