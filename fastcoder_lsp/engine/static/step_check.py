"""Whether a step's end, as some kernels compute it, is what its own logits ask for: said, followed, and moved.

Owns the check, for which whole programs run uncaptured, several times. What another order of summation makes of one run
is none of its business: rows that are not each other's differ by far more.
"""

from dataclasses import replace

import torch

from fastcoder_lsp.core import GREEDY, DraftTree
from fastcoder_lsp.engine.static.programs import TOP_K, Program, Programs
from fastcoder_lsp.engine.static.tuning import agree
from fastcoder_lsp.engine.static.verifier import Ask
from fastcoder_lsp.engine.static.walk import follow


def any_tree(width: int) -> DraftTree:
    """A tree of `width` rows in pairs below each other."""
    tokens = tuple((7 * row) % 101 for row in range(width))
    return DraftTree(tokens, tuple((row - 1) // 2 if row else -1 for row in range(width)))


def agreeing_tree(programs: Programs, width: int, bucket: int, cached: int) -> DraftTree:
    """The same tree, of which the second guess of a pair is what the model says.

    So whatever is accepted has to be moved. Found level by level, for a guess is judged by what the row above it says.
    """
    tree, row = any_tree(width), 0
    tokens = list(tree.tokens)
    while (second := 2 * row + 2) < width:
        logits_TV = _logits(programs, tree, width, bucket, cached)
        said = int(logits_TV[row].argmax())
        tokens[second] = said
        tokens[second - 1] = said + 1 if said == 0 else said - 1
        tree, row = replace(tree, tokens=tuple(tokens)), second
    return tree


def wrong_end(programs: Programs, tree: DraftTree, width: int, bucket: int, cached: int) -> str | None:
    """What is wrong with the end of a step over `tree`; None where all is right."""
    said = _logits(programs, tree, width, bucket, cached).argmax(1)[: len(tree)].tolist()
    for ask in (Ask(), Ask(top_k=min(TOP_K, programs.vocabulary))):
        program = Program(width, bucket, ask)
        if _end(programs, program, tree, cached, room=0)[0] != ():
            return "more is accepted than there is room for"
        before = _slots(programs, cached, width)
        path, emitted = _end(programs, program, tree, cached, room=width)
        expected = follow(tree, said, width)
        if emitted[0] != expected[1][0]:
            return "it does not say the best"
        if (path, emitted) != expected:
            return "another path is followed"
        moved = before.clone()
        for place, node in enumerate(path):
            moved[:, :, :, tree.pending + place] = before[:, :, :, node]
        end = tree.pending + len(path)
        if not agree(_slots(programs, cached, width)[:, :, :, :end], moved[:, :, :, :end]):
            return "other slots are moved"
    return None


def _logits(programs: Programs, tree: DraftTree, width: int, bucket: int, cached: int) -> torch.Tensor:
    programs.send(tree.tokens, tree.parents, width=width, cached=cached, sampler=GREEDY)
    return programs.logits(width, bucket)


def _end(
    programs: Programs, program: Program, tree: DraftTree, cached: int, *, room: int
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    programs.send(
        tree.tokens,
        tree.parents,
        width=program.width,
        cached=cached,
        sampler=GREEDY,
        pending=tree.pending,
        room=room,
    )
    programs.launch(program, captured=False)
    programs.wait()
    return programs.accepted(program, tree, cached, room)


def _slots(programs: Programs, cached: int, width: int) -> torch.Tensor:
    return programs.cache.save(cached + width).slots_2LKCD[:, :, :, cached:]
