"""What is given for a question, made of what a server has said; and why that is nothing, where it is."""

from collections.abc import Mapping

from fastcoder_lsp.completion.question import Answer, Question
from fastcoder_lsp.completion.suggestions import Suggestion
from fastcoder_lsp.core import Counts, Reason
from fastcoder_lsp.remote.identity import Identity
from fastcoder_lsp.remote.saying import Saying


def answer_of(
    question: Question,
    suggestion: Suggestion,
    finish: str,
    ms: Mapping[str, float],
    saying: Saying | None,
    identity: Identity | None,
    reason: Reason | None = None,
) -> Answer:
    """The answer that shows `suggestion`, and the others with it, where they go on at the question's place.

    Args:
        question: is answered.
        suggestion: of that place, or of one before it.
        finish: why it ended.
        ms: milliseconds by span.
        saying: what it is of; None where the server has said nothing.
        identity: of the server; None while it is not known.
        reason: why there is nothing, if it is not the model's doing.
    """
    candidates = (suggestion, *(suggestion.others or ()))
    rests = tuple(rest for one in candidates if (rest := one.rest(question.place)) is not None)
    if not rests and reason is None and saying is not None:
        reason = saying.why_nothing()
    pieces = saying.pieces if saying is not None else 0
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
