"""The life of the model: loaded once for all clients when first needed, with a runtime for each of them.

Every failure becomes a status, never an exception, and loading is tried again. Runs in the scheduler's thread.
"""

import ctypes
import gc
import logging
import math
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Generic, Protocol, TypeVar

from typing_extensions import override

from fastcoder_lsp.completion.question import Clock, Policy, Question
from fastcoder_lsp.completion.status import Status, failure
from fastcoder_lsp.completion.suggestions import CursorContext, Suggestion
from fastcoder_lsp.core import EngineInfo, Preparing, Progress, RawPrompt, Reason, Rewrite, StepCosts
from fastcoder_lsp.decode.loop import DecodeRequest
from fastcoder_lsp.edits.formats import answer_tokens, encode_raw
from fastcoder_lsp.errors import FastcoderError
from fastcoder_lsp.observe import Spans
from fastcoder_lsp.prompt import allowed
from fastcoder_lsp.runtime.edit_model import MOST_ROWS, EditRuntime, no_edit_model
from fastcoder_lsp.runtime.parts import Model, Runtime
from fastcoder_lsp.scheduling.budget import BackgroundBudget, Budgets, LatencyEstimator, first_tokens
from fastcoder_lsp.scheduling.generation import Generation, LocalGeneration, SearchingGeneration, begin

logger = logging.getLogger(__name__)

NOT_LOADED = "The model could not be loaded"
_CHARACTERS = 16
"""Characters of a raw prompt that are encoded for each token of the context, at most: that takes the model's time."""
RETRY_MS = 5000.0  # time before a failed load is tried again: the user has to fix its cause first


class ModelResources(Protocol):
    """The model that all clients share (`runtime.parts.Model`)."""

    @property
    def costs(self) -> StepCosts:
        """The measured costs of its work."""

    def close(self) -> None:
        """Free the memory."""


SomeModel = TypeVar("SomeModel", bound=ModelResources)


class Loaded(Protocol):
    """A loaded model, as one client has it: on this machine, or a server in its place."""

    @property
    def info(self) -> EngineInfo:
        """The running engine."""

    def budgets(self, policy: Policy) -> Budgets:
        """The budgets of a request with `policy`."""

    def background(self, question: Question) -> BackgroundBudget:
        """The budget of background work after `question`."""

    def begin(
        self, question: Question, expected: Sequence[str], spans: Spans, clock: Clock, *, whole: bool
    ) -> Generation:
        """A generation for `question`. `expected`: likely beginnings. `whole`: with the whole prompt."""

    def awaits(self, question: Question) -> bool:  # noqa: ARG002 see below
        """Whether a question waits until another model is loaded, which no other question needs."""
        return False

    def refuses(self, question: Question) -> Status | None:  # noqa: ARG002 see below
        """Why a question cannot be answered; None if it can."""
        return None

    def took_over(self, question: Question | None, error: BaseException) -> bool:  # noqa: ARG002 see below
        """Whether it handles the failure of a piece of work, and answers the question that waited for it."""
        return False


@dataclass(frozen=True, slots=True)
class LocalModel(Loaded):
    """The model on this machine: a client's parts of it, and its latency estimates."""

    runtime: Runtime
    latency: LatencyEstimator

    @property
    @override
    def info(self) -> EngineInfo:
        return self.runtime.info

    @override
    def budgets(self, policy: Policy) -> Budgets:
        return Budgets.of(policy, self.latency.costs)

    @override
    def background(self, question: Question) -> BackgroundBudget:
        return BackgroundBudget.of(question, self.budgets(question.policy))

    @override
    def awaits(self, question: Question) -> bool:
        return question.request.raw is not None and isinstance(self.runtime.edit_model(), Status)

    @override
    def refuses(self, question: Question) -> Status | None:
        reason = self.runtime.edit_model() if question.request.raw is not None else no_edit_model()
        if not isinstance(reason, Reason) or reason == no_edit_model():
            return None
        return Status("error", message=reason.text, hint=reason.hint)

    @override
    def begin(
        self, question: Question, expected: Sequence[str], spans: Spans, clock: Clock, *, whole: bool
    ) -> Generation:
        if (raw := question.request.raw) is not None:
            edits = self.runtime.edit_model()
            if isinstance(edits, EditRuntime):
                runtime, latency = _runtime_of(edits, self.runtime), LatencyEstimator(edits.model.costs, clock)
                return begin_raw(runtime, latency, clock, question, raw, spans)
            return begin_raw(self.runtime, self.latency, clock, question, raw, spans)
        request, place = question.request, question.place
        building = begin(
            self.runtime,
            self.latency,
            clock,
            request,
            place,
            expected,
            hurried=question.hurried,
            room=first_tokens(question, self.latency),
            whole=whole,
        )
        snapshot = replace(request.snapshot, text=place.before + place.after)
        searching = SearchingGeneration(building, self.info, self.latency, clock, snapshot, place, spans)
        searching.sampler = request.sampler
        searching.work(math.inf)
        return searching.begun()


