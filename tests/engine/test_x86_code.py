"""x86 machine code of each kind of byte products, as LLVM makes it for a CPU that could do more."""

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from fastcoder_lsp.engine.int4.grouped import grouped_tile, unpacked_tile
from fastcoder_lsp.engine.int4.unfold import folded_tile
from fastcoder_lsp.engine.int8 import tiles
from fastcoder_lsp.engine.int8.dot import AVX2, VNNI_256, DotKind, in_four_bits
from fastcoder_lsp.engine.int8.tiles import mix_tile, product_tile, score_tile
from fastcoder_lsp.kernels.processor import limited
from tests.engine.assembly import X86, Code, code_of

CPU = "sapphirerapids"
ITS_OWN = (
    "avx2", "avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl", "avx512bf16", "avx512fp16", "avx512ifma",
    "avx512bitalg", "avx512vbmi", "avx512vbmi2", "avx512vnni", "avx512vpopcntdq", "avxvnni", "amx-tile", "amx-int8",
    "amx-bf16",
)  # fmt: skip
IN_FOUR = in_four_bits(AVX2)


def code_for(kind: str, made: Any, inner: str, cpu: str = CPU) -> Code:
    told = limited(dict.fromkeys(ITS_OWN, True), kind)
    features = ",".join(f"{'+' if there else '-'}{name}" for name, there in told.items())
    return code_of(made, features, inner, X86, cpu)


@pytest.mark.parametrize(
    ("make", "kind", "rows", "inner", "most", "spills"),
    [
        (product_tile, replace(AVX2, panel=1), 1, "vpmaddwd", 0.31, 0),
        (product_tile, AVX2, 4, "vpmaddwd", 0.21, 0),
        (grouped_tile, replace(IN_FOUR, panel=1), 1, "vpmaddubsw", 0.21, 0),
        (grouped_tile, IN_FOUR, 4, "vpmaddubsw", 0.12, 16),
        (unpacked_tile, IN_FOUR, 4, "vpmaddubsw", 0.10, 8),
    ],
    ids=["int8-1", "int8-4", "int4-1", "int4-4", "int4-unpacked"],
)
def test_avx2_takes_few_instructions_a_product(
    make: Callable[..., Any], kind: DotKind, rows: int, inner: str, most: float, spills: int
) -> None:
    """The loop is products and sums in registers; a group's sums of 32 bits alone may lie on the stack."""
    code = code_for("avx2", make(kind, rows, add=False), inner, "znver3")
    multiplied = {"vpmaddwd": 16, "vpmaddubsw": 32}[inner] * sum(line.startswith(inner) for line in code.loop)
    assert len(code.loop) / multiplied <= most
    assert code.spills <= spills


@pytest.mark.parametrize("make", [tiles.score_tile, tiles.mix_tile])
def test_attention_stays_in_avx2s_registers(make: Callable[[int, int], Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tiles, "REGISTERS", tiles.REGISTERS_OF_AVX2)
    code = code_for("avx2", make(7, 64), "vfmadd", "znver3")
    assert sum(line.startswith("vfmadd") for line in code.loop) >= 8
    assert code.spills == 0


@pytest.mark.parametrize(
    ("kind", "made", "needed", "forbidden"),
    [
        ("avx2", product_tile(AVX2, 4, add=True), "ymm", "zmm|vpdp|%k"),
        ("avx2", unpacked_tile(IN_FOUR, 4, add=True), "ymm", "zmm|vpdp|%k"),
        ("avx2", score_tile(7, 64), "ymm", "zmm|%k"),
        ("avx2", mix_tile(7, 64), "ymm", "zmm|%k"),
        ("vnni-256", product_tile(VNNI_256, 4, add=True), "vpdpbusd", "zmm|%k"),
        ("vnni-256", folded_tile(in_four_bits(VNNI_256), 4, add=True), "vpdpbusd", "zmm|%k"),
        ("vnni-512", score_tile(7, 64), "zmm", "tdp|tileload"),
    ],
)
def test_no_kind_uses_the_instructions_of_another(kind: str, made: Any, needed: str, forbidden: str) -> None:
    """LLVM would take VNNI's instruction for AVX2's and an addition, if it were told of VNNI."""
    code = "\n".join(code_for(kind, made, "v").whole)
    assert needed in code
    assert re.search(forbidden, code) is None
