"""The graph engine: `core.Engine` whose step is one replay, which a caller may launch and collect separately.

It chooses the program for a tree, and does the bookkeeping around it; everything else happens on the device. Prefills
and comparisons go through `StaticBackend`, rows in and logits out; steps choose tokens on the device.
"""

import functools
import gc
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Concatenate, ParamSpec, TypeVar

import torch

from fastcoder_lsp.core import (
    GREEDY,
    DraftTree,
    EngineInfo,
    Prefilled,
    Preparing,
    Sampler,
    ShouldStop,
    Tokens,
    Verified,
)
from fastcoder_lsp.core.arrays import Floats, Int64s
from fastcoder_lsp.engine.architecture import Shape
from fastcoder_lsp.engine.backend import Rows
from fastcoder_lsp.engine.tree_engine import TreeEngine
from fastcoder_lsp.torch_engines.graphs.cache import SavedPrefixes, StaticCache
from fastcoder_lsp.torch_engines.graphs.device import Device
from fastcoder_lsp.torch_engines.graphs.programs import TOP_K, Program, Programs
from fastcoder_lsp.torch_engines.graphs.verifier import HEAD, StepVariant


class StaticBackend:
    """A backend over captured programs; `shelf` keeps prefixes that leave the cache."""

    def __init__(
        self, name: str, programs: Programs, cache: StaticCache, shelf: SavedPrefixes, device: Device, shape: Shape
    ) -> None:
        self.name, self.device, self.vocabulary, self._eps = name, device.name, shape.vocabulary, shape.eps
        self.capacity, self.chunk = programs.plan.capacity, programs.plan.reads[-1]
        self.layers, self.sublayers = shape.layers, 2 * shape.layers
        self.programs = programs
        self._cache, self._saved_prefixes, self._device = cache, shelf, device

    @property
    def kept_layers(self) -> tuple[int, ...]:
        """The layers behind which hidden states are kept, each from 1 on."""
        return self._cache.state_layers

    def last_norm(self) -> tuple[Floats, float]:
        """The weights [E] of the norm before the head, and its ε."""
        return self.programs.transformer.model.norm.scale_E.float().cpu().numpy(), self._eps

    @torch.inference_mode()
    def keep_states(self, layers: Sequence[int]) -> None:
        """Keep hidden states behind these layers from now on (`states.KeepingBackend`); empties the KV cache.

        `prepare` captures programs again that keep them, so that no request waits for it. Raises
        torch.OutOfMemoryError, with nothing changed.
        """
        before = self._cache.state_layers
        try:
            self._keep(layers)
        except torch.OutOfMemoryError:
            self._keep(before)
            raise

    def _keep(self, layers: Sequence[int]) -> None:
        self._saved_prefixes.clear()
        self.programs.forget()
        self._cache.keep_states(layers)
        self.programs.warm_up_again()

    @torch.inference_mode()
    def prepare(self, cached: int) -> bool:
        """Capture a requested program; returns whether there was one (`Programs.prepare`)."""
        return self.programs.prepare(cached)

    @torch.inference_mode()
    def states(self, start: int, stop: int) -> Floats:
        """The states of the slots `start`…`stop`, [slots, kept layers, E]: a copy on the host."""
        found: Floats = self._cache.states(start, stop).float().cpu().numpy()
        return found

    @torch.inference_mode()
    def embed(self, tokens: Int64s) -> Floats:
        """The embeddings of tokens, [tokens, E]."""
        embedding_VE = self.programs.transformer.model.embedding_VE
        found: Floats = embedding_VE[torch.from_numpy(tokens).to(embedding_VE.device)].float().cpu().numpy()
        return found

    @torch.inference_mode()
    def forward(self, rows: Rows) -> Floats | None:
        """Run the rows; logits of those from `logits_from` on, [R, vocabulary], valid until the next call."""
        plan, count = self.programs.plan, len(rows)
        wanted = rows.logits_from < count
        width = plan.step_width(count) if wanted and count <= plan.widths[-1] else plan.read_width(count)
        bucket = plan.bucket(rows.cached, width)
        self.programs.input.write(
            rows.tokens.tolist(), rows.parents.tolist(), width=width, cached=rows.cached, sampler=GREEDY
        )
        if not wanted:
            self.programs.launch(Program(width, bucket, None))
            self.programs.wait()
            return None
        logits: Floats = (
            self.programs.logits(width, bucket, rows.skipped)[rows.logits_from : count].float().cpu().numpy()
        )
        return logits

    @torch.inference_mode()
    def compact(self, cached: int, path: Sequence[int]) -> None:
        """Move the accepted slots together; the caller has waited for the program whose path this is."""
        self.programs.moves.keep(cached, path)

    @torch.inference_mode()
    def recall(self, held: Tokens, wanted: Tokens) -> int:
        """Before the cache changes to `wanted`, shelve the rest, restore a shelved prefix, and return its length."""
        if not wanted:
            self._saved_prefixes.clear()
            return 0
        return self._saved_prefixes.exchange(self._cache, held, wanted)

    def failed(self, why: RuntimeError) -> None:
        """Report an error to the device."""
        self._device.failed(why)

    def close(self) -> None:
        """Free the memory at once: programs and their graphs are a cycle, which is collected late or never."""
        self.programs.close()
        self._saved_prefixes.clear()
        del self.programs, self._cache
        gc.collect()
        self._device.release()


logger = logging.getLogger(__name__)
Given = ParamSpec("Given")
Found = TypeVar("Found")


@dataclass(frozen=True, slots=True)
class _Launched:
    """A step under way: its tree, how many drafts may be accepted, its program, and how many best ids are needed."""

    tree: DraftTree
    room: int
    program: Program
    top_k: int


