"""A client's newest question for an edit, and the answer that the edit model generates.

One piece of work at a time, so that any completion comes first. The prompt's KV cache survives the question: the next
one computes only what follows the first difference. Runs in the scheduler's thread.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from fastcoder_lsp.completion import reasons
from fastcoder_lsp.completion.open_questions import OpenQuestions
from fastcoder_lsp.completion.protocol import Answered, EditModelChanged, HostListener
from fastcoder_lsp.completion.question import Clock
from fastcoder_lsp.completion.status import Status, failure
from fastcoder_lsp.core import Change, Extra, Pieces, Reason, Rewrite, Snapshot
from fastcoder_lsp.core.bounded import number_of_line
from fastcoder_lsp.decode.loop import DecodeRequest
from fastcoder_lsp.documents import LatestDocuments
from fastcoder_lsp.edits.formats import EditPrompt, answer_tokens, encode_raw
from fastcoder_lsp.edits.gate import rewrite_probability
from fastcoder_lsp.edits.minimal import minimal
from fastcoder_lsp.edits.prompts import tokens_of
from fastcoder_lsp.edits.values import EditAnswer, EditQuestion
from fastcoder_lsp.observe import Spans
from fastcoder_lsp.prompt import PromptContext, allowed
from fastcoder_lsp.prompt.context import Context
from fastcoder_lsp.runtime.edit_model import MOST_ROWS, EditModel, EditRuntime
from fastcoder_lsp.runtime.parts import Runtime
from fastcoder_lsp.scheduling.budget import LatencyEstimator, slice_of
from fastcoder_lsp.scheduling.generation import PacedDecoding
from fastcoder_lsp.scheduling.model import Loaded, LocalModel, first_stop, logged
from fastcoder_lsp.workspace.paths import path_of

LOADING_MS: Final = 100.0  # time between two looks at whether the edit model is loaded
_SAME_PLACE: Final = 30  # lines that the cursor may move before code of other files is searched for again
_DOCUMENTS: Final = 16
_LEAST_PROMPT: Final = 128  # tokens of a prompt; in fewer there is hardly a window
_CHANGES: Final = 6  # latest changes that the answer may repeat
_LONGER, _MORE_TOKENS = 2, 64
"""Bound on an answer: so many times the old text's tokens, and so many more. A longer one is a loop of the model."""


