"""The parts of the server that benchmarks use; only this module imports them.

Benchmarks import engine, drafters, decoding and prompt directly.
"""

import math
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from fastcoder_lsp.bench.model import BenchModel
from fastcoder_lsp.completion.question import place_of
from fastcoder_lsp.completion.status import Status
from fastcoder_lsp.config import SettingsLayer, resolve
from fastcoder_lsp.core import CompletionRequest
from fastcoder_lsp.core.differences import common_prefix
from fastcoder_lsp.documents import Slots
from fastcoder_lsp.edits.values import EditAnswer, EditQuestion
from fastcoder_lsp.observe import Spans
from fastcoder_lsp.prompt import Prompt
from fastcoder_lsp.runtime.context import ReadableFolder, RepositoryContext
from fastcoder_lsp.runtime.costs import measure as measure_costs
from fastcoder_lsp.runtime.edit_model import EditRuntime, load_edit_model
from fastcoder_lsp.runtime.load import load_runtime
from fastcoder_lsp.runtime.parts import ALONE, Runtime, WorkspaceView
from fastcoder_lsp.runtime.smaller_models import SmallerModelOptions, SmallerModels
from fastcoder_lsp.scheduling.budget import LatencyEstimator
from fastcoder_lsp.scheduling.edits import EditGeneration
from fastcoder_lsp.scheduling.generation import begin
from fastcoder_lsp.workspace.rules import ReadingRules

__all__ = ["FullAnswer", "LocalEdits", "SmallerModels", "Status", "measure_costs", "smaller_models"]

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
        """The text to insert at the cursor, made without a deadline."""
        return _suggest(self._runtime, request)

    def forget(self, uri: str) -> None:
        """Let the prompts of a document depend on nothing before."""
        self._runtime.prompts.forget(uri)

    def close(self) -> None:
        """Give the model's memory back."""
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
