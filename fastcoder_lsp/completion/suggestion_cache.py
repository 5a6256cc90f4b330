"""The suggestion cache: recent suggestions, how much of them is shown, and whether the user took them.

It answers without the model: with the rest of a suggestion that is typed along, or with the rule that suppresses one.
Callers hold the service's lock.
"""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, replace

from msgspec import structs

from fastcoder_lsp.completion import reasons
from fastcoder_lsp.completion.question import Answer, Question, Quiet, answering
from fastcoder_lsp.completion.suggestions import CachedSuffix, Rejections, Rule, Suggestion, SuggestionMemory, in_word
from fastcoder_lsp.core import Completion, Late, Reason
from fastcoder_lsp.observe import Spans
from fastcoder_lsp.syntax import Regions
from fastcoder_lsp.workspace.typed_secrets import types_secret

_NO_RULES = (Quiet(), Quiet(also_by_key=True))
_WORKS = 8  # how many suggestions keep their `work`, whose steps each hold a tree


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

    def is_continued_by(self, question: Question) -> bool:
        """Whether the question is asked while the user types along the shown text, of which some is left."""
        before, place = question.place.before, self.question.place
        if question.uri != self.question.uri or not before.startswith(place.before):
            return False
        typed = before[len(place.before) :]
        return len(typed) < len(self.text) and self.text.startswith(typed)


