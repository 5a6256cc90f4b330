"""The APIs of servers, one class each: request bodies and events.

Sources: llama.cpp's tools/server/README.md ("POST /infill"); OpenAI's reference, "Completions"; docs/clients.md for
our own. Requests ask for greedy decoding, except for the variants that the user cycles through.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from typing_extensions import override

from fastcoder_lsp.prompt.context import comment_mark
from fastcoder_lsp.prompt.templates import Template
from fastcoder_lsp.remote.excerpt import Excerpt

_VARIANT_TEMPERATURE = 0.8
_ANCHOR_LINES = 4  # the anchor moves by so many lines at a time


@dataclass(frozen=True, slots=True)
class AnswerChunk:
    """A chunk of an answer; `text` continues the last chunk's."""

    text: str = ""
    finish: str = ""  # why the answer ends here ("stop", "eos", "length"); "" while it continues
    failure: object = None  # the server's error, in its own form
    others: tuple[str, ...] = ()  # alternatives to the answer


class Dialect(ABC):
    """A server's API.

    Attributes:
        path: appended to the server's address.
        streams: whether text arrives as it is generated. If not, the server itself continues what an earlier request
            began.
        variants: whether other answers than the greedy one are available, one a request.
        postprocesses: whether it post-processes its text, for which it must see as much of the document as a front.
    """

    name: str
    path = "/infill"
    streams = variants = True
    postprocesses = False

    @abstractmethod
    def body(self, excerpt: Excerpt, model: str, variant: int, count: int) -> dict[str, Any]:
        """A request's body; `variant` 0 is the greedy answer, `count` the number of alternatives in one response."""

    @abstractmethod
    def read(self, event: Mapping[str, Any]) -> AnswerChunk:
        """Read an event."""


class Fastcoder(Dialect):
    """Our own API: the server knows where a block ends, and post-processes its text."""

    name = "fastcoder-lsp"
    streams, variants, postprocesses = False, False, True

    @override
    def body(self, excerpt: Excerpt, model: str, variant: int, count: int) -> dict[str, Any]:
        return {
            "input_prefix": excerpt.before,
            "input_suffix": excerpt.after,
            "input_extra": _extra(excerpt),
            "filename": excerpt.name,
            "language": excerpt.language,
            "n_predict": excerpt.max_tokens,
            "stream": False,
        } | ({"alternatives": count} if count > 1 else {})

    @override
    def read(self, event: Mapping[str, Any]) -> AnswerChunk:
        others = event.get("alternatives")
        texts = tuple(text for text in map(_text, others) if text) if isinstance(others, list) else ()
        text = _text(event.get("content"))
        # The text is complete for display, but for a single line that is longer than `n_predict`.
        cut = event.get("stop_type") == "limit" and "\n" not in text
        finish = ("length" if cut else "stop") if event.get("stop") is True else ""
        return AnswerChunk(text, finish, event.get("error"), texts)


class LlamaCpp(Dialect):
    """llama.cpp's `/infill`: the server builds the prompt."""

    name = "llama.cpp"

    @override
    def body(self, excerpt: Excerpt, model: str, variant: int, count: int) -> dict[str, Any]:
        excerpt = excerpt.with_escaped_marks()  # the server interprets marks in `prompt`
        at = excerpt.before.rfind("\n") + 1
        return {
            "input_prefix": excerpt.before[:at],
            "prompt": excerpt.before[at:],
            "input_suffix": excerpt.after,
            "input_extra": _extra(excerpt),
            "n_predict": excerpt.max_tokens,
            "stream": True,
            "cache_prompt": True,
            **_sampling(variant),
            **_stop(excerpt),
            **({"model": model} if model else {}),
        }

    @override
    def read(self, event: Mapping[str, Any]) -> AnswerChunk:
        return AnswerChunk(_text(event.get("content")), _llama_finish(event), event.get("error"))


class OpenAICompletions(Dialect):
    """OpenAI's completions."""

    path = "/v1/completions"

    @override
    def read(self, event: Mapping[str, Any]) -> AnswerChunk:
        choices = event.get("choices")
        choice = choices[0] if isinstance(choices, list) and choices and isinstance(choices[0], dict) else {}
        finish = choice.get("finish_reason")
        word = "length" if finish == "length" else "stop" if isinstance(finish, str) and finish else ""
        return AnswerChunk(_text(choice.get("text")), word, event.get("error"))


