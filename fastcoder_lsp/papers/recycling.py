"""Token Recycling: the model's own best next tokens after each token, rejected drafts included, make the next tree.

Luo et al. 2024, *Turning Trash into Treasure*. Section 3.1: the adjacency matrix M (token → its k last best next
tokens, k = 8); 3.2: a static tree of 80 nodes is filled breadth first from M; 3.3: after verification every row updates
M. The paper's hot start (inheriting the matrix from the previous query) is here a matrix for each document.
"""

import heapq
from collections.abc import Sequence
from dataclasses import dataclass, replace

from fastcoder_lsp.core import NO_DRAFT, Draft, DraftContext, DrafterTraits, DraftTree, Verified
from fastcoder_lsp.documents import PerDocument
from fastcoder_lsp.draft.base import FROM_RECYCLING, Drafter, Specification

Matrix = dict[int, list[int]]
"""M without its empty rows; a token without a row has no candidates yet (the paper's zeros)."""


@dataclass(frozen=True, slots=True)
class RecyclingParameters:
    """Parameters of `recycling`."""

    k: int = 8  # candidates of a token (paper: 8)
    nodes: int = 80  # size of the static tree (paper: 80, without the root)
    shares: tuple[float, ...] = (0.52, 0.15, 0.08, 0.05, 0.04, 0.03, 0.02, 0.02)
    """How often the candidate of each rank is right: shapes the static tree, which the paper draws (Figure 3)."""
    tokens_at_most: int = 16384  # bounds one document's matrix
    prompt: bool = False
    """Whether a token without a row gets its successors in the prompt as candidates, latest first (a departure: the
    paper starts from zeros, and the engine computes the head of a prefill's last row only)."""


RECYCLING_PAPER = Specification(
    "recycling-paper",
    "the model's own best next tokens, also after rejected guesses",
    RecyclingParameters(),
    lambda parameters, _parts: RecyclingDrafter(parameters),
    paper="Luo et al. 2024, Token Recycling, sections 3.1 to 3.3",
    sources=(FROM_RECYCLING,),
    traits=DrafterTraits(top_k=RecyclingParameters().k),
    remembers=True,
)
RECYCLING = replace(
    RECYCLING_PAPER,
    name="recycling",
    guesses_from="the model's own best next tokens; at first, the tokens that follow in the prompt",
    parameters=RecyclingParameters(prompt=True),
)


@dataclass(frozen=True, slots=True)
class TreeTemplate:
    """The static tree, likeliest node first: `parents[i]` is a node before i or -1, `ranks[i]` its place in M's row."""

    parents: tuple[int, ...]
    ranks: tuple[int, ...]


def template(parameters: RecyclingParameters) -> TreeTemplate:
    """The tree of the `nodes` likeliest paths, likeliest first; a path's chance is the product of its ranks'."""
    parents: list[int] = []
    ranks: list[int] = []
    waiting = [(-share, -1, rank) for rank, share in enumerate(parameters.shares[: parameters.k])]
    heapq.heapify(waiting)
    while waiting and len(ranks) < parameters.nodes:
        likely, parent, rank = heapq.heappop(waiting)
        node = len(ranks)
        parents.append(parent)
        ranks.append(rank)
        for below, share in enumerate(parameters.shares[: parameters.k]):
            heapq.heappush(waiting, (likely * share, node, below))
    return TreeTemplate(tuple(parents), tuple(ranks))


class RecyclingDrafter(Drafter):
    """Fills the static tree from the matrix; every verified row refreshes the matrix."""

    def __init__(self, parameters: RecyclingParameters | None = None) -> None:
        self._documents: PerDocument[Matrix] = PerDocument(dict)
        super().__init__(RECYCLING, self._documents)
        self._parameters = parameters or RecyclingParameters()
        self.traits = DrafterTraits(top_k=self._parameters.k)
        self._template = template(self._parameters)
        self._matrix: Matrix = {}

    def begin(self, context: DraftContext) -> None:
        """Start from the document's matrix if it has one, else from the prompt or from nothing."""
        self._matrix = self._documents.fetch(context.document)
        if self._parameters.prompt:
            self._seed(context.tokens)

    def propose(self, context: DraftContext, nodes: int) -> Draft:
        """Section 3.2: the root is the last token; node by node, its token's candidate of the template's rank."""
        root = self._matrix.get(context.tokens[-1])
        if root is None:
            return NO_DRAFT
        tokens: list[int] = []
        parents: list[int] = []
        # For each node of the template: its place in the draft and its token's row; None: it is not drafted.
        placed: list[tuple[int, list[int] | None]] = []
        row_of = self._matrix.get
        for above, rank in zip(self._template.parents, self._template.ranks, strict=True):
            parent, row = (-1, root) if above < 0 else placed[above]
            if row is None or rank >= len(row):
                placed.append((-1, None))
                continue
            if len(tokens) == nodes:
                break
            token = row[rank]
            placed.append((len(tokens), row_of(token)))
            tokens.append(token)
            parents.append(parent)
        return Draft(tuple(tokens), tuple(parents), (FROM_RECYCLING.name,) * len(tokens), (1,) * len(tokens))

    def observe(self, tree: DraftTree, verified: Verified) -> None:
        """Section 3.3: the k best next tokens of every row replace its token's row in M.

        Of several rows of one token the last counts; the accepted ones come last, because they belong to the text.
        """
        assert verified.top_ids_NK is not None
        rows, matrix = verified.top_ids_NK.tolist(), self._matrix
        for token, row in zip(tree.tokens, rows, strict=True):
            matrix[token] = row
        for node in (*range(tree.pending), *verified.path):
            matrix[tree.tokens[node]] = rows[node]
        while len(matrix) > self._parameters.tokens_at_most:
            del matrix[next(iter(matrix))]

    def _seed(self, prompt: Sequence[int]) -> None:
        """Rows for the prompt's tokens that have none: their k latest successors."""
        rows: Matrix = {}
        for token, after in zip(prompt[-2::-1], prompt[:0:-1], strict=True):
            row = rows.setdefault(token, [])
            if len(row) < self._parameters.k and after not in row:
                row.append(after)
        for token, row in rows.items():
            self._matrix.setdefault(token, row)


SPECIFICATIONS = (RECYCLING, RECYCLING_PAPER)