class EditRequest:
    """The work for the newest question for an edit of a client (`questions.edit`). `clock` is in milliseconds."""

    def __init__(self, questions: OpenQuestions, emit: HostListener, clock: Clock) -> None:
        self._questions, self._emit, self._clock = questions, emit, clock
        self._generation: EditGeneration | None = None
        self._runtime: EditRuntime | None = None
        self._latency: tuple[EditModel, LatencyEstimator] | None = None
        self._other_code = OtherCode()
        self._searching: tuple[EditQuestion, Spans, Pieces[tuple[Extra, ...]]] | None = None
        """A question, its times, and the search under way for its code of other files."""
        self._loading: Status | None = None  # the progress of the model's loading that was told last

    @property
    def wants_turn(self) -> bool:
        """Whether a question is open, or the end of the model's loading has yet to be told."""
        return self.question is not None or self._loading is not None

    @property
    def question(self) -> EditQuestion | None:
        """The open question."""
        return self._questions.edit

    def serve(self, loaded: Loaded | None, failed: Status | None, *, enabled: bool) -> float:
        """Do one piece of work for the question, or answer it; returns 0, or how many milliseconds to wait.

        Without a model (`loaded` is None) `failed` says why. `enabled`: the client wants one.
        """
        if isinstance(loaded, LocalModel):
            return self._work(loaded.runtime)
        self._tell(None)
        if self.question is not None and (not enabled or failed is not None):
            self.answer(EditAnswer(reason=reasons.failed(failed) if enabled and failed is not None else reasons.off()))
        return 0.0  # it was replaced while it loaded; the next turn loads the new one

    def _work(self, code: Runtime) -> float:
        try:
            if self._generation is None or self._generation.question is not self.question:
                self._generation = None
                return self._begin(code.edit_model(), code.context)
            self._generation.do_piece()
            if self._generation.finished:
                self.answer(self._generation.answer())
        except BaseException as error:  # noqa: BLE001 Rust extensions raise BaseExceptions; completions go on
            status = failure("Suggesting an edit failed", error)
            self._tell(status)
            if self.question is not None:
                self.answer(EditAnswer(reason=reasons.failed(status)))
        return 0.0

    def answer(self, answer: EditAnswer) -> None:
        """Answer the open question."""
        question = self.question
        assert question is not None, "there is a question"
        self._questions.edit = self._generation = None
        self._emit(Answered(question.number, answer))

    def forget(self, uri: str) -> None:
        """Close a document: drop its question, and in time its KV cache."""
        if self.question is not None and self.question.uri == uri:
            self.answer(EditAnswer(reason=reasons.changed()))
        if self._runtime is not None:
            self._runtime.slots.forget(uri)
        self._other_code.forget(uri)

    def rename(self, old: str, new: str) -> None:
        """Rename a document and its KV cache."""
        if self._runtime is not None:
            self._runtime.slots.rename(old, new)
        self._other_code.forget(old)

    def unload(self) -> None:
        """The model is unloaded: an open question waits for the next one."""
        self._generation = self._runtime = self._latency = self._searching = None
        self._tell(None)

    def _tell(self, status: Status | None) -> None:
        """Tell how far the model's loading is, or how it ended: None where it is not wanted any more."""
        before, self._loading = self._loading, status if status is not None and status.state == "loading" else None
        if before != self._loading:
            with logged("a listener failed"):
                self._emit(EditModelChanged(status or Status("starting")))

    def _begin(self, runtime: EditRuntime | Reason | Status, context: Context) -> float:
        question = self.question
        if isinstance(runtime, Status):
            self._tell(runtime)
            return LOADING_MS
        if isinstance(runtime, Reason):
            self._tell(Status("error", message=runtime.text, hint=runtime.hint))
            if question is not None:
                self.answer(EditAnswer(reason=runtime))
            return 0.0
        self._tell(Status("ready"))
        if question is None:  # withdrawn while the model loaded
            return 0.0
        self._runtime = runtime
        if self._latency is None or self._latency[0] is not runtime.model:
            self._latency = runtime.model, LatencyEstimator(runtime.model.costs, self._clock)
        if self._searching is None or self._searching[0] is not question:
            self._searching = question, Spans(), self._other_code.files(question, context, runtime.files_tokens)
        _, spans, search = self._searching
        with spans.measure("prompt"):
            if (files := slice_of(search, self._clock)) is None:
                return 0.0
            self._searching = None
            prompt, tokens = _prompt_for(question, runtime.model, files.result)
        if prompt is None:
            self.answer(EditAnswer(reason=reasons.no_edit_here()))
        else:
            self._generation = EditGeneration(runtime, self._latency[1], self._clock, question, prompt, tokens, spans)
        return 0.0


class OtherCode:
    """Code of other files before the prompts of edits; kept at one place: a change costs a whole prefill."""

    def __init__(self) -> None:
        self._shown: LatestDocuments[_ShownCode] = LatestDocuments(_DOCUMENTS)

    def files(self, question: EditQuestion, context: Context, tokens: int) -> Pieces[tuple[Extra, ...]]:
        """Pieces that have at most so many tokens together, the most relevant last."""
        path = path_of(question.uri)
        if not tokens or path is None:
            return ()
        snapshot = Snapshot(question.uri, str(path), question.language, question.version, question.text)
        context.observe(snapshot)
        line = number_of_line(question.text, question.offset)
        elsewhere = next((one for one in reversed(question.history) if one.path != question.path), None)
        shown = self._shown.get(question.uri)
        if shown is not None and (shown.elsewhere != elsewhere or not context.may_show(shown.sources)):
            shown = None
        if shown is None or abs(shown.line - line) > _SAME_PLACE:
            kept = shown.found if shown is not None else None
            found = yield from context.find(snapshot, question.offset, (0, len(question.text)), kept)
            shown = _ShownCode(found, line, elsewhere)
            if not context.may_show(shown.sources):  # the rules changed during the search
                return ()
        self._shown.put(question.uri, shown)
        files = list[Extra]()
        for piece in sorted(shown.found.snippets, key=lambda piece: -piece.score):
            if piece.source and (size := tokens_of(piece.text)) <= tokens:
                files.append(Extra(piece.path, piece.text))
                tokens -= size
        return tuple(reversed(files))

    def forget(self, uri: str) -> None:
        """The document was closed."""
        self._shown.forget(uri)


