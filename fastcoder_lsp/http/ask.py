"""What is asked by HTTP, whatever its form: plain values between the forms and the model.

Owns no form and no model.
"""

from dataclasses import dataclass

from fastcoder_lsp.core import Completion


@dataclass(frozen=True, slots=True)
class Extra:
    """A piece of another file that the client gave along.

    Attributes:
        name: its file's.
        text: whole lines, as a rule.
    """

    name: str
    text: str


@dataclass(frozen=True, slots=True)
class Ask:
    r"""What comes between two texts?

    Attributes:
        before: the text before the cursor, with `\n` line ends only.
        after: the text after it.
        extras: of other files; the last ones promise most.
        language: an LSP language id, or "" where nobody said.
        max_tokens: the longest answer; None for the model's own limit, 0 for no answer: the place is only expected.
        stop: the answer ends before the first of these.
        patience_ms: from then on the first beginning worth showing is the answer; None: it is always whole.
    """

    before: str
    after: str = ""
    extras: tuple[Extra, ...] = ()
    language: str = ""
    max_tokens: int | None = None
    stop: tuple[str, ...] = ()
    patience_ms: float | None = None


@dataclass(frozen=True, slots=True)
class Said:
    """The answer.

    Attributes:
        text: what to insert.
        finish: why it ended, in OpenAI's words: "stop" or "length".
        word: the stop word that ended it, or "".
        completion: what it was made from.
    """

    text: str
    finish: str
    word: str
    completion: Completion


def said(ask: Ask, completion: Completion) -> Said:
    """The answer to `ask`: these clients insert, and replace nothing, so closers that it would replace stay away."""
    text = completion.text
    replaced = ask.after[: completion.end - completion.start]
    if replaced and text.endswith(replaced):
        text = text[: -len(replaced)]
    cuts = [(at, word) for word in ask.stop if word and (at := text.find(word)) >= 0]
    if cuts:
        at, word = min(cuts)
        return Said(text[:at], "stop", word, completion)
    return Said(text, "length" if completion.finish in ("length", "context", "budget") else "stop", "", completion)
