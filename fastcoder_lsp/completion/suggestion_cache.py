"""The suggestion cache: recent suggestions, what is shown of them, and what became of them.

Owns the answers that cost nothing: the rest of a suggestion that is typed along, and that a suggestion would be in the
way. It says, too, where more is known by now than is shown. Whoever calls holds the service's lock.
"""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, replace

from fastcoder_lsp.completion.question import Question, answering
from fastcoder_lsp.completion.suggestions import (
    CachedSuffix,
    Rejections,
    Rule,
    Suggestion,
    SuggestionMemory,
    in_word,
)
from fastcoder_lsp.core import Completion, Late
from fastcoder_lsp.observe import Spans
from fastcoder_lsp.workspace.secret_lines import in_secret

_WORKS = 8
"""Suggestions of which it is known how they came about: each of their steps holds a tree."""


@dataclass(frozen=True, slots=True)
class ShownAnswer:
    """A question and the text that its answer showed behind the cursor, "" for none.

    The client is told when there is more, text where nothing was shown or text that goes on where a beginning was, and
    in a pause, when the model says something else by a better prompt. A shown text is never withdrawn by that.
    """

    question: Question
    text: str = ""

    def changes_to(self, text: str) -> bool:
        """Whether `text` is more, or something else."""
        return not self.text.startswith(text)


class SuggestionCache:
    """Recent suggestions, and the one that is shown now."""

    def __init__(self) -> None:
        self._memory, self._rejections = SuggestionMemory(), Rejections()
        self._explained: deque[tuple[str, Suggestion]] = deque(maxlen=_WORKS)
        """The latest suggestions with their work, the newest first."""
        self._shown: ShownAnswer | None = None
        """The last question, once it is answered, and with what; None where nothing more is wanted for it."""

    def in_the_way(self, question: Question) -> Rule | None:
        """The rule by which nothing is to be suggested, if there is one. Who asks by a key gets all but secrets.

        That holds for the next question at the same place too: a client asks as if typed for what it is told of.
        """
        request, place, policy = question.request, question.place, question.policy
        if not policy.in_secrets and in_secret(place.before, request.snapshot.language):
            return "secret"
        last = self._shown.question if self._shown is not None else None
        if request.invoked or (last is not None and last.request.invoked and last.is_at(question)):
            self._rejections.taken()
            return None
        self._rejections.asked(question.uri, place, question.asked_ms)
        if not policy.in_words and request.selected is None and in_word(place):
            return "middle_of_word"
        return "rejections" if self._rejections.too_many(question.uri, place, policy.rejections) else None

    def recall(self, question: Question) -> tuple[CachedSuffix, ...]:
        """Cached suggestions that continue at the question's place; empty where the model is to be asked.

        Who asks by a key is not answered with one candidate alone where others were not looked for: editors take such
        an answer for all there is, and their keys for the next one do nothing from then on.
        """
        uri, place = question.uri, question.place
        if question.candidates > 1:
            return self._memory.recall_all(uri, place)
        recalled = self._memory.recall(uri, place)
        return () if recalled is None else (recalled,)

    def held_back(self, question: Question, recalled: Sequence[CachedSuffix]) -> bool:
        """Whether nothing is shown of what is recalled: the model was unsure, and no key asks."""
        return not question.request.invoked and recalled[0].unsure

    def completion(self, question: Question, recalled: Sequence[CachedSuffix]) -> Completion:
        """The answer to the question with that, and how it came about, as far as that is still known."""
        ms = Spans.since(question.opened_s).close()
        completion = answering(question.request, recalled, "typed-through", ms)
        for uri, suggestion in self._explained:
            if uri == question.uri and suggestion.work is not None and suggestion.rest(question.place) is not None:
                work = suggestion.work
                return replace(completion, counts=work.counts, trace=work.trace, context=work.context)
        return completion

    def holds(self, question: Question) -> bool:
        """Whether anything is known to go on at the question's place."""
        return self._memory.recall(question.uri, question.place) is not None

    def shows(self, question: Question, completion: Completion) -> None:
        """This is shown now, where it is anything."""
        # The popup's selected entry, which the text begins with, belongs to the place already.
        selected = question.request.selected
        head = selected.text if selected is not None else ""
        self._shown = ShownAnswer(question, completion.text.removeprefix(head))
        if completion.text and not question.request.invoked and selected is None:
            self._rejections.shown(question.uri, question.place, completion.text)

    def awaited(self, question: Question) -> None:
        """Nothing is shown, and somebody waits for a late suggestion."""
        self._shown = ShownAnswer(question)

    def shows_nothing(self, uri: str | None = None) -> None:
        """Nobody waits for more at the last place, where that is in the document; None: wherever it is."""
        if self._shown is not None and uri in {None, self._shown.question.uri}:
            self._shown = None

    def taken(self) -> None:
        """A suggestion was taken whole."""
        self._rejections.taken()

    def remember(self, uri: str, suggestion: Suggestion, *, instead: bool) -> None:
        """Remember a suggestion that was made; `instead`: it takes the place of any other for its place."""
        if suggestion.work is not None and suggestion.text:
            self._explained.appendleft((uri, suggestion))
        self._memory.remember(uri, replace(suggestion, work=None), instead=instead)

    def late(self, uri: str, made: Suggestion) -> Late | None:
        """The place of the last question, if `made` tells more than its answer showed, or why it showed nothing."""
        shown = self._shown
        if shown is None:
            return None
        request, place = shown.question.request, shown.question.place
        late = Late(request.snapshot.uri, request.snapshot.version, request.offset, made.reason)
        if made.reason is not None:
            return late if not shown.text and (uri, made.place) == (shown.question.uri, place) else None
        known = self._memory.recall(shown.question.uri, place)
        if known is None or self.held_back(shown.question, (known,)) or not shown.changes_to(known.text):
            return None
        self._shown = replace(shown, text=known.text)
        return late

    def forget(self, uri: str | None) -> None:
        """What was made for a document holds no more; None: for any."""
        for explained in tuple(self._explained):
            if uri in {None, explained[0]}:
                self._explained.remove(explained)
        if uri is None:
            self._memory.clear()
        else:
            self._memory.forget(uri)

    def rename(self, old: str, new: str) -> None:
        """A document has another name."""
        self._memory.rename(old, new)
        self.shows_nothing(old)
