"""Requests and answers over HTTP: plain values between the forms and the model."""

from collections.abc import Sequence
from dataclasses import dataclass

from fastcoder_lsp.core import Completion, Extra


@dataclass(frozen=True, slots=True)
class InfillRequest:
    r"""A request for the text between two texts.

    Attributes:
        before: the text before the cursor, with `\n` line ends only.
        after: the text after it.
        extras: of other files; the last ones promise most.
        language: an LSP language id, or "" where nobody said.
        max_tokens: the longest answer; None for the model's own limit, 0 for no answer: the place is only expected.
        stop: the answer ends before the first of these.
        alternatives: so many answers at most, the first one included; more than one takes longer.
        patience_ms: from then on the first beginning worth showing is the answer; None: it is always whole.
    """

    before: str
    after: str = ""
    extras: tuple[Extra, ...] = ()
    language: str = ""
    max_tokens: int | None = None
    stop: tuple[str, ...] = ()
    alternatives: int = 1
    patience_ms: float | None = None


@dataclass(frozen=True, slots=True)
class InfillAnswer:
    """The answer.

    Attributes:
        text: what to insert.
        finish: why it ended, in OpenAI's words: "stop" or "length".
        word: the stop word that ended it, or "".
        completion: what it was made from.
        others: other texts for the same place, the likeliest first.
    """

    text: str
    finish: str
    word: str
    completion: Completion
    others: tuple[str, ...] = ()


def answer_of(ask: InfillRequest, completion: Completion) -> InfillAnswer:
    """The answer to `ask`: these clients insert, and replace nothing, so closers that it would replace stay away."""
    text, word = _inserted(ask, completion)
    finish = "length" if not word and completion.finish in ("length", "context", "budget") else "stop"
    others = dict.fromkeys(other for one in completion.others if (other := _inserted(ask, one)[0]) and other != text)
    return InfillAnswer(text, finish, word, completion, tuple(others))


def _inserted(ask: InfillRequest, completion: Completion) -> tuple[str, str]:
    """The text up to the first stop word, and which one that is."""
    text = completion.text
    replaced = ask.after[: completion.end - completion.start]
    if replaced and text.endswith(replaced):
        text = text[: -len(replaced)]
    cuts = [(at, word) for word in ask.stop if word and (at := text.find(word)) >= 0]
    at, word = min(cuts, default=(len(text), ""))
    return text[:at], word


MAX_EXTRA = 50_000
"""Characters of a chunk: a longer one fits no prompt, and reading it would only hold up the model's thread."""
MOST_EXTRAS, EXTRA_CHARACTERS = 256, 200_000
"""Chunks of a document, and their characters together: many times what a prompt has room for."""
MAX_EXTRA_NAME = 4096
"""Characters: no file's is longer, and the process with the model hangs up after 65,536 bytes of one."""


def within_bounds(extras: Sequence[Extra]) -> tuple[Extra, ...]:
    """The last ones that are not too long, in their order."""
    kept, room = list[Extra](), EXTRA_CHARACTERS
    for extra in reversed(extras):
        length = len(extra.name) + len(extra.text)
        if length > MAX_EXTRA or len(extra.name) > MAX_EXTRA_NAME:
            continue
        room -= length
        if room < 0 or len(kept) == MOST_EXTRAS:
            break
        kept.append(extra)
    return tuple(reversed(kept))
