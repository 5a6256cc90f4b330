"""The backend over llama.cpp: rows as tokens of sequences, a KV cache of its own for each text.

The text is sequence 0. A tree's leaves are further sequences, which share the text's cells; a node belongs to the
sequences of all leaves below it, so that it sees the text and its ancestors alone. The last sequence holds padding.

Cells must follow the text's order: sums over them are made in their order. So of an accepted path only the rows that
stand one behind the other keep their cells. The others are *owed*: the next pass computes them again, before its own
rows. The same holds for a recurrent model, whose state cannot be cut back: it owes the text from its beginning.
"""

import ctypes
from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass
from typing import Any, Self

import llama_cpp.llama_cpp as api
import numpy as np

from fastcoder_lsp.core.arrays import Floats
from fastcoder_lsp.engine.backend import Rows
from fastcoder_lsp.engine.tree_engine import MAX_NODES
from fastcoder_lsp.errors import ModelInvalidError, ResourceError
from fastcoder_lsp.llama_engine.library import LlamaModel

_TEXT, _KEPT = 0, 1
"""The sequences of the text, and of a recurrent model's state at the end of the last prefill."""
_BFLOAT16 = 30
"""The library's number of the type."""
_OWED = 64
"""Most owed tokens that a step computes again; more are a prefill."""
_NO_CELLS = 1
"""The library's result where it finds no room for a batch."""


@dataclass(frozen=True, slots=True)
class WidthClass:
    """The widths of passes: those of steps are multiples of `quantum`, at most `most` rows at once.

    A prefill's `chunk` is not of the class. `plain_cache`: keys and values in bfloat16, for which the library's CPU
    code has one kernel of attention, else in float16. `repacks`: the CPU may order weights for products of four rows.
    `trees`: drafts may branch.
    """

    quantum: int
    most: int
    chunk: int
    plain_cache: bool = False
    repacks: bool = True
    trees: bool = True


