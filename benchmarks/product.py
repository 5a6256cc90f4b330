"""The parts of the server that benchmarks use; only this module imports them.

Benchmarks import engine, drafters, decoding and prompt directly.
"""

import itertools
import math
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from fastcoder_lsp.bench.model import BenchModel, find_model
from fastcoder_lsp.completion.protocol import Answered, AskEdit, Command, EditAnswered, Event
from fastcoder_lsp.completion.question import place_of
from fastcoder_lsp.completion.status import Status
from fastcoder_lsp.config import Settings, SettingsLayer, resolve
from fastcoder_lsp.core import CompletionRequest, Engines, Progress
from fastcoder_lsp.core.differences import common_prefix
from fastcoder_lsp.documents import Slots
from fastcoder_lsp.edits.formats import MODEL_NAMES, EditFormat
from fastcoder_lsp.edits.values import EditAnswer, EditQuestion
from fastcoder_lsp.host.local import open_alone
from fastcoder_lsp.observe import Spans
from fastcoder_lsp.prompt import Prompt
from fastcoder_lsp.runtime.context import ReadableFolder, RepositoryContext
from fastcoder_lsp.runtime.costs import measure as measure_costs
from fastcoder_lsp.runtime.edit_model import EditModel, EditModels, EditRuntime, load_edit_model
from fastcoder_lsp.runtime.load import load_model, load_runtime, make_runtime
from fastcoder_lsp.runtime.parts import ALONE, Model, Runtime, WorkspaceView
from fastcoder_lsp.runtime.smaller_models import SmallerModelOptions, SmallerModels
from fastcoder_lsp.scheduling.budget import LatencyEstimator
from fastcoder_lsp.scheduling.edits import EditGeneration
from fastcoder_lsp.scheduling.generation import begin
from fastcoder_lsp.workspace.document import OpenTexts
from fastcoder_lsp.workspace.rules import ReadingRules

__all__ = ["EditHost", "FullAnswer", "LocalEdits", "SmallerModels", "Status", "measure_costs", "smaller_models"]

INDEXING_S = 600.0
"""A question waits so long for the folder to be looked through."""
_MEMORY_MB = 1 << 20


class FullAnswer:
    """The server's own answer to a request, however long it takes: its prompt, its decoding, its post-processing.

    Args:
        settings: of the server, as an editor would send them.
        root: the workspace folder, where its other files belong to what the settings ask for.
        open_texts: path → unsaved text of the documents that are open in it.

    Attributes:
        computed: tokens of prompts that were asked for and that the last prompt of their document did not begin with.

    Raises:
        FastcoderError: the model is missing, damaged, or does not fit this machine.
    """

    def __init__(
        self,
        settings: Mapping[str, Any],
        root: Path | None = None,
        open_texts: Callable[[], Mapping[Path, str]] = dict,
    ) -> None:
        resolved, _ = resolve([SettingsLayer("bench", dict(settings), trusted=True)])
        around = ALONE
        if root is not None and resolved.context_enabled:
            folder = ReadableFolder(root, ReadingRules((root,), resolved))
            around = WorkspaceView(context=RepositoryContext(lambda _path: folder, open_texts, INDEXING_S))
        self._runtime = load_runtime(resolved, lambda _share, _what: None, around)
        self.engine_name = self._runtime.info.name
        self.max_tokens = self._runtime.limits.max_tokens
        self.computed = 0
        self._asked: dict[str, tuple[int, ...]] = {}

    def prompt(self, request: CompletionRequest) -> Prompt:
        """The prompt of a request, which depends on the earlier requests for the same document."""
        prompt, uri = self._runtime.prompts.build(request.snapshot, request.offset), request.snapshot.uri
        self.computed += len(prompt.tokens) - common_prefix(self._asked.get(uri, ()), prompt.tokens)
        self._asked[uri] = prompt.tokens
        return prompt

    def text(self, request: CompletionRequest) -> str:
        return _suggest(self._runtime, request)

    def forget(self, uri: str) -> None:
        """Let the prompts of a document depend on nothing before."""
        self._runtime.prompts.forget(uri)

    def close(self) -> None:
        self._runtime.close()


def _suggest(runtime: Runtime, request: CompletionRequest) -> str:
    """The text to insert at the cursor; "" if none is worth showing."""
    place = place_of(request)
    estimator = LatencyEstimator(runtime.costs, _milliseconds)
    generation = begin(runtime, estimator, _milliseconds, request, place, (), Spans())
    while not generation.finished:
        generation.work(math.inf)
    rest = generation.made().rest(place)
    return rest.text if rest is not None else ""


