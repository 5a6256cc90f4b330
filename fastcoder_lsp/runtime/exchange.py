"""Which of two prompts a document has: the one that its KV cache holds, or one that is prepared beside with other code.

Owns when the second takes the place of the first: where no key pays for it, and not in the middle of a line.
"""

from typing import Final

from fastcoder_lsp.core import Engine, Snapshot, Tokens
from fastcoder_lsp.engine.prefix import common_prefix
from fastcoder_lsp.prompt import Prompt
from fastcoder_lsp.prompt.build import begun
from fastcoder_lsp.runtime.parts import Runtime

FEW: Final = 16
"""Tokens that are new where the window is not: of a line that is typed."""


def prompt_for(runtime: Runtime, snapshot: Snapshot, offset: int, *, hurried: bool) -> Prompt:
    """The document's prompt at `offset`, with what is prepared beside where that costs no token more.

    In the middle of a line only where the window is read anew: else who types there is to find everything as it was.

    Args:
        runtime: the model.
        snapshot: the document.
        offset: the cursor.
        hurried: see `PromptBuilder.build`.
    """
    prompts, uri = runtime.prompts, snapshot.uri
    prompt, engine = prompts.build(snapshot, offset, hurried=hurried), runtime.slots.beside(uri)
    if engine is None or not engine.cached():
        return prompt
    new = missing(runtime.engine_for(uri), prompt.tokens)
    if begun(snapshot.text, offset) and new <= FEW:
        return prompt
    planned = prompts.planned(snapshot, offset)
    if planned is None or missing(engine, planned.tokens) > new:
        return prompt
    runtime.slots.exchange(uri)
    return prompts.exchange(snapshot, offset)


def exchange_computed(runtime: Runtime, snapshot: Snapshot, offset: int) -> None:
    """The planned prompt takes the old one's place, if the second cache holds it as it would be at this moment."""
    planned, engine = runtime.prompts.planned(snapshot, offset), runtime.slots.beside(snapshot.uri)
    if planned is None or engine is None or begun(snapshot.text, offset):
        return
    if missing(engine, planned.tokens) <= 1:
        runtime.slots.exchange(snapshot.uri)
        runtime.prompts.exchange(snapshot, offset)


def missing(engine: Engine, tokens: Tokens) -> int:
    """How many of `tokens` are not in the cache."""
    return len(tokens) - common_prefix(engine.cached(), tokens)
