"""The plain values of `completion` as messages, and back; whatever could not be is refused.

Owns the conversion and its checks. Texts go beside (`texts`): a message only says which.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, fields
from itertools import pairwise
from pathlib import Path
from typing import cast, get_args

from fastcoder_lsp.completion.host import HostFacts
from fastcoder_lsp.completion.question import Answer, Policy, Question, place_of
from fastcoder_lsp.completion.status import State, Status
from fastcoder_lsp.completion.suggestions import Place, Recalled, Suggestion, Work
from fastcoder_lsp.config import Layer, Settings, resolve, specs
from fastcoder_lsp.core import CompletionRequest, Definition, Extra, Reason, SelectedCompletion, Snapshot, Yank
from fastcoder_lsp.host.front_messages import DefinitionAt, ExtraAt, PolicyAt, QuestionAt, SelectedAt, YankAt
from fastcoder_lsp.host.host_messages import Answered, CandidateAt, Facts, Made, ReasonAt, SuggestionAt, Told, WorkAt
from fastcoder_lsp.host.messages import PlaceAt, ProtocolError, Table, TextAt, Value, decoded, encoded, told
from fastcoder_lsp.host.traces import trace_message, trace_value

_STATES = frozenset(get_args(State))


# Questions, from the front --------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class TextsAt:
    """Where the texts of a snapshot are, which were sent.

    Attributes:
        text: the document's.
        neighbours: all of them, one after another; None: it has none.
        chunks: the extras', in the same way.
    """

    text: TextAt
    neighbours: TextAt | None = None
    chunks: TextAt | None = None


def question_message(question: Question, texts: TextsAt) -> QuestionAt:
    """A question whose texts were sent."""
    request = question.request
    snapshot, selected, policy = request.snapshot, request.selected, question.policy
    return QuestionAt(
        number=question.number,
        uri=encoded(snapshot.uri),
        path=None if snapshot.path is None else encoded(snapshot.path),
        language=encoded(snapshot.language),
        version=snapshot.version,
        text=texts.text,
        neighbours=texts.neighbours,
        cells=list(map(len, snapshot.neighbours)),
        chunks=texts.chunks,
        extras=[ExtraAt(encoded(extra.name), len(extra.text)) for extra in snapshot.extras],
        definitions=[DefinitionAt(encoded(one.name), encoded(one.path), one.line) for one in snapshot.definitions],
        yanks=[YankAt(encoded(one.path), one.line, encoded(one.text)) for one in snapshot.yanks],
        edited=snapshot.edited,
        offset=request.offset,
        invoked=request.invoked,
        selected=None if selected is None else SelectedAt(selected.start, selected.end, encoded(selected.text)),
        max_tokens=request.max_tokens,
        policy=PolicyAt(*(getattr(policy, field.name) for field in fields(policy))),
        asked_ms=question.asked_ms,
        opened_s=question.opened_s,
    )


def question_value(message: QuestionAt, text: str, neighbours: str, chunks: str) -> Question:
    """The question again; `chunks`: the extras' texts, one after another.

    Raises:
        ProtocolError: it asks behind the end of its text, or names no time.
    """
    offset, selected = message.offset, message.selected
    if offset > len(text) or (selected is not None and not selected.start <= selected.end <= len(text)):
        raise ProtocolError("a question about no place in its text")
    if sum(message.cells) != len(neighbours):
        raise ProtocolError("cells that are not its neighbours")
    lengths = [extra.length for extra in message.extras]
    if sum(lengths) != len(chunks):
        raise ProtocolError("extras that are not its chunks")
    _require_time(message.asked_ms, message.opened_s)
    names = [decoded(extra.name) for extra in message.extras]
    snapshot = Snapshot(
        uri=decoded(message.uri),
        path=None if message.path is None else str(whole_path(message.path)),
        language=decoded(message.language),
        version=message.version,
        text=text,
        neighbours=_cut(neighbours, message.cells),
        extras=tuple(map(Extra, names, _cut(chunks, lengths))),
        definitions=tuple(
            Definition(decoded(one.name), str(whole_path(one.path)), one.line) for one in message.definitions
        ),
        yanks=tuple(Yank(str(whole_path(one.path)), one.line, decoded(one.text)) for one in message.yanks),
        edited=message.edited,
    )
    chosen = None if selected is None else SelectedCompletion(selected.start, selected.end, decoded(selected.text))
    request = CompletionRequest(snapshot, offset, message.invoked, chosen, message.max_tokens)
    return Question(
        message.number, request, place_of(request), _policy(message.policy), message.asked_ms, message.opened_s
    )


def moment(asked_ms: float) -> float:
    """A time that a front tells.

    Raises:
        ProtocolError: it is none.
    """
    _require_time(asked_ms)
    return asked_ms


def whole_path(path: bytes) -> Path:
    """A path that a front tells.

    Raises:
        ProtocolError: it is not a whole one.
    """
    found = Path(decoded(path))
    if not found.is_absolute() or "\0" in str(found):
        raise ProtocolError("a path that is not whole")
    return found


def _setting(value: object) -> Value:
    if isinstance(value, tuple):
        return [told(one) for one in value]
    if isinstance(value, str):
        return told(value)
    assert isinstance(value, bool | int)
    return value


def _policy(message: PolicyAt) -> Policy:
    if not all(ms >= 0 for ms in (message.automatic_ms, message.invoked_ms, message.background_ms)):
        raise ProtocolError("a budget that is none")
    return Policy(*(getattr(message, name) for name in message.__struct_fields__))


def _require_time(*times: float) -> None:
    if not all(math.isfinite(time) and abs(time) < 1e15 for time in times):
        raise ProtocolError("a time that is none")


def _cut(text: str, lengths: list[int]) -> tuple[str, ...]:
    ends = [0]
    for length in lengths:
        ends.append(ends[-1] + length)
    return tuple(text[start:end] for start, end in pairwise(ends))


# Settings, from the front ---------------------------------------------------------------------------------------------


def settings_message(settings: Settings) -> Table:
    """Settings by name; what nobody has changed is not told."""
    values = {spec.name: (getattr(settings, spec.attribute), spec.default) for spec in specs().values()}
    return {
        name: [told(one) for one in value]
        if isinstance(value, tuple)
        else told(value)
        if isinstance(value, str)
        else value
        for name, (value, default) in values.items()
        if value != default
    }


def settings_value(table: Table) -> Settings:
    """The settings again.

    Raises:
        ProtocolError: they are not what the table of settings allows.
    """
    settings, problems = resolve([Layer("front", table, trusted=True)])
    if problems:
        raise ProtocolError(f"settings that are none: {problems[0].name}")
    return settings


# What comes of it, from the host --------------------------------------------------------------------------------------


def answer_message(number: int, answer: Answer) -> Answered:
    """An answer to the question of that number."""
    return Answered(
        number=number,
        outcome=answer.outcome,
        candidates=[CandidateAt(encoded(one.text), one.replaces) for one in answer.candidates],
        finish=answer.finish,
        reason=_reason_message(answer.reason),
        counts=answer.counts,
        ms=dict(answer.ms),
        model=told(answer.model),
        engine=told(answer.engine),
        trace=trace_message(answer.trace),
        context=tuple(map(told, answer.context)),
    )


def answer_value(message: Answered) -> Answer:
    """The answer again.

    Raises:
        ProtocolError: its texts are none.
    """
    return Answer(
        message.outcome,
        tuple(Recalled(decoded(one.text), one.replaces) for one in message.candidates),
        message.finish,
        _reason_value(message.reason),
        message.counts,
        message.ms,
        message.model,
        message.engine,
        trace_value(message.trace),
        message.context,
    )


def made_message(uri: str, suggestion: Suggestion, at: Callable[[Place], PlaceAt | None]) -> Made | None:
    """A suggestion; None where its document's text is not known to both sides any more.

    Args:
        uri: the document's.
        suggestion: the suggestion.
        at: a place as messages tell it.
    """
    done = suggestion.work
    work = None if done is None else WorkAt(done.counts, trace_message(done.trace), tuple(map(told, done.context)))
    first = _suggestion_message(suggestion, at(suggestion.place), work)
    if first.place is None:
        return None
    if suggestion.others is None:
        return Made(encoded(uri), first, None)
    others = [
        _suggestion_message(one, None if one.place == suggestion.place else at(one.place)) for one in suggestion.others
    ]
    return Made(encoded(uri), first, others)


def made_value(message: Made, place: Callable[[PlaceAt], Place | None]) -> tuple[str, Suggestion] | None:
    """(URI, suggestion) again; None where the text that it speaks of is gone.

    Raises:
        ProtocolError: there is no such place.
    """
    here = None if message.suggestion.place is None else place(message.suggestion.place)
    if here is None:
        return None
    others = None
    if message.others is not None:
        places = [here if one.place is None else place(one.place) for one in message.others]
        others = tuple(
            Suggestion(there, decoded(one.text), one.replaces)
            for one, there in zip(message.others, places, strict=True)
            if there is not None
        )
    first = message.suggestion
    done = first.work
    work = None if done is None else Work(done.counts, trace_value(done.trace), done.context)
    reason = _reason_value(first.reason)
    text = decoded(first.text)
    return decoded(message.uri), Suggestion(here, text, first.replaces, others, work, reason, first.interim)


def status_message(status: Status) -> Told:
    """A status."""
    return Told(status.state, status.percent, told(status.message), told(status.hint))


def status_value(message: Told) -> Status:
    """The status again.

    Raises:
        ProtocolError: there is no such state.
    """
    if message.state not in _STATES:
        raise ProtocolError("a state that is none")
    return Status(cast("State", message.state), message.percent, message.message, message.hint)


def facts_message(facts: HostFacts, process_id: int, fronts: int) -> Facts:
    """What is known of this process, which so many fronts share."""
    budgets = {told(kind): float(ms) for kind, ms in facts.budget_ms.items()}
    model, engine = told(facts.model), told(facts.engine)
    return Facts(model, engine, budgets, facts.resident_bytes, process_id, fronts, facts.turn, facts.context)


def facts_value(message: Facts) -> HostFacts:
    """The facts again, of a process of its own."""
    return HostFacts(
        message.model,
        message.engine,
        message.budget_ms,
        message.resident_bytes,
        message.process_id,
        message.fronts,
        shared=True,
        turn=message.turn,
        context=message.context,
    )


def _suggestion_message(suggestion: Suggestion, place: PlaceAt | None, work: WorkAt | None = None) -> SuggestionAt:
    reason = _reason_message(suggestion.reason)
    return SuggestionAt(place, encoded(suggestion.text), suggestion.replaces, work, reason, suggestion.interim)


def _reason_message(reason: Reason | None) -> ReasonAt | None:
    return None if reason is None else ReasonAt(told(reason.code), told(reason.text), told(reason.hint))


def _reason_value(message: ReasonAt | None) -> Reason | None:
    return None if message is None else Reason(message.code, message.text, message.hint)
