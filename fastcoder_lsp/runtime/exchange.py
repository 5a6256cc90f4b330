"""Which of two prompts a document has: the one that its KV cache holds, or one that is prepared beside with other code.

Owns when the second takes the place of the first: where no key pays for it, and not in the middle of a line, unless the
first is a short one.
"""

from typing import Final

from fastcoder_lsp.core import Engine, Snapshot, Tokens
from fastcoder_lsp.engine.prefix import common_prefix
from fastcoder_lsp.prompt import Prompt
from fastcoder_lsp.prompt.build import begun
from fastcoder_lsp.runtime.parts import Runtime

FEW: Final = 16
"""Tokens that are new where the window is not: of a line that is typed."""


def prompt_for(
    runtime: Runtime, snapshot: Snapshot, offset: int, *, hurried: bool = False, room: int | None = None
) -> Prompt:
    """The document's prompt at `offset`, with what is prepared beside where that costs no token more.

    In the middle of a line only where the window is read anew, or is a short one: else who types there is to find
    everything as it was. For a whole window in the place of a short one, a key pays a few tokens.

    Args:
        runtime: the model.
        snapshot: the document.
        offset: the cursor.
        hurried: see `PromptBuilder.build`.
        room: the same; not heeded where there is no second cache for the whole prompt.
    """
    prompts, uri = runtime.prompts, snapshot.uri
    engine = runtime.slots.beside(uri)
    prompt = prompts.build(snapshot, offset, hurried=hurried, room=room if engine is not None else None)
    if engine is None:
        return prompt
    main = runtime.engine_for(uri)
    new, held = missing(main, prompt.tokens), len(main.cached())
    if prompts.is_short(uri) and held - (len(prompt.tokens) - new) > len(prompt.tokens):
        runtime.slots.swap(uri)  # the whole prompt, which is prepared next, has more in common with what is held
        return prompt
    short = prompts.is_short(uri)
    if not engine.cached() or (begun(snapshot.text, offset) and new <= FEW and not short):
        return prompt
    planned = prompts.planned(snapshot, offset)
    if planned is None or missing(engine, planned.tokens) > max(new, FEW if short else 0):
        return prompt
    runtime.slots.exchange(uri)
    return prompts.exchange(snapshot, offset)


def whole_prompt_for(runtime: Runtime, snapshot: Snapshot, offset: int) -> Prompt:
    """The prompt that a first question here gets, however much of it is to be computed still."""
    prompts, uri = runtime.prompts, snapshot.uri
    prompts.plan(snapshot, offset)
    if prompts.planned(snapshot, offset) is None or runtime.slots.beside(uri) is None:
        return prompts.build(snapshot, offset)
    runtime.slots.exchange(uri)
    return prompts.exchange(snapshot, offset)


def is_interim(runtime: Runtime, uri: str) -> bool:
    """Whether a text by the document's prompt is shown only until there is one by the whole prompt."""
    return runtime.slots.beside(uri) is not None and runtime.prompts.is_interim(uri)


def exchange_computed(runtime: Runtime, snapshot: Snapshot, offset: int) -> bool:
    """The planned prompt takes the old one's place, if the second cache holds it as it would be at this moment."""
    planned, engine = runtime.prompts.planned(snapshot, offset), runtime.slots.beside(snapshot.uri)
    if planned is None or engine is None or missing(engine, planned.tokens) > 1:
        return False
    runtime.slots.exchange(snapshot.uri)
    runtime.prompts.exchange(snapshot, offset)
    return True


def missing(engine: Engine, tokens: Tokens) -> int:
    """How many of `tokens` are not in the cache."""
    return len(tokens) - common_prefix(engine.cached(), tokens)