class Suffix(OpenAICompletions):
    """With `suffix`: the server builds the prompt."""

    name = "OpenAI completions, suffix"

    @override
    def body(self, excerpt: Excerpt, model: str, variant: int, count: int) -> dict[str, Any]:
        # Some servers take an empty suffix for none, and continue the text as if the file ended here.
        excerpt = excerpt.with_escaped_marks()  # many servers join both texts and interpret marks
        head = _comments(excerpt)
        return _openai(head + excerpt.before, excerpt, model, variant) | {"suffix": excerpt.after or "\n"}


class MarkedPrompts(OpenAICompletions):
    """Without `suffix`: the prompt contains the marks of the model's family."""

    def __init__(self, template: Template) -> None:
        self.template, self.name = template, f"OpenAI completions, {template.name}"

    @override
    def body(self, excerpt: Excerpt, model: str, variant: int, count: int) -> dict[str, Any]:
        return _openai(fim_prompt(self.template, excerpt), excerpt, model, variant)


def fim_prompt(template: Template, excerpt: Excerpt) -> str:
    """The fill-in-the-middle prompt as text; recently typed text follows the middle mark, so that a key only appends.

    Marks in the user's text are escaped, because the server interprets marks anywhere in the prompt.
    """
    excerpt = excerpt.with_escaped_marks()
    before = excerpt.before
    lines = before.split("\n")
    at = sum(len(line) + 1 for line in lines[: (len(lines) - 1) // _ANCHOR_LINES * _ANCHOR_LINES])
    if not at:
        at = len(before) - len(lines[-1])
    prefix, typed = before[:at], before[at:]
    files = [(template.file, f"{snippet.name}\n{snippet.text.rstrip()}\n") for snippet in excerpt.snippets]
    head = "".join(mark + text for mark, text in files) if template.file else _comments(excerpt)
    if head and template.repository:
        head = f"{template.repository}repository\n{head}"
    if head and template.file:
        head += template.file + ("" if template.path_inside else f"{excerpt.name}\n")
    if template.shows_in_prefix:
        head, prefix = "", head + prefix
    # SentencePiece's leading blank is a plain blank in text; servers add it after other marks.
    first, second, *third = (f" {mark[1:]}" if mark.startswith("▁") else mark for mark in template.marks)
    lead = template.lead if first.startswith(" ") else ""
    one, two = template.in_order(lead + prefix, excerpt.after)
    prompt = f"{head}{first}{one}{second}{two}{''.join(third)}{typed}"
    return prompt.removeprefix(" ") if lead else prompt


def _extra(excerpt: Excerpt) -> list[dict[str, str]]:
    return [{"filename": snippet.name, "text": snippet.text} for snippet in excerpt.snippets]


def _comments(excerpt: Excerpt) -> str:
    mark = comment_mark(excerpt.language)
    lines = (
        line for snippet in excerpt.snippets for line in (f"Path: {snippet.name}", *snippet.text.rstrip().split("\n"))
    )
    return "".join(f"{mark} {line}".rstrip() + "\n" for line in lines)


def _sampling(variant: int) -> dict[str, Any]:
    return {"temperature": _VARIANT_TEMPERATURE, "seed": variant} if variant else {"temperature": 0.0}


def _stop(excerpt: Excerpt) -> dict[str, Any]:
    return {"stop": ["\n"]} if excerpt.one_line else {}


def _openai(prompt: str, excerpt: Excerpt, model: str, variant: int) -> dict[str, Any]:
    named = {"model": model} if model else {}
    how = {**_sampling(variant), **_stop(excerpt)}
    return {**named, "prompt": prompt, "max_tokens": excerpt.max_tokens, "stream": True, **how}


def _llama_finish(event: Mapping[str, Any]) -> str:
    if event.get("stop") is not True:
        return ""
    return {"limit": "length", "eos": "eos"}.get(_text(event.get("stop_type")), "stop")


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""
