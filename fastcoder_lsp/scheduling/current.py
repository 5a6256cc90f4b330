"""A client's generation: where it is begun, counted, published and dropped; its texts become drafts."""

from dataclasses import replace

from fastcoder_lsp.completion import protocol
from fastcoder_lsp.completion.open_questions import OpenQuestions
from fastcoder_lsp.completion.question import Clock, Question
from fastcoder_lsp.completion.suggestions import OutdatedSuggestions, Suggestion
from fastcoder_lsp.observe import Spans
from fastcoder_lsp.scheduling.cpu import CpuByCause
from fastcoder_lsp.scheduling.generation import Generation
from fastcoder_lsp.scheduling.model import ClientModel


class CurrentGeneration:
    """The generation that a client works on, if any. `clock` is in milliseconds."""

    def __init__(self, model: ClientModel, questions: OpenQuestions, emit: protocol.HostListener, clock: Clock) -> None:
        self.emit, self._model, self._questions, self._clock = emit, model, questions, clock
        self.generation: Generation | None = None
        self._outdated = OutdatedSuggestions()
        self.cpu = CpuByCause()

    def serving(self, question: Question) -> Generation | None:
        """The generation, if it serves `question` too."""
        generation = self.generation
        return generation if generation and generation.serves(question) and generation.allowed else None

    def begin(
        self, question: Question, asked_ms: float, spans: Spans, *, ahead: bool = False, whole: bool = False
    ) -> None:
        """Begin a generation for `question`; the old one's text becomes a draft. `whole`: with the whole prompt."""
        self.give_up()
        loaded = self._model.loaded
        assert loaded is not None, "the model is loaded"
        expected = self._outdated.expected(question.uri, question.place)
        self.generation = loaded.begin(question, expected, spans, self._clock, whole=whole)
        self.generation.begun_ms, self.generation.ahead = asked_ms, ahead

    def made(self, suggestion: Suggestion) -> None:
        """Publish a suggestion of the generation, unless it answers its question alone."""
        generation, unserved = self.generation, self._questions.unserved
        assert generation is not None, "a generation makes suggestions"
        if generation.alone:
            return
        uri = generation.snapshot.uri
        self._keep_outdated(uri, suggestion)
        # A server's text is published as it grows, to a client that waits.
        if not generation.waits and unserved is not None and unserved.uri == uri:
            self._questions.unserved = unserved if suggestion.rest(unserved.place) is None else None
        self.emit(protocol.Made(uri, suggestion))

    def count(self) -> None:
        """Publish the generation's work since the last report."""
        if (generation := self.generation) is not None:
            counts = generation.counts()
            self.emit(protocol.Worked(counts - generation.reported, self.cpu.take()))
            generation.reported = counts

    def give_up(self) -> None:
        """Drop the generation; its text becomes a draft."""
        if (generation := self.generation) is not None:
            self.count()
            self._keep_outdated(generation.snapshot.uri, Suggestion(generation.place, generation.said()))
        self.drop()

    def drop(self) -> None:
        """Drop the generation, whose text is of no use."""
        generation, self.generation = self.generation, None
        if generation is not None:
            generation.close()

    def give_up_of(self, uri: str) -> None:
        """Drop the generation of a document."""
        if self.generation is not None and self.generation.snapshot.uri == uri:
            self.give_up()

    def _keep_outdated(self, uri: str, suggestion: Suggestion) -> None:
        if suggestion.text:
            self._outdated.keep(uri, replace(suggestion, work=None))

    def forget(self, uri: str) -> None:
        """Drop the state of a document."""
        self.give_up_of(uri)
        self._outdated.forget(uri)

    def rename(self, old: str, new: str) -> None:
        """Move the outdated texts of a document; its generation is gone."""
        self.give_up_of(old)
        self._outdated.rename(old, new)

    def clear(self) -> None:
        """Drop everything: the model changes."""
        self.drop()
        self._outdated.clear()
