"""The text that a server generates at one place of a document, and the suggestions and answers made from it.

Decides where the text ends, and whether it also serves another place, where the user has typed along it.
"""

import asyncio
from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Final

from fastcoder_lsp.completion import reasons
from fastcoder_lsp.completion.question import MOST_ALTERNATIVES, Answer, Question
from fastcoder_lsp.completion.suggestions import CursorContext, Suggestion, are_closers
from fastcoder_lsp.core import Counts, Reason
from fastcoder_lsp.decode.stop import stop_rule
from fastcoder_lsp.postprocess import TextAround, finish_at, useful_at, whole_lines, written_over
from fastcoder_lsp.remote.dialects import AnswerChunk
from fastcoder_lsp.remote.excerpt import Excerpt
from fastcoder_lsp.remote.identity import Identity
from fastcoder_lsp.remote.server import RemoteServer

LETTERS_A_TOKEN: Final = 32
"""An upper bound, for servers that ignore `max_tokens`."""
_PIECES_A_TOKEN: Final = 4


class RemoteGeneration:
    """The text of one request.

    Attributes:
        question: what it was begun for.
        place: where.
        said: what came so far, up to its end once that is known.
        finish: why it ended; "" while it goes on.
        others: other answers for the same place; None while nobody has looked for any.
        pieces: how many events came.
        ahead: nobody has asked for it yet.

    Args:
        grows: whether its text comes as it is said; else it serves no other place before it is whole.
    """

    def __init__(self, question: Question, *, grows: bool, ahead: bool = False) -> None:
        self.question, self.place, self.grows, self.ahead = question, question.place, grows, ahead
        self.said, self.finish, self.pieces = "", "", 0
        self.others: tuple[Suggestion, ...] | None = None
        snapshot = question.request.snapshot
        self.uri, self._language = snapshot.uri, snapshot.language
        self._rule = stop_rule(self.place.before, self.place.after, self._language)
        self._cut = self.follow()
        self._made: Suggestion | None = None

    @property
    def finished(self) -> bool:
        """Whether the text is complete."""
        return bool(self.finish)

    def hear(self, heard: AnswerChunk, max_tokens: int) -> None:
        """A piece came: the text goes on, and may end by it, by the rule of this place, or by its length."""
        self.pieces += 1
        most = LETTERS_A_TOKEN * max_tokens
        said = (self.said + heard.text).replace("\r\n", "\n")
        self.said = said[:most]
        end = self._cut(self.said)
        if end is not None:
            self.said, self.finish = self.said[:end], "stop"
        elif len(said) > most or self.pieces > _PIECES_A_TOKEN * max_tokens:
            self.finish = "length"
        elif heard.finish:
            self.finish = heard.finish
        if self.finished:
            others = heard.others[: MOST_ALTERNATIVES - 1]
            self.others = tuple(self.variant(other[:most]) for other in others) or None

    def serves(self, question: Question) -> bool:
        """Whether the text so far serves `question`, too."""
        return self.uri == question.uri and self.agrees(question.place)

    def has_enough_for(self, question: Question) -> bool:
        """Whether it has the candidates that the question wants; others are looked for where it was begun."""
        return question.candidates < 2 or (self.place == question.place and self.question.candidates > 1)

    def agrees(self, place: CursorContext) -> bool:
        """Whether the text so far serves `place`: the user has typed along it, or nothing."""
        if self.finished:
            return place == self.place or self.made().rest(place) is not None
        if place == self.place:
            return True
        if not self.grows or not place.before.startswith(self.place.before):
            return False
        if not place.after.endswith(self.place.after):
            return False
        typed = place.before[len(self.place.before) :]
        closers = place.after[: len(place.after) - len(self.place.after)]
        if closers and not (are_closers(closers) and len(closers) <= len(typed)):
            return False
        return self.said.startswith(typed) or typed.startswith(self.said)

    def made(self) -> Suggestion:
        """The whole text as a suggestion."""
        assert self.finished, "the text is not complete"
        if self._made is None:
            self._made = self._shown(self.said, self.finish)
        return self._made

    def useful(self) -> Suggestion:
        """The suggestion so far: all, or a beginning that will not change; empty if there is none."""
        if self.finished:
            return self.made()
        return self._suggestion(useful_at(self.said, self._around, self._rule.cut))

    def follow(self) -> Callable[[str], int | None]:
        """Where another text ends that is said here and grows (`StopRule.follow`)."""
        return self._rule.follow()

    def variant(self, said: str, finish: str = "stop") -> Suggestion:
        """Another answer for this place, as it is shown."""
        end = self._rule.cut(said)
        return self._shown(said, finish) if end is None else self._shown(said[:end], "stop")

    def why_nothing(self) -> Reason:
        """Why there is nothing to show, where that is so."""
        return reasons.nothing_worth_showing() if self.said.strip() else reasons.models_end()

    def _shown(self, said: str, finish: str) -> Suggestion:
        text = whole_lines(said, self.place.before) if finish == "length" else said
        return self._suggestion(finish_at(text, self._around))

    @cached_property
    def _around(self) -> TextAround:
        return TextAround(self.place.before, self.place.after, self._language)

    def _suggestion(self, text: str) -> Suggestion:
        return Suggestion(self.place, text, written_over(text, self._around) if text else 0)


def answer_of(
    question: Question,
    suggestion: Suggestion,
    finish: str,
    ms: Mapping[str, float],
    generation: RemoteGeneration | None,
    identity: Identity | None,
    reason: Reason | None = None,
) -> Answer:
    """The answer that shows `suggestion`, and the others with it, where they go on at the question's place.

    Args:
        question: is answered.
        suggestion: of that place, or of one before it.
        finish: why it ended.
        ms: milliseconds by span.
        generation: what it is of; None where the server has said nothing.
        identity: of the server; None while it is not known.
        reason: why there is nothing, if it is not the model's doing.
    """
    candidates = (suggestion, *(suggestion.others or ()))
    rests = tuple(rest for one in candidates if (rest := one.rest(question.place)) is not None)
    if not rests and reason is None and generation is not None:
        reason = generation.why_nothing()
    pieces = generation.pieces if generation is not None else 0
    return Answer(
        "shown" if rests else "empty",
        rests,
        finish,
        reason=None if rests else reason,
        counts=Counts(steps=pieces, tokens=pieces),
        ms=ms,
        model=identity.model if identity is not None else "",
        engine=identity.dialect.name if identity is not None else "",
    )


async def vary(
    server: RemoteServer, excerpt: Excerpt, generation: RemoteGeneration, wanted: int
) -> tuple[Suggestion, ...]:
    """So many at most, each once and none like the first; one that fails is none."""
    asked = (_one(server, excerpt, generation, 1 + number) for number in range(wanted))
    results = await asyncio.gather(*asked, return_exceptions=True)
    others = {one.text: one for one in results if isinstance(one, Suggestion) and one.text}
    others.pop(generation.made().text, None)
    return tuple(others.values())


async def _one(server: RemoteServer, excerpt: Excerpt, generation: RemoteGeneration, variant: int) -> Suggestion:
    said, finish, pieces = "", "", server.say(excerpt, variant)
    most, cut = LETTERS_A_TOKEN * excerpt.max_tokens, generation.follow()
    try:
        async for heard in pieces:
            said, finish = (said + heard.text)[:most], heard.finish
            if cut(said) is not None or len(said) == most:
                break
    finally:
        await pieces.aclose()
    return generation.variant(said, finish)