def _runtime_of(edits: EditRuntime, code: Runtime) -> Runtime:
    model, tokenizer = edits.model, edits.model.tokenizer
    return replace(
        code,
        slots=edits.slots,
        tokenizer=tokenizer,
        drafter=edits.drafter,
        allow=lambda remaining: allowed(tokenizer, remaining),
        limits=replace(code.limits, nodes=min(MOST_ROWS, model.engines.info.max_nodes)),
        costs=model.costs,
    )


class RawGeneration(LocalGeneration):
    """The answer to a whole prompt that another program built; it serves the same prompt again, and no other one.

    Nothing is cleaned, and no rule of completions ends the text: only the model, the stops and the length do.
    """

    @override
    def agrees(self, place: CursorContext) -> bool:
        return place == self.place

    @override
    def made(self) -> Suggestion:
        assert self.finish, "it is still being said"
        return Suggestion(self.place, self.said(), finish=self.finish)

    @override
    def useful(self) -> Suggestion:
        if self.finish:
            return self.made()
        return Suggestion(self.place, _lines(self.said()))  # as llama.cpp at its time limit

    @override
    def settled(self) -> str:
        assert self.raw is not None, "it answers a raw prompt"
        said = self.said()
        # The end may be the beginning of a stop.
        held = max((_overlap(said, stop) for stop in self.raw.stops), default=0)
        return _lines(said[: len(said) - held])


def _lines(text: str) -> str:
    return text[: text.rfind("\n") + 1]


def _overlap(said: str, stop: str) -> int:
    """The length of the longest end of `said` that `stop` begins with."""
    return next((length for length in range(min(len(stop), len(said)), 0, -1) if said.endswith(stop[:length])), 0)


