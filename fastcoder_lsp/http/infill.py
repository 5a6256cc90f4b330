"""Requests and answers over HTTP: plain values between the forms and the model."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

from fastcoder_lsp.core import GREEDY, Completion, Extra, RawPrompt, Sampler
from fastcoder_lsp.postprocess import TextAround, inserted


@dataclass(frozen=True, slots=True)
class InfillRequest:
    r"""A request for the text between two texts, which have `\n` line ends only."""

    before: str
    after: str = ""
    extras: tuple[Extra, ...] = ()  # code of other files, the most relevant last
    language: str = ""  # an LSP language id, "" if unknown
    max_tokens: int | None = None  # None for the model's own limit; 0 for no answer: the place is only prefetched
    stop: tuple[str, ...] = ()  # the answer ends before the first of these
    alternatives: int = 1  # answers at most; more than one takes longer
    patience_ms: float | None = None
    """After that the first useful beginning is the answer; None: the answer is always complete."""
    raw: RawPrompt | None = None  # `before` is a whole prompt of an edit model's client
    sampler: Sampler = GREEDY


@dataclass(frozen=True, slots=True)
class InfillAnswer:
    """The answer, with alternatives (`others`), the likeliest first."""

    text: str
    finish: str  # why it ended, in OpenAI's words: "stop" or "length"
    word: str  # the stop word that ended it, or ""
    completion: Completion
    tokens: int = 0  # the model's tokens that spell the text
    others: tuple[str, ...] = ()
    sampler: Sampler = GREEDY


def answer_of(infill: InfillRequest, completion: Completion) -> InfillAnswer:
    """The answer to `infill`, without closers that the completion would replace: these clients only insert."""
    text, word = _inserted(infill, completion)
    finish = completion.ended or "budget" if completion.finish == "typed-through" else completion.finish
    finish = "length" if not word and finish in ("length", "context", "budget") else "stop"
    others = dict.fromkeys(other for one in completion.others if (other := _inserted(infill, one)[0]) and other != text)
    return InfillAnswer(text, finish, word, completion, _tokens_of(text, completion), tuple(others), infill.sampler)


def _tokens_of(text: str, completion: Completion) -> int:
    """How many tokens spell `text`, which may be a part of what the model said; all tokens if none were recorded."""
    pieces = [token.piece for step in completion.trace for token in step.tokens]
    sought = text.encode("utf-8", "surrogatepass")
    begin = b"".join(pieces).find(sought)
    if not text or begin < 0:
        return completion.counts.tokens if text else 0
    ends = accumulate(map(len, pieces))
    return sum(begin < end and end - len(piece) < begin + len(sought) for piece, end in zip(pieces, ends, strict=True))


def _inserted(infill: InfillRequest, completion: Completion) -> tuple[str, str]:
    text = completion.text
    replaced = infill.after[: completion.end - completion.start]
    if replaced and text.endswith(replaced):
        text = text[: -len(replaced)]
    elif replaced:
        text = inserted(text, TextAround(infill.before, infill.after, infill.language))
    cuts = [(at, word) for word in infill.stop if word and (at := text.find(word)) >= 0]
    at, word = min(cuts, default=(len(text), ""))
    return text[:at], word


MOST_TEXT, _TEXT_STEP = 1_000_000, 250_000
"""Characters of a document that are read before and after the cursor, far more than fit a prompt; the first of them
moves by a step, so that it stays while the user types."""


def near_cursor(before: str, after: str) -> tuple[str, str]:
    """The parts of a document that are read."""
    steps = -(-max(len(before) - MOST_TEXT, 0) // _TEXT_STEP)
    return before[steps * _TEXT_STEP :], after[:MOST_TEXT]


MAX_EXTRA = 50_000  # characters of a chunk: a longer one fits no prompt, and reading it would block the model's thread
MOST_EXTRAS, EXTRA_CHARACTERS = 256, 200_000
"""Chunks of a document, and their characters together: far more than fit a prompt."""
MAX_EXTRA_NAME = 4096  # characters; the model's process disconnects after 65,536 bytes of one


def within_bounds(extras: Sequence[Extra]) -> tuple[Extra, ...]:
    """The last ones within all limits, in their order."""
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
