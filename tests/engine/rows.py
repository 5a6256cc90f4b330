"""Logits of rows that are run in many ways: what exactness is about."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from fastcoder_lsp.engine.backend import Backend, Rows

Logits = npt.NDArray[np.float32]


def prefill(backend: Backend, tokens: Sequence[int], chunks: Sequence[int], start: int = 0) -> None:
    turn = 0
    while start < len(tokens):
        size = min(chunks[turn % len(chunks)], len(tokens) - start)
        backend.forward(Rows.chain(tokens[start : start + size], start))
        start, turn = start + size, turn + 1


def run(backend: Backend, tokens: Sequence[int], parents: Sequence[int], cached: int) -> Logits:
    depths: list[int] = []
    for parent in parents:
        depths.append(0 if parent < 0 else depths[parent] + 1)
    tokens_N, parents_N, depths_N = (np.array(values, dtype=np.int64) for values in (tokens, parents, depths))
    logits = backend.forward(Rows(tokens_N, parents_N, depths_N, cached, 0))
    assert logits is not None
    return logits.copy()


def alone(backend: Backend, tokens: Sequence[int], cached: int) -> Logits:
    return np.concatenate([run(backend, [token], [-1], cached + index) for index, token in enumerate(tokens)])


def hide_in_tree(
    path: Sequence[int], vocabulary: int, size: int, rng: np.random.Generator
) -> tuple[list[int], list[int], list[int]]:
    """A random tree of `size` nodes that has `path` from its root on: tokens, parents, and the path's nodes.

    The other nodes hang anywhere, on the path and on each other, before and after it.
    """
    tokens, parents, nodes = [path[0]], [-1], [0]
    places = sorted(rng.choice(np.arange(1, size), len(path) - 1, replace=False).tolist())
    for node in range(1, size):
        if len(nodes) < len(path) and node == places[len(nodes) - 1]:
            tokens.append(path[len(nodes)])
            parents.append(nodes[-1])
            nodes.append(node)
        else:
            tokens.append(int(rng.integers(vocabulary)))
            parents.append(int(rng.integers(node)))
    return tokens, parents, nodes


def same_bits(left: Logits, right: Logits) -> npt.NDArray[np.bool_]:
    equal: npt.NDArray[np.bool_] = (left.view(np.int32) == right.view(np.int32)).all(axis=1)
    return equal


def check_place(backend: Backend, tokens: Sequence[int], rows: int, rng: np.random.Generator) -> int:
    """Run the last `rows` of `tokens` in every way, the ones before being the text; how many rows were bit-equal.

    Ways: alone on a cold cache; together as a chain; in random trees of up to 32 in random slots; on a cache that was
    filled in chunks of other sizes; on a warm one that a tree's accepted path was compacted into.
    """
    base, path = len(tokens) - rows, tokens[-rows:]
    prefill(backend, tokens[:base], [128])
    expected = alone(backend, path, base)
    equal = same_bits(run(backend, path, list(range(-1, rows - 1)), base), expected)
    prefill(backend, tokens[:base], rng.integers(1, 129, 5).tolist())
    for size in (rows + 1, 32):
        nodes_tokens, parents, nodes = hide_in_tree(path, backend.vocabulary, size, rng)
        equal &= same_bits(run(backend, nodes_tokens, parents, base)[nodes], expected)
    half = rows // 2
    backend.compact(base, nodes[:half])
    equal[half:] &= same_bits(alone(backend, path[half:], base + half), expected[half:])
    return int(equal.sum())