@dataclass(frozen=True, slots=True)
class _ShownCode:
    """Code of other files, the cursor's line when it was found, and the last change of another file before that."""

    found: PromptContext
    line: int
    elsewhere: Change | None

    @property
    def sources(self) -> set[str]:
        return {piece.source for piece in self.found.snippets if piece.source}


def _prompt_for(
    question: EditQuestion, model: EditModel, files: Sequence[Extra]
) -> tuple[EditPrompt | None, tuple[int, ...]]:
    """The prompt for a question, and its ids; None where there is none that leaves room for an answer.

    Limits are estimates by bytes: a text of more tokens is asked about with less around it.
    """
    limits, room = model.limits(), model.engines.info.context * 3 // 4
    while limits.prompt_tokens >= _LEAST_PROMPT:
        prompt = model.format.prompt(question, limits, files)
        tokens = () if prompt is None else tuple(prompt.encode(model.tokenizer))
        if len(tokens) <= room:
            return prompt, tokens
        limits = replace(limits, prompt_tokens=limits.prompt_tokens // 2)
    return None, ()


class EditGeneration(PacedDecoding):
    """The answer to a question for an edit, as far as it is generated; `spans` receives the times."""

    def __init__(
        self,
        runtime: EditRuntime,
        latency: LatencyEstimator,
        clock: Clock,
        question: EditQuestion,
        prompt: EditPrompt,
        tokens: Sequence[int],
        spans: Spans,
    ) -> None:
        model = runtime.model
        self._model, self.question, self._prompt = model, question, prompt
        tokenizer = model.tokenizer
        piece, end_ids = answer_tokens(tokenizer)
        ends = tuple(tokenizer.control[stop] for stop in prompt.stops if stop in tokenizer.control)
        encoded = ((tokenizer.encode(one.old), tokenizer.encode(one.new)) for one in question.history[-_CHANGES:])
        changes = tuple((tuple(old), tuple(new)) for old, new in encoded)
        self._old = tuple(encode_raw(prompt.old, tokenizer))
        nodes = min(MOST_ROWS, model.engines.info.max_nodes)
        room = model.engines.info.context - len(tokens) - nodes
        request = DecodeRequest(
            prompt=tuple(tokens),
            max_tokens=min(prompt.max_tokens, _LONGER * len(self._old) + _MORE_TOKENS, room),
            end_ids=end_ids,
            piece=piece,
            allow=lambda remaining: allowed(tokenizer, remaining),
            cut=lambda text: first_stop(text, prompt.stops),
            document=question.uri,
            nodes=nodes,
            weighed=True,
            rewrite=Rewrite(self._old, ends, changes),
        )
        super().__init__(runtime.slots.of(question.uri), runtime.drafter, request, latency, clock)
        self.measured_by(spans)

    @property
    def finished(self) -> bool:
        """Whether the work is done."""
        return bool(self._decoding.finish)

    def do_piece(self) -> None:
        """Prefill a stretch of the prompt, or do a step, short enough for a newer request to wait for."""
        self.work(self.latency.chunk_ms(), in_any_case=True)

    def answer(self) -> EditAnswer:
        """The edits that the whole answer makes, or why there is none."""
        decoded, question, prompt = self._decoding.result(), self.question, self._prompt
        with self._decoding.spans.measure("post"):
            complete = decoded.finish in {"stop", "eos"}
            new = self._model.format.read(prompt, decoded.text, complete=complete)
            start, end = prompt.region_start, prompt.region_end
            edits = () if new is None else minimal(question.text, start, end, new)
            likely = self._decoding.certainty().log_probabilities() or (0.0,) * len(decoded.tokens)
            probability = rewrite_probability(self._old, decoded.tokens, likely) if edits else 1.0
        return EditAnswer(
            edits=edits,
            probability=probability,
            source=self._model.engines.info.model,
            reason=None if edits else reasons.no_edit(),
            cut=not complete,
            counts=decoded.counts,
            ms=self._decoding.spans.close(),
        )