def begin_raw(
    runtime: Runtime, latency: LatencyEstimator, clock: Clock, question: Question, raw: RawPrompt, spans: Spans
) -> RawGeneration:
    """A generation for a question with a raw prompt; of one that is too long for the model, the last part is read."""
    tokenizer, text = runtime.tokenizer, question.place.before
    piece, end_ids = answer_tokens(tokenizer)
    with spans.measure("prompt"):
        prompt = encode_raw(text[-_CHARACTERS * runtime.info.context :], tokenizer)
        start, likely = list(tokenizer.start_ids), raw.likely[: _CHARACTERS * raw.max_tokens]
        ends = tuple(tokenizer.control[stop] for stop in raw.stops if stop in tokenizer.control)
        if prompt[: len(start)] == start:
            prompt = prompt[len(start) :]
        context = runtime.info.context
        room = max(context - len(start) - min(raw.max_tokens, context // 2), 1)
        asked = DecodeRequest(
            prompt=(*start, *prompt[-room:]) or tuple(sorted(tokenizer.end_ids)[:1]),
            max_tokens=raw.max_tokens,
            end_ids=end_ids,
            piece=piece,
            allow=runtime.allow,
            cut=lambda said: first_stop(said, raw.stops),
            sampler=question.request.sampler,
            document=question.uri,
            nodes=runtime.limits.nodes,
            rewrite=Rewrite(tuple(encode_raw(likely, tokenizer)), ends) if likely else None,
        )
    snapshot = replace(question.request.snapshot, text=text)
    generation = RawGeneration(runtime, latency, clock, snapshot, question.place, asked)
    generation.raw, generation.sampler = raw, asked.sampler
    generation.measured_by(spans)
    return generation


def first_stop(said: str, stops: tuple[str, ...]) -> int | None:
    """Where the first of the stops begins; None while there is none."""
    return min((at for stop in stops if stop and (at := said.find(stop)) >= 0), default=None)


class SharedModel(Generic[SomeModel]):
    """The model that all clients share, and its latency estimates. `clock` is in milliseconds."""

    def __init__(self, load: Callable[[Progress], SomeModel], progress: Progress, clock: Clock) -> None:
        self._load, self._progress, self._clock = load, progress, clock
        self._failure: tuple[Status, float] | None = None
        self._untidy = False
        self.loaded: tuple[SomeModel, LatencyEstimator] | None = None

    def get(self) -> tuple[SomeModel, LatencyEstimator]:
        """The model, loaded now if need be; FastcoderError, for the user, if that fails or failed recently."""
        if self.loaded is None:
            if self._failure is None or not of_late(self._failure[1], self._clock):
                try:
                    model = self._load(self._progress)
                except BaseException as error:  # noqa: BLE001 Rust extensions raise BaseExceptions
                    # Keep no exception: its frames hold the parts of the model that were loaded.
                    self._failure = failure(NOT_LOADED, error), self._clock()
                else:
                    self.put(model)
            if self.loaded is None:
                assert self._failure is not None
                raise FastcoderError(self._failure[0].message, self._failure[0].hint)
        return self.loaded

    def put(self, model: SomeModel) -> None:
        """Take a model that is loaded."""
        self.loaded, self._failure = (model, LatencyEstimator(model.costs, self._clock)), None

    def freeze_objects(self) -> None:
        """Exempt all current objects from garbage collection: a full one stops all threads for 150 ms."""
        gc.collect()
        gc.freeze()

    def left(self) -> None:
        """A client has freed its part; `tidy` collects its reference cycles."""
        self._untidy = self.loaded is not None

    def tidy(self) -> None:
        """Collect garbage once after a client left; called when there is no other work."""
        if self._untidy:
            self._untidy = False
            gc.unfreeze()
            self.freeze_objects()

    def prepare(self) -> bool:
        """Let the engine do a piece of deferrable work; returns False where there is none."""
        model: object = None if self.loaded is None else self.loaded[0]
        return isinstance(model, Preparing) and model.prepare()

    def measure(self) -> bool:
        """Time a step of a model beside it, while the machine is quiet; returns False where there is nothing to do."""
        model: object = None if self.loaded is None else self.loaded[0]
        return isinstance(model, Model) and model.measure()

    def replace(self, load: Callable[[Progress], SomeModel]) -> None:
        """Load another model, or with other settings, from now on; the caller has unloaded this one."""
        self._load, self._failure = load, None

    def unload(self) -> None:
        """Free the model's memory."""
        loaded, self.loaded = self.loaded, None
        if loaded is not None:
            with logged("closing the model failed"):
                loaded[0].close()
            self._untidy = False
            del loaded
            gc.unfreeze()
            gc.collect()
            trim_heap()


class ClientModel:
    """The model as one client has it, loaded by `make` when it is first needed; `failed`: why that failed."""

    def __init__(self, make: Callable[[], Loaded], on_status: Callable[[Status], None], clock: Clock) -> None:
        self._make, self._tell, self._clock = make, on_status, clock
        self._failed_ms = 0.0
        self.failed: Status | None = None
        self.loaded: Loaded | None = None

    def ready(self) -> Loaded | None:
        """The model, loaded now if need be; None where that fails (`failed` and the status say why)."""
        if self.loaded is None and not (self.failed is not None and of_late(self._failed_ms, self._clock)):
            self._tell(Status("loading", percent=0))
            try:
                self.loaded, self.failed = self._make(), None
                self._tell(Status("ready"))
            except BaseException as error:  # noqa: BLE001 Rust extensions raise BaseExceptions
                self.unload()
                self.failed, self._failed_ms = failure(NOT_LOADED, error), self._clock()
                self._tell(self.failed)
        return self.loaded

    def progress(self, share: float, what: str) -> None:
        """Report progress: the percentage, and the current stage."""
        self._tell(Status("loading", int(share * 100), what))

    def replace(self, make: Callable[[], Loaded] | None = None) -> None:
        """Load by `make` from now on; the caller has unloaded this one. None: only the shared model changes."""
        self._make, self.failed = make or self._make, None

    def awaits(self, question: Question) -> bool:
        """Whether a question waits until another model is loaded (`Loaded.awaits`)."""
        return self.loaded is not None and self.loaded.awaits(question)

    def forget(self, uri: str) -> None:
        """Close a document; a failure here must not cost an answer in another document."""
        if isinstance(self.loaded, LocalModel):
            with logged("forgetting a document failed"):
                self.loaded.runtime.forget(uri)

    def rename(self, old: str, new: str) -> None:
        """Move a document to its new name."""
        if isinstance(self.loaded, LocalModel):
            with logged("renaming a document failed"):
                self.loaded.runtime.rename(old, new)

    def unload(self) -> None:
        """Free this client's part."""
        loaded, self.loaded = self.loaded, None
        if isinstance(loaded, LocalModel):
            with logged("closing the model failed"):  # unsaved state is learnt again
                loaded.runtime.close()


def of_late(failed_ms: float, clock: Clock) -> bool:
    """Whether a failure at that time is too recent to try again."""
    # The absolute distance: a clock that was put back does not delay the next try.
    return 0 <= clock() - failed_ms < RETRY_MS


@contextmanager
def logged(what: str) -> Iterator[None]:
    """Log exceptions of the block, and go on."""
    try:
        yield
    except BaseException:  # Rust extensions raise BaseExceptions
        logger.exception(what)


def trim_heap() -> None:
    """Return the C library's free memory to the system, within some milliseconds.

    glibc keeps the memory of small blocks by thread, and another thread loads the next model: without this, every
    reload adds some 150 MB. Other C libraries return it by themselves.
    """
    if sys.platform != "linux":
        return
    try:
        trim = ctypes.CDLL(None).malloc_trim
    except (OSError, AttributeError):  # a C library other than glibc
        return
    trim.argtypes, trim.restype = (ctypes.c_size_t,), ctypes.c_int
    trim(0)
