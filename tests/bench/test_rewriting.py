"""The rewriting task: what is asked, and `ngram-mod`'s rule."""

import random
from collections.abc import Sequence
from types import SimpleNamespace
from typing import cast

import numpy as np

from benchmarks.drafting import TaskParts
from benchmarks.rewriting import CHARACTERS, LEAST, NgramModDrafter, rewriting_requests
from fastcoder_lsp.core import DraftTree, Tokens, Verified
from fastcoder_lsp.decode.loop import DecodeRequest, decode
from fastcoder_lsp.draft.base import NoDrafter
from tests.fake_engine import FakeEngine

PROMPT = tuple(random.Random(2).choices(range(40), k=200))


class CopyingEngine(FakeEngine):
    """Says its prompt again; with `slips`, another token now and then."""

    def __init__(self, slips: int = 10**6) -> None:
        super().__init__(vocabulary=40, context=2000, chunk=64)
        self._slips = slips

    def choose(self, tokens: Tokens, among: Sequence[int]) -> int:
        slip = len(tokens) % self._slips == 0
        return among[(tokens[len(tokens) - len(PROMPT)] + slip) % len(among)]


def test_long_drafts_are_made_or_none() -> None:
    for slips in (10**6, 70, 9):
        sizes, engine = list[int](), CopyingEngine(slips)
        asked = DecodeRequest(
            PROMPT, 190, frozenset(), lambda _: b"w", lambda _: np.arange(40), lambda _: None, nodes=65
        )

        def seen(tree: DraftTree, _verified: Verified, sizes: list[int] = sizes) -> None:
            sizes.append(len(tree) - tree.pending)

        plain = decode(engine, NoDrafter(), asked, lambda: False)
        found = decode(engine, NgramModDrafter(), asked, lambda: False, on_step=seen)
        assert found.tokens == plain.tokens
        assert all(size == 0 or size >= LEAST for size in sizes)
        assert found.counts.steps < 60 if slips > 100 else any(sizes) is (slips > 24)


def test_a_piece_of_code_is_asked_for_with_another_name() -> None:
    line = "    value = other_name + {}\n"
    text = "".join(line.format(number) for number in range(400))
    tokenizer = SimpleNamespace(
        encode=lambda text: list(text.encode()), piece=lambda token: bytes([token]), end_ids=frozenset[int]()
    )
    tasks = SimpleNamespace(files={"r": {"long.py": text, "short.py": text[:CHARACTERS]}})
    (asked,) = rewriting_requests(cast("TaskParts", SimpleNamespace(tokenizer=tokenizer, tasks=tasks)), 2)
    said = bytes(asked.prompt).decode()
    code = said.partition("\n\n")[2].partition("\nThe same code")[0]
    assert code in text
    assert CHARACTERS <= len(code) < CHARACTERS + len(line) + 9
    assert "`value` has the new name `new_value`" in said
    assert asked.max_tokens == len(code)
