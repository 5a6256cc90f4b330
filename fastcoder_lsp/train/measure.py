"""How many tokens a pass gives with a drafter that was just trained, on texts that it never learnt from."""

from collections.abc import Sequence
from functools import partial

from fastcoder_lsp.config import kernels_folder
from fastcoder_lsp.core import Engine
from fastcoder_lsp.decode.loop import DecodeRequest, decode
from fastcoder_lsp.draft.base import DrafterParts
from fastcoder_lsp.draft.none import NoDrafter
from fastcoder_lsp.draft.registry import make
from fastcoder_lsp.engine.int8.linear import packed_linear
from fastcoder_lsp.tokenizer import Tokenizer
from fastcoder_lsp.train.example import Ids

TOKENS, ROWS = 48, 16


def tokens_a_pass(engine: Engine, tokenizer: Tokenizer, drafter: str, texts: Sequence[Ids]) -> dict[str, float]:
    """Tokens a pass of `ROWS` rows gives behind the first half of each text; and whether all are the plain ones.

    Returns:
        "tokens_a_pass" and "identical" (1 or 0); nothing where no text is held out.
    """
    if not texts:
        return {}
    parts = DrafterParts(piece=tokenizer.piece, linear=partial(packed_linear, kernels=kernels_folder()))
    made, tokens, steps, same = make(drafter, parts), 0, 0, True
    for text in texts:
        request = DecodeRequest(
            tuple(text[: max(1, len(text) // 2)].tolist()),
            TOKENS,
            tokenizer.end_ids,
            tokenizer.piece,
            tokenizer.starting_with,
            lambda _: None,
            nodes=ROWS,
        )
        plain = decode(engine, NoDrafter(), request, lambda: False)
        drafted = decode(engine, made, request, lambda: False)
        same &= plain.tokens == drafted.tokens
        tokens, steps = tokens + len(drafted.tokens), steps + drafted.counts.steps
    return {"tokens_a_pass": tokens / max(steps, 1), "identical": float(same)}