def _watched(
    method: "Callable[Concatenate[StaticEngine, Given], Found]",
) -> "Callable[Concatenate[StaticEngine, Given], Found]":
    @functools.wraps(method)
    def run(engine: "StaticEngine", /, *given: Given.args, **named: Given.kwargs) -> Found:
        try:
            return method(engine, *given, **named)
        except RuntimeError as why:
            engine.static.failed(why)
            raise

    return run


class StaticEngine(TreeEngine, Preparing):
    """A `TreeEngine` that chooses tokens on the device, and moves accepted slots while the host is busy.

    Between `launch` and `collect` the host is free; no other method of the engine may be called then.
    """

    def __init__(self, backend: StaticBackend, info: EngineInfo) -> None:
        super().__init__(backend, info)
        self.static = backend
        self._launched: _Launched | Verified | None = None
        self._programs: dict[tuple[tuple[int, int], tuple[bool, bool, bool, bool, int]], Program] = {}
        self._refused: set[tuple[int, ...]] = set()

    @_watched
    def prefill(self, tokens: Tokens, should_stop: ShouldStop) -> Prefilled:
        """Make the cache hold `tokens`; restores prefixes of other documents; an empty prompt drops them all."""
        assert self._launched is None, "a step is under way"
        self._check_fits(tokens)
        found = self.static.recall(self._cached, tokens)
        self._cached[:] = tokens[:found]
        return super().prefill(tokens, should_stop)

    @_watched
    def keep_states(self, layers: Sequence[int]) -> bool:
        """Keep hidden states behind these layers; drops the cache if it lacks some of them.

        False also for a model with LayerNorm, which readers of states do not support, and if memory has no room. That
        is tried once: it costs the cache, and drafters ask before every draft, whose step needs it.
        """
        assert self._launched is None, "a step is under way"
        if self.static.programs.transformer.model.norm.offset_E is not None or tuple(layers) in self._refused:
            return not layers
        try:
            return super().keep_states(layers)
        except torch.OutOfMemoryError:
            logger.warning("hidden states are not kept: memory has no room for them")
            self._refused.add(tuple(layers))
            self._cached.clear()
            return not layers

    @_watched
    def prepare(self) -> bool:
        """Capture a requested program that was launched operation by operation; returns whether there was one."""
        return self._launched is None and self.static.prepare(len(self._cached))

    @_watched
    def launch(
        self, tree: DraftTree, sampler: Sampler = GREEDY, allowed: Mapping[int, Int64s] | None = None, top_k: int = 0
    ) -> None:
        """Begin the step that `collect` ends; arguments as of `core.Engine.step`."""
        assert self._launched is None, "a step is under way"
        if sampler.rule == "rejection" and sampler.temperature > 0:  # needs distributions, which the host has
            self._launched = super().step(tree, sampler, allowed, top_k)
            return
        room = self._room(tree)  # the tree is checked where its rows are laid out
        programs, cached = self.static.programs, len(self._cached)
        program = self.program(len(tree), sampler, bound=bool(allowed), top_k=top_k)
        programs.input.write(
            tree.tokens,
            tree.parents,
            width=program.width,
            cached=cached,
            sampler=sampler,
            pending=tree.pending,
        )
        if allowed:
            programs.bind(allowed, len(tree))
        programs.launch(program)
        self._launched = _Launched(tree, room, program, min(top_k, self.info.vocabulary))

    def program(self, nodes: int, sampler: Sampler = GREEDY, *, bound: bool = False, top_k: int = 0) -> Program:
        """The program for a tree of `nodes` over the present cache; `bound`: some rows restrict the ids after them."""
        plan = self.static.programs.plan
        width = plan.step_width(nodes)
        size = width, plan.bucket(len(self._cached), width)
        sampled = sampler.temperature > 0
        nucleus = sampled and sampler.trims
        kind = sampled, nucleus, sampled and sampler.top_k > HEAD, bound, top_k
        # Comparing is cheaper than making one, and the same object is found faster in the dictionary.
        found = self._programs.get((size, kind))
        if found is None:
            held = 0 if not top_k else max(TOP_K, 1 << (top_k - 1).bit_length())
            ask = StepVariant(*kind[:4], min(held, self.info.vocabulary))
            found = self._programs[size, kind] = Program(*size, ask)
        return found

    @_watched
    def collect(self) -> Verified:
        """Wait for the launched step, and return its outcome."""
        assert self._launched is not None, "no step is under way"
        launched, self._launched = self._launched, None
        if isinstance(launched, Verified):
            return launched
        tree, program, programs = launched.tree, launched.program, self.static.programs
        programs.wait()
        path, emitted = programs.accepted(program, tree, len(self._cached), launched.room)
        if min(emitted) < 0:
            path, emitted = self._decided(launched)
        self._cached.extend(tree.tokens[: tree.pending])
        self._cached.extend(emitted[:-1])
        if not launched.top_k:
            return Verified(path, emitted)
        return Verified(path, emitted, *programs.best(program, len(tree), launched.top_k))

    def _decided(self, launched: _Launched) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """The outcome of another run over whole vocabularies; the rows are still in place, and a step may run again."""
        programs, program = self.static.programs, launched.program
        assert program.ask is not None, "a step asks for tokens"
        again = replace(program, ask=replace(program.ask, whole=True))
        programs.launch(again)
        programs.wait()
        return programs.accepted(again, launched.tree, len(self._cached), launched.room)

    def step(
        self, tree: DraftTree, sampler: Sampler = GREEDY, allowed: Mapping[int, Int64s] | None = None, top_k: int = 0
    ) -> Verified:
        """One forward pass over `tree` after the cached tokens, verification, and commit of the accepted path."""
        self.launch(tree, sampler, allowed, top_k)
        return self.collect()
