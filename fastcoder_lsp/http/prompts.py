"""Prompts with fill-in-the-middle marks, taken apart."""

from dataclasses import dataclass

from fastcoder_lsp.core import Extra
from fastcoder_lsp.http.infill import MOST_EXTRAS
from fastcoder_lsp.prompt.templates import TEMPLATES, Template


@dataclass(frozen=True, slots=True)
class PromptParts:
    """A prompt's text before and after the cursor, and the other files before it."""

    before: str
    after: str = ""
    extras: tuple[Extra, ...] = ()


def parse_prompt(prompt: str) -> PromptParts:
    """The parts of `prompt`, by the family whose marks give the most files; without marks, all is before the cursor."""
    found = (_parse_by(template, prompt) for template in TEMPLATES if template.marks)
    return max((parts for parts in found if parts), key=lambda parts: len(parts.extras), default=PromptParts(prompt))


def _parse_by(template: Template, prompt: str) -> PromptParts | None:
    texts, rest = list[str](), prompt
    for mark in template.marks:
        text, found, rest = rest.partition(mark)
        if not found:
            return None
        texts.append(text)
    head, *around = (*texts, rest)
    if not template.middle and head.removeprefix("<s>"):  # two marks in brackets are often plain text
        return None
    before, after = template.in_order(*around[:2])
    return PromptParts(before + "".join(around[2:]), after, _files(template.file, head))


def _files(mark: str, head: str) -> tuple[Extra, ...]:
    """The last `MOST_EXTRAS` files before the prefix mark that have text, each with its name in the first line."""
    if not mark:
        return ()
    pieces = (piece.partition("\n") for piece in head.split(mark)[1:][-MOST_EXTRAS:])
    return tuple(Extra(name.strip(), normalised(text)) for name, _, text in pieces if text.strip())


def normalised(text: str) -> str:
    r"""`text` with `\n` line ends only."""
    return text.replace("\r\n", "\n").replace("\r", "\n")
