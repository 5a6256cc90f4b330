"""Token healing: which ids may spell given bytes again."""

from hypothesis import given
from hypothesis import strategies as st

from fastcoder_lsp.prompt.anchor import MAX_HEALED_BYTES, allowed, heal_start
from tests.prompt.toy_tokenizers import byte_level, of_family, sentencepiece

QWEN = of_family("Qwen2.5-Coder")
TEXT = st.text(st.sampled_from(list("aber_( )=:\n\t'é漢\U0001f600")), max_size=30)


@given(st.binary(min_size=1, max_size=6) | TEXT.map(str.encode).filter(bool))
def test_allowed_ids(remaining: bytes) -> None:
    pieces = {token: QWEN.piece(token) for token in range(QWEN.vocabulary)}
    naive = [
        token
        for token, piece in pieces.items()
        if piece and (piece.startswith(remaining) or remaining.startswith(piece))
    ]
    assert allowed(QWEN, remaining).tolist() == naive
    assert naive


@given(TEXT)
def test_where_a_prompt_backs_up_to(text: str) -> None:
    for tokenizer in (QWEN, byte_level(False), sentencepiece()):
        start = heal_start(tokenizer, text)
        rest = text[start:].encode()
        assert 0 <= start <= len(text)
        assert len(rest) <= MAX_HEALED_BYTES
        assert tokenizer.can_spell(rest)


@given(TEXT, st.text(st.sampled_from(list("ab_(\n =")), max_size=4))
def test_typing_on_keeps_what_was_said(text: str, more: str) -> None:
    now, later = heal_start(QWEN, text), heal_start(QWEN, text + more)
    if later >= now and not text[:now].endswith(("\n", " ", "\t")):
        kept = QWEN.encode(text[:now])
        assert QWEN.encode((text + more)[:later])[: len(kept)] == kept


def test_a_newline_that_takes_its_indentation_along() -> None:
    assert heal_start(byte_level(False), "if x:\n") == len("if x:")
    assert heal_start(QWEN, "if x:\n") == len("if x:\n")