class SuggestionCache:
    """Recent suggestions, and the one on screen."""

    def __init__(self) -> None:
        self._memory, self._rejections = SuggestionMemory(), Rejections()
        self._explained: deque[tuple[str, Suggestion]] = deque(maxlen=_WORKS)
        """The latest suggestions with their work, the newest first."""
        self._regions = Regions()
        self._shown: ShownAnswer | None = None
        """The last answered question with its shown text; None where its client wants no late text."""

    def with_relaxed_rules(self, question: Question) -> Question:
        """The question with only those rules that hold for it: few by key, and none that hide a shown suggestion."""
        shown, quiet = self._shown, question.policy.quiet
        if quiet in _NO_RULES:
            return question
        if self._is_by_key(question):
            quiet = quiet.for_key()
        elif shown is not None and shown.is_continued_by(question):
            before = shown.question.policy.quiet
            quiet = Quiet(lines=before.lines, show=quiet.show, begun=True, rested=before.rested)
        elif shown is not None and shown.question.is_at(question):
            quiet = replace(quiet, rested=shown.question.policy.quiet.rested)
        return question.under(quiet)

    def _is_by_key(self, question: Question) -> bool:
        """Whether a key asks, or did so at this place: a client that learns of a late text asks as if by typing."""
        last = self._shown.question if self._shown is not None else None
        return question.request.invoked or (last is not None and last.request.invoked and last.is_at(question))

    def blocking_rule(self, question: Question) -> Rule | None:
        """The rule that suppresses suggestions at the place of a question `with_relaxed_rules`."""
        by_key = self._is_by_key(question)
        rule = self.rule_at(question, by_key=by_key)
        if rule == "secret":
            return rule
        if by_key:
            self._rejections.taken()
            return rule
        self._rejections.asked(question.uri, question.place, question.asked_ms)
        many = self._rejections.too_many(question.uri, question.place, question.policy.rejections)
        return rule or ("rejections" if many else None)

    def rule_at(self, question: Question, *, by_key: bool = False) -> Rule | None:
        """The rule about the place alone, whatever was shown or rejected there."""
        request, place, policy = question.request, question.place, question.policy
        if not policy.in_secrets and types_secret(place.before, request.snapshot.language):
            return "secret"
        if (rule := self._quiet_rule(question)) is not None or by_key:
            return rule
        return "middle_of_word" if not policy.in_words and request.selected is None and in_word(place) else None

    def _quiet_rule(self, question: Question) -> Rule | None:
        quiet, snapshot = question.policy.quiet, question.request.snapshot
        if quiet.silent:
            return "snoozed" if quiet.snoozed else "invoked"
        if quiet.deletions and snapshot.deleted:
            return "deletion"
        if not quiet.by_region:
            return None
        region = self._regions.region(question.place.before, snapshot.language, snapshot.path)
        return region if region != "code" and quiet.forbids(region) else None

    def recall(self, question: Question) -> tuple[CachedSuffix, ...]:
        """Cached suggestions that continue at the question's place; empty where the model must be asked.

        A request by key needs alternatives: without them it goes to the model, even if one candidate is cached. Editors
        take the first answer for the whole list, and their keys for the next candidate do nothing from then on. It gets
        all of a text, so that one which may go on does not answer it. No request for a drawn text is answered here.
        """
        uri, place = question.uri, question.place
        if question.request.sampler.draws:
            return ()
        if question.candidates > 1:
            return self._memory.recall_all(uri, place)
        recalled = self._memory.recall(uri, place)
        goes_on = recalled is not None and question.request.invoked and not (recalled.finish or recalled.interim)
        return () if recalled is None or goes_on else (recalled,)

    def fallback(self, question: Question) -> tuple[CachedSuffix, ...]:
        """As `recall`, or one candidate alone: better than nothing where the model had no time for a better text."""
        recalled = self._memory.recall(question.uri, question.place)
        alone = recalled is None or question.request.sampler.draws
        return self.recall(question) or (() if alone or recalled is None else (recalled,))

    def held_back(self, question: Question, recalled: Sequence[CachedSuffix]) -> Reason | None:
        """Why to hide these texts from a request that is not by key: the model was unsure, or they are too short."""
        first = _in_lines(question, recalled[0])
        if not question.request.invoked and recalled[0].is_unsure(question.policy.quiet.limits):
            return reasons.unsure()
        return reasons.short() if question.policy.quiet.is_short(first.text) else None

    def fitted(self, question: Question, answer: Answer) -> Answer:
        """The model's answer by the question's rules: without lines beyond the limit, or empty where it is short."""
        if not answer.candidates:
            return answer
        candidates = tuple(_in_lines(question, one) for one in answer.candidates)
        if question.policy.quiet.is_short(candidates[0].text):
            return structs.replace(answer, outcome="empty", candidates=(), finish="short", reason=reasons.short())
        return structs.replace(answer, candidates=candidates)

    def completion(self, question: Question, recalled: Sequence[CachedSuffix]) -> Completion:
        """The answer to the question with these candidates, and their work, if it is still stored."""
        ms = Spans.since(question.opened_s).close()
        candidates = [_in_lines(question, one) for one in recalled]
        completion = answering(question.request, candidates, "typed-through", ms)
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

    def shows(self, question: Question, completion: Completion) -> int:
        """Record the shown text; returns how many characters of it are behind the cursor, 0 for none."""
        # The popup's selected entry, which the text begins with, belongs to the place already.
        selected = question.request.selected
        head = selected.text if selected is not None else ""
        self._shown = ShownAnswer(question, completion.text.removeprefix(head))
        if completion.text and not question.request.invoked and selected is None:
            self._rejections.shown(question.uri, question.place, completion.text)
        return len(self._shown.text)

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
        return late if self._says_more(shown) else None

    def _says_more(self, shown: ShownAnswer) -> bool:
        """Whether the text known for the last question says more than is shown; from then on it counts as shown."""
        known = self._memory.recall(shown.question.uri, shown.question.place)
        if known is None or self.held_back(shown.question, (known,)) is not None:
            return False
        text = _in_lines(shown.question, known).text
        if not shown.changes_to(text):
            return False
        self._shown = replace(shown, text=text)
        return True

    def rests(self, number: int) -> tuple[Question, Late | None] | None:
        """The user rests at the place of the question of this number: the question under the rules that hold then.

        With it the place, if a known text says more under these rules. None if another question came since, or the
        rules stay the same.
        """
        shown = self._shown
        if shown is None or shown.question.number != number or not shown.question.policy.quiet.yields:
            return None
        quiet = replace(shown.question.policy.quiet, rested=True)
        self._shown = shown = replace(shown, question=shown.question.under(quiet))
        request = shown.question.request
        late = Late(request.snapshot.uri, request.snapshot.version, request.offset)
        return shown.question, late if self._says_more(shown) else None

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


def _in_lines(question: Question, text: CachedSuffix) -> CachedSuffix:
    quiet, place = question.policy.quiet, question.place
    shown = text.sure(quiet.limits, place.after).first_lines(quiet.lines, place.after)
    is_whole = text.text[len(shown.text) :][:1] in {"", "\n"}
    return shown.apart(place) if is_whole else shown