def _milliseconds() -> float:
    return time.monotonic() * 1e3


def smaller_models(names: Sequence[str], model: BenchModel, kind: str, context: int) -> SmallerModels:
    """Smaller models that draft for `model`, loaded when a drafter first asks for them.

    Args:
        names: as the setting `draft.models`.
        model: the model that verifies.
        kind: of their engines, as the setting `engine`.
        context: tokens that each holds.
    """
    lending = SmallerModelOptions(tuple(names), kind, context, None, _MEMORY_MB, model.cache)
    return SmallerModels(lending, model.tokenizer, lambda _share, _what: None)


class LocalEdits:
    """A local edit model, asked as the server asks it; nothing else runs.

    Attributes:
        ms: milliseconds of each answer.
    """

    def __init__(self, runtime: EditRuntime) -> None:
        self._runtime, self.ms = runtime, list[float]()
        self._latency = LatencyEstimator(runtime.model.costs, _milliseconds)

    @classmethod
    def load(cls, name: str) -> "LocalEdits":
        """The model that `edits.model` would name.

        Raises:
            FastcoderError: it is missing, damaged, or no known edit model.
        """
        settings, _ = resolve([SettingsLayer("bench", {"edits.model": name}, trusted=True)])
        model = load_edit_model(settings, threading.Event())
        return cls(EditRuntime(model, Slots(model.engines, "bench"), model.make_drafter()))

    def answer(self, question: EditQuestion) -> EditAnswer:
        """The answer to a question; without edits where the model cannot be asked."""
        model, started, spans = self._runtime.model, _milliseconds(), Spans()
        prompt = model.format.prompt(question, model.limits())
        tokens = () if prompt is None else tuple(prompt.encode(model.tokenizer))
        if prompt is None or len(tokens) > model.engines.info.context // 2:
            return EditAnswer()
        generation = EditGeneration(self._runtime, self._latency, _milliseconds, question, prompt, tokens, spans)
        while not generation.finished:
            generation.work()
        self.ms.append(_milliseconds() - started)
        return generation.answer()


class AskedHost:
    """The server's host in this process, whose answers are waited for."""

    def __init__(self, settings: Settings, load: Callable[[Settings, Progress], Model] = load_model) -> None:
        self._answers: dict[int, tuple[Event, float]] = {}
        self._news, self._numbers = threading.Condition(), itertools.count(1)
        self._host = open_alone(load, make_runtime, self._hear, settings, {}, OpenTexts())

    def send(self, make: Callable[[int], Command], wait_s: float | None = None) -> tuple[Any, float] | None:
        """Send what `make` makes of a number; the answer of that number and when it came, or None after `wait_s`."""
        number = next(self._numbers)
        self._host.send(make(number))
        with self._news:
            self._news.wait_for(lambda: number in self._answers, wait_s)
            return self._answers.pop(number, None)

    def close(self) -> None:
        """Free the models."""
        self._host.close(30)

    def _hear(self, event: Event) -> None:
        if isinstance(event, Answered | EditAnswered):
            with self._news:
                self._answers[event.number] = event, time.monotonic()
                self._news.notify_all()


class EditHost(AskedHost):
    """The server's host, with the weights of a model as an edit model of some format.

    Args:
        model: as the setting `model`; it answers completions, too.
        place: an empty folder.
        form: the edit model's format.
        wrap: what asks the edit model's engines.

    Raises:
        FastcoderError: the model is missing or damaged.
    """

    def __init__(self, model: str, place: Path, form: EditFormat, wrap: Callable[[Engines], Engines]) -> None:
        link = place / f"{MODEL_NAMES[0]}-in-shape"  # the name says that it is an edit model
        found = find_model(model)
        link.symlink_to(found.files.folder, target_is_directory=True)
        self._form, self._wrap, self.tokenizer = form, wrap, found.tokenizer
        settings, _ = resolve([SettingsLayer("bench", {"model": model, "edits.model": str(link)}, trusted=True)])
        super().__init__(settings, self._load)

    def ask(self, question: EditQuestion) -> EditAnswer:
        answered = self.send(lambda number: AskEdit(replace(question, number=number)))
        assert answered is not None, "it waits"
        answer: EditAnswer = answered[0].answer
        return answer

    def _load(self, settings: Settings, progress: Progress) -> Model:
        return replace(load_model(settings, progress), edits=EditModels(self._load_edits))

    def _load_edits(self, settings: Settings, stopped: threading.Event, progress: Progress) -> EditModel:
        model = load_edit_model(settings, stopped, progress)
        return replace(model, engines=self._wrap(model.engines), format=self._form)
