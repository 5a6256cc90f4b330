"""Products with a drafter's own weights: who makes them is handed in, for the kernels are the engine's.

Owns the form of such a product, and the one in full precision that stands in where no engine gives another. A product's
rounding changes what is guessed, never what is said.

Legend: T rows, N outputs, K inputs.
"""

from collections.abc import Callable

from fastcoder_lsp.draft.weights import Floats

Linear = Callable[[Floats], Floats]
"""Rows [T, K] times the weights: [T, N]."""
MakeLinear = Callable[[Floats], Linear]
"""From weights [N, K], which it need not keep."""


def exact(weight_NK: Floats) -> Linear:
    """In fp32, by numpy."""

    def product(x_TK: Floats) -> Floats:
        found: Floats = x_TK @ weight_NK.T
        return found

    return product