class LlamaBackend:
    """A backend over a model that llama.cpp has loaded; `close` frees the weights, too, if this is the first one."""

    _context: Any
    _memory: Any
    _tokens: list[int]
    """The text's tokens; the first `_held` of them have cells, the others are owed."""
    _held: int
    _kept: int
    _tree: "_BatchPlan | None"
    _prefilling: bool

    def __init__(
        self, model: LlamaModel, widths: WidthClass, *, name: str, device: str, capacity: int, threads: int
    ) -> None:
        self.name, self.device, self.capacity, self.threads = name, device, capacity, threads
        self.vocabulary, self.chunk, self.widths = model.vocabulary, widths.chunk, widths
        self.model, self.is_first = model, True
        self._cell_bytes, self._context = 0, None
        self._forget_text()

    def another(self) -> Self:
        """Another backend over the same weights, with an empty cache."""
        other = copy(self)
        other.open_empty()
        return other

    def open_empty(self) -> None:
        """Take a cache of its own, not the one of the backend that this is a copy of; raises MemoryError."""
        self.is_first, self._context = False, None
        self._forget_text()
        try:
            self._open()
        except ResourceError as failure:
            raise MemoryError from failure

    @property
    def touched(self) -> int:
        """Slots of the cache that take memory: the library allocates all of them at once."""
        return self.capacity

    def bytes_of(self, slots: int) -> int:
        """Memory of the cache, whatever it holds."""
        del slots
        return self.capacity * self._cell_bytes

    def trim(self, slots: int) -> None:
        """Do nothing: the cache is one allocation."""

    def measure_cells(self) -> None:
        """Measure the memory of a slot of the cache; frees it until the next pass."""
        sizes = []
        for count in (1, 2):
            self.forward(Rows.chain([0] * count, 0))
            sizes.append(api.llama_state_seq_get_size(self._context, _TEXT))
        self._cell_bytes = sizes[1] - sizes[0]
        self._shut()

    def take(self, other: Self, start: int, stop: int) -> None:
        """Copy the slots before `stop` of another backend's cache, as far as its text needs no pass."""
        del start
        other._close_tree()
        size = api.llama_state_seq_get_size(other._context, _TEXT)
        buffer = (ctypes.c_uint8 * size)()
        api.llama_state_seq_get_data(other._context, buffer, size, _TEXT)
        self._forget_cells()
        if api.llama_state_seq_set_data(self._context, buffer, size, _TEXT):
            self._tokens, self._held = list(other._tokens), other._held
            self._cut(stop)
        else:
            self._forget_cells()
            self._tokens = other._tokens[:stop]

    def forward(self, rows: Rows) -> Floats | None:
        """Run the rows; logits of those from `logits_from` on, [R, vocabulary], valid until the next call."""
        if self._context is None:
            self._open()
        self._close_tree()
        self._cut(rows.cached)
        is_text = rows.logits_from == len(rows)
        owed = self._tokens[self._held :]
        while owed and (is_text or len(owed) > _OWED):
            self._run_text(owed[: self.chunk])
            del owed[: self.chunk]
        if not self.model.rewinds and not owed:
            self._keep_state(prefilling=is_text)
        if is_text:
            self._run_text(rows.tokens.tolist())
            self._tokens += rows.tokens.tolist()
            return None
        plan = _BatchPlan.of(rows, owed, self._held)
        logits_RV = self._run_step(plan, len(owed) + rows.logits_from)
        if plan.leaves == 1:
            self._tokens += rows.tokens.tolist()
            self._held = len(self._tokens)
        else:
            self._held = rows.cached
            self._tree = plan
        return logits_RV

    def compact(self, cached: int, path: Sequence[int]) -> None:
        """Keep the slots `cached + path[i]`: those in order with their cells, the others owed."""
        tree, in_order = self._tree, next((index for index, node in enumerate(path) if node != index), len(path))
        if tree is None:  # a chain: its accepted rows are its first ones
            kept = [self._tokens[cached + node] for node in path]
            self._cut(cached + in_order)
        else:
            kept = [tree.tokens[tree.owed + node] for node in path]
            if in_order and (sequence := tree.sequences[tree.owed + in_order - 1][0]) != _TEXT:
                api.llama_memory_seq_rm(self._memory, _TEXT, cached, -1)
                api.llama_memory_seq_cp(self._memory, sequence, _TEXT, cached, cached + in_order)
            self._held = cached + in_order
            self._close_tree()
        self._tokens[cached:] = kept

    def close(self) -> None:
        """Free the memory; the weights' too, if this is the first backend over them."""
        self._shut()
        if self.is_first:
            self.model.close()

    def _open(self) -> None:
        settings, widths = api.llama_context_default_params(), self.widths
        sequences = MAX_NODES if self.model.rewinds else _KEPT + 1
        self._padding, count = sequences, max(self.chunk, widths.most, sequences + 1)
        settings.n_ctx = self.capacity + _OWED + widths.quantum
        settings.n_batch = settings.n_ubatch = count
        settings.n_seq_max, settings.kv_unified, settings.swa_full = sequences + 1, True, True
        settings.n_threads = settings.n_threads_batch = self.threads
        if widths.plain_cache:
            settings.type_k = settings.type_v = _BFLOAT16
        with self.model.explained("llama.cpp cannot make room for the model's cache"):
            context = api.llama_init_from_model(self.model.pointer, settings)
            if not context:
                raise RuntimeError
        if not api.llama_get_causal_attn(context):  # of a text diffusion model, or one for embeddings
            api.llama_free(context)
            raise ModelInvalidError("this model does not write from left to right", "Take a model that continues text.")
        self._context, self._memory = context, api.llama_get_memory(context)
        self._batch = batch = api.llama_batch_init(count, 0, sequences + 1)
        self._tokens_N, self._places_N, self._counts_N, self._wanted_N = (
            np.ctypeslib.as_array(part, (count,)) for part in (batch.token, batch.pos, batch.n_seq_id, batch.logits)
        )
        self._sequences = [np.ctypeslib.as_array(batch.seq_id[row], (sequences + 1,)) for row in range(count)]

    def _shut(self) -> None:
        if self._context is not None:
            api.llama_batch_free(self._batch)
            api.llama_free(self._context)
            self._context = None
            self._forget_text()

    def _forget_text(self) -> None:
        self._tokens, self._held, self._kept, self._tree, self._prefilling = [], 0, 0, None, False

    def _run_text(self, tokens: list[int]) -> None:
        """Run a stretch of text after the cells, without logits."""
        for start in range(0, len(tokens), self.chunk):
            part = tokens[start : start + self.chunk]
            count = len(part)
            self._fill(part, range(self._held, self._held + count), [[_TEXT]] * count)
            self._wanted_N[:count] = 0
            self._decode(count)
            self._held += count

    def _run_step(self, plan: "_BatchPlan", logits_from: int) -> Floats:
        """Run a tree in passes of the class of widths."""
        for leaf in range(1, plan.leaves):
            api.llama_memory_seq_cp(self._memory, _TEXT, leaf, -1, -1)
        count, quantum, most = len(plan.tokens), self.widths.quantum, self.widths.most
        found: list[Floats] = []
        for start in range(0, count, most):
            stop = min(start + most, count)
            padding = -(stop - start) % quantum if self.model.rewinds else 0
            tokens, places = plan.tokens[start:stop] + [0] * padding, [*plan.places[start:stop], *range(padding)]
            self._fill(tokens, places, plan.sequences[start:stop] + [[self._padding]] * padding)
            total, wanted = len(tokens), stop - max(start, logits_from)
            # The head's rows, too, are a width of the class.
            first = max(0, total - padding - wanted - (-(wanted + padding) % quantum)) if wanted > 0 else total
            self._wanted_N[:first], self._wanted_N[first:total] = 0, 1
            self._decode(total)
            if padding:
                api.llama_memory_seq_rm(self._memory, self._padding, -1, -1)
            if wanted > 0:
                pointer = api.llama_get_logits(self._context)
                logits_RV = np.ctypeslib.as_array(pointer, (total - first, self.vocabulary))
                part_RV = logits_RV[total - padding - wanted - first : total - padding - first]
                found.append(part_RV.copy() if stop < count else part_RV)
        return found[0] if len(found) == 1 else np.concatenate(found)

    def _fill(self, tokens: Sequence[int], places: Sequence[int], sequences: Sequence[list[int]]) -> None:
        """Write the batch, but for which rows' logits are wanted."""
        count = len(tokens)
        self._tokens_N[:count], self._places_N[:count] = tokens, places
        for row, of_row in enumerate(sequences):
            self._counts_N[row] = len(of_row)
            self._sequences[row][: len(of_row)] = of_row

    def _decode(self, count: int) -> None:
        self._batch.n_tokens = count
        self.model.log.errors.clear()
        self.model.take_turn()
        if not (code := api.llama_decode(self._context, self._batch)):
            return
        self._forget_cells()
        if code == _NO_CELLS:
            raise ResourceError("llama.cpp found no room in its cache", "Use a smaller `context_tokens`.")
        raise ResourceError(
            f"llama.cpp could not compute a pass (code {code}): {'; '.join(self.model.log.errors)[:200]}",
            "Close other programs, or use a smaller model.",
        )

    def _cut(self, slots: int) -> None:
        """Forget the text from this slot on."""
        del self._tokens[slots:]
        if self._held > slots:
            if api.llama_memory_seq_rm(self._memory, _TEXT, slots, -1):
                self._held = slots
            elif self._kept and self._kept <= slots:
                self._copy_state(_KEPT, _TEXT)
                self._held = self._kept
            else:
                self._forget_cells()

    def _keep_state(self, *, prefilling: bool) -> None:
        """Keep the state where a prefill ends: texts that begin alike go on from there."""
        if self._prefilling and not prefilling:
            self._copy_state(_TEXT, _KEPT)
            self._kept = self._held
        self._prefilling = prefilling

    def _copy_state(self, source: int, target: int) -> None:
        api.llama_memory_seq_rm(self._memory, target, -1, -1)
        api.llama_memory_seq_cp(self._memory, source, target, -1, -1)

    def _close_tree(self) -> None:
        """Forget the rows of a tree that no path was kept of."""
        if self._tree is not None:
            for leaf in range(1, self._tree.leaves):
                api.llama_memory_seq_rm(self._memory, leaf, -1, -1)
            api.llama_memory_seq_rm(self._memory, _TEXT, self._held, -1)
            self._tree = None

    def _forget_cells(self) -> None:
        """Empty the library's cache: the whole text is owed."""
        api.llama_memory_clear(self._memory, False)
        self._held, self._kept, self._tree, self._prefilling = 0, 0, None, False


@dataclass(frozen=True, slots=True)
class _BatchPlan:
    """A batch's rows: tokens, positions, and sequences; the first `owed` ones are not of the tree."""

    tokens: list[int]
    places: list[int]
    sequences: list[list[int]]
    leaves: int
    owed: int

    @classmethod
    def of(cls, rows: Rows, owed: list[int], held: int) -> "_BatchPlan":
        parents, depths = rows.parents.tolist(), rows.depths.tolist()
        inner = set(parents)
        ends = [row for row in range(len(rows)) if row not in inner]
        below: list[list[int]] = [[] for _ in parents]
        for sequence, leaf in enumerate(ends):
            row = leaf
            while row >= 0:
                below[row].append(sequence)
                row = parents[row]
        start = held + len(owed)
        return cls(
            tokens=[*owed, *rows.tokens.tolist()],
            places=[*range(held, start), *(start + depth for depth in depths)],
            sequences=[list(range(len(ends)))] * len(owed) + below,
            leaves=len(ends),
            owed=len(owed),
        )
