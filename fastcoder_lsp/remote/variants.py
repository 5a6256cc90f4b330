"""Other answers for a place, beside the greedy one: each asked by itself, all at once."""

import asyncio

from fastcoder_lsp.completion.suggestions import Suggestion
from fastcoder_lsp.remote.excerpt import Excerpt
from fastcoder_lsp.remote.saying import LETTERS_A_TOKEN, Saying
from fastcoder_lsp.remote.server import Server


async def vary(server: Server, excerpt: Excerpt, saying: Saying, wanted: int) -> tuple[Suggestion, ...]:
    """So many at most, each once and none like the first; one that fails is none."""
    asked = (_one(server, excerpt, saying, 1 + number) for number in range(wanted))
    results = await asyncio.gather(*asked, return_exceptions=True)
    others = {one.text: one for one in results if isinstance(one, Suggestion) and one.text}
    others.pop(saying.made().text, None)
    return tuple(others.values())


async def _one(server: Server, excerpt: Excerpt, saying: Saying, variant: int) -> Suggestion:
    said, finish, pieces = "", "", server.say(excerpt, variant)
    most, cut = LETTERS_A_TOKEN * excerpt.max_tokens, saying.follow()
    try:
        async for heard in pieces:
            said, finish = (said + heard.text)[:most], heard.finish
            if cut(said) is not None or len(said) == most:
                break
    finally:
        await pieces.aclose()
    return saying.variant(said, finish)
