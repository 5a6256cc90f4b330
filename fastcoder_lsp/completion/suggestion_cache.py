"""The suggestion cache: recent suggestions, how much of them is shown, and whether the user took them.

It answers without the model: with the rest of a suggestion that is typed along, or with the rule that suppresses a
suggestion. It also tells when more is known than is shown. Callers hold the service's lock.
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
"""How many suggestions keep their `work`, whose steps each hold a tree."""


@dataclass(frozen=True, slots=True)
class ShownAnswer:
    """A question and the text that its answer showed behind the cursor, "" for none.

    The client is told of a late text where nothing was shown, of a continuation where a beginning was shown, and in a
    pause of another text by a better prompt. None of these withdraws a shown text.
    """

    question: Question
    text: str = ""

    def changes_to(self, text: str) -> bool:
        """Whether `text` continues the shown text, or replaces it."""
        return not self.text.startswith(text)


class SuggestionCache:
    """Recent suggestions, and the one on screen."""

    def __init__(self) -> None:
        self._memory, self._rejections = SuggestionMemory(), Rejections()
        self._explained: deque[tuple[str, Suggestion]] = deque(maxlen=_WORKS)
        """The latest suggestions with their work, the newest first."""
        self._shown: ShownAnswer | None = None
        """The last answered question with its shown text; None where its client wants no late text."""

    def in_the_way(self, question: Question) -> Rule | None:
        """The rule that suppresses suggestions at the question's place. A request by key is denied only secrets.

        The same holds for the next question at that place: a client that learns of a late text asks for it as if by
        typing.
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
        """Cached suggestions that continue at the question's place; empty where the model must be asked.

        A request by key needs alternatives: without them it goes to the model, even if one candidate is cached. Editors
        take the first answer for the whole list, and their keys for the next candidate do nothing from then on.
        """
        uri, place = question.uri, question.place
        if question.candidates > 1:
            return self._memory.recall_all(uri, place)
        recalled = self._memory.recall(uri, place)
        return () if recalled is None else (recalled,)

    def fallback(self, question: Question) -> tuple[CachedSuffix, ...]:
        """As `recall`, or one candidate alone: better than nothing where the model had no time for a better text."""
        recalled = self._memory.recall(question.uri, question.place)
        return self.recall(question) or (() if recalled is None else (recalled,))

    def held_back(self, question: Question, recalled: Sequence[CachedSuffix]) -> bool:
        """Whether to hide the recalled text: the model was unsure of it, and the request is not by key."""
        return not question.request.invoked and recalled[0].unsure

    def completion(self, question: Question, recalled: Sequence[CachedSuffix]) -> Completion:
        """The answer to the question with these candidates, and their work, if it is still stored."""
        ms = Spans.since(question.opened_s).close()
        completion = answering(question.request, recalled, "typed-through", ms)
        for uri, suggestion in self._explained:
            if uri == question.uri and suggestion.work is not None and suggestion.rest(question.place) is not None:
                work = suggestion.work
                return replace(completion, counts=work.counts, trace=work.trace, context=work.context)
        return completion

    def holds(self, question: Question) -> bool:
        """Whether a cached suggestion continues at the question's place."""
        return self._memory.recall(question.uri, question.place) is not None

    def asks_again(self, question: Question) -> bool:
        """Whether a key asks for more where an interim text is shown, so that only a better one answers."""
        shown, known = self._shown, self._memory.recall(question.uri, question.place)
        visible = shown is not None and bool(shown.text) and shown.question.is_at(question)
        return question.request.invoked and visible and known is not None and known.interim

    def shows(self, question: Question, completion: Completion) -> None:
        """Record the shown text, if it is not empty."""
        # The popup's selected entry, which the text begins with, belongs to the place already.
        selected = question.request.selected
        head = selected.text if selected is not None else ""
        self._shown = ShownAnswer(question, completion.text.removeprefix(head))
        if completion.text and not question.request.invoked and selected is None:
            self._rejections.shown(question.uri, question.place, completion.text)

    def awaited(self, question: Question) -> None:
        """Record that nothing is shown, and that the client waits for a late suggestion."""
        self._shown = ShownAnswer(question)

    def shows_nothing(self, uri: str | None = None) -> None:
        """Stop late texts for the last place if it is in the document; None: in any document."""
        if self._shown is not None and uri in {None, self._shown.question.uri}:
            self._shown = None

    def taken(self) -> None:
        """Record that a suggestion was accepted whole."""
        self._rejections.taken()

    def remember(self, uri: str, suggestion: Suggestion, *, instead: bool) -> None:
        """Remember a suggestion; `instead`: it replaces any other for its place."""
        if suggestion.work is not None and suggestion.text:
            self._explained.appendleft((uri, suggestion))
        self._memory.remember(uri, replace(suggestion, work=None), instead=instead)

    def late(self, uri: str, made: Suggestion) -> Late | None:
        """The place of the last question, if `made` says more than its answer did: a text, or why there is none."""
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
        """Drop the suggestions for a document; None: for all."""
        for explained in tuple(self._explained):
            if uri in {None, explained[0]}:
                self._explained.remove(explained)
        if uri is None:
            self._memory.clear()
        else:
            self._memory.forget(uri)

    def rename(self, old: str, new: str) -> None:
        """Move a document's suggestions to its new name."""
        self._memory.rename(old, new)
        self.shows_nothing(old)
