"""The rewriting task of `bench peers`: code of some 3,000 characters is written once more, with one name changed.

Drafts of many tokens are at home here: nearly all of the answer stands in the prompt.
"""

import re
from collections import Counter
from collections.abc import Iterator, Sequence

from typing_extensions import override

from benchmarks.drafting import TaskParts
from benchmarks.harness import decode_request
from fastcoder_lsp.core import NO_DRAFT, Draft, DraftContext, DraftTree, Verified
from fastcoder_lsp.decode.loop import DecodeRequest
from fastcoder_lsp.draft.base import FROM_PROMPT, NoDrafter, chain

CHARACTERS = 3000
_NAME = re.compile(r"\b[a-z][a-z_]{4,}\b")
_FEWEST = 3
"""How often the changed name occurs, at least."""
MATCH, LEAST, MOST = 24, 48, 64
"""Tokens that `ngram-mod` looks up, and of its drafts: its authors' setting."""
CHUNK, POOR, PATIENCE = 32, 0.25, 5
"""New tokens that it learns at once, and after how many drafts of which so little was accepted it forgets all."""
ROWS = MOST + 1


def rewriting_requests(parts: TaskParts, count: int) -> Iterator[DecodeRequest]:
    """Prompts with a piece of a repository's code and a name to change; the answer is as long as the piece."""
    texts = [text for files in parts.tasks.files.values() for text in files.values() if len(text) > 2 * CHARACTERS]
    for text in texts[:: max(1, len(texts) // max(1, count))][:count]:
        start = text.find("\n", len(text) // 3) + 1
        code = text[start : text.find("\n", start + CHARACTERS) + 1]
        name, times = Counter(_NAME.findall(code)).most_common(1)[0]
        if times < _FEWEST or not code:
            continue
        prompt = f"The code:\n\n{code}\nThe same code, where `{name}` has the new name `new_{name}`:\n\n"
        tokens = parts.tokenizer.encode(prompt)
        longest = len(parts.tokenizer.encode(code))
        document = f"rewriting:{len(text)}"
        yield decode_request(parts.tokenizer, tokens, longest, document=document, nodes=ROWS)


class NgramModDrafter(NoDrafter):
    """llama.cpp's `ngram-mod` by its published rule, over any engine: the last token seen behind each 24 tokens.

    It drafts 48 to 64 tokens or none, and forgets all after five drafts in a row of which a quarter was not accepted.
    """

    def __init__(self) -> None:
        super().__init__()
        self._next: dict[tuple[int, ...], int] = {}
        self._known, self._poor = 0, 0

    @override
    def begin(self, context: DraftContext) -> None:
        self._learn(context.tokens, 0)

    @override
    def propose(self, context: DraftContext, nodes: int) -> Draft:
        if self._known + CHUNK < len(context.tokens):
            self._learn(context.tokens, self._known)
        drafted = list(context.tokens[-MATCH:])
        for _ in range(min(MOST, nodes)):
            if (token := self._next.get(tuple(drafted[-MATCH:]))) is None:
                break
            drafted.append(token)
        return chain(drafted[MATCH:], FROM_PROMPT) if len(drafted) >= MATCH + LEAST else NO_DRAFT

    @override
    def observe(self, tree: DraftTree, verified: Verified) -> None:
        if (drafted := len(tree) - tree.pending) > 0:
            self._poor = self._poor + 1 if len(verified.path) < POOR * drafted else 0
            if self._poor == PATIENCE:
                self._next, self._known, self._poor = {}, 0, 0

    def _learn(self, tokens: Sequence[int], start: int) -> None:
        for place in range(start, len(tokens) - MATCH):
            self._next[tuple(tokens[place : place + MATCH])] = tokens[place + MATCH]
        self._known = max(0, len(tokens) - MATCH)
