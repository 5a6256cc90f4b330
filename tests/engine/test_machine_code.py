"""Machine code of byte products as LLVM makes it for x86 and ARM, and the fast cores that threads use."""

import os
import re
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil
import pytest

from fastcoder_lsp.engine.int4.grouped import grouped_tile, unpacked_tile
from fastcoder_lsp.engine.int4.unfold import folded_tile
from fastcoder_lsp.engine.int8 import neon, sync, tiles
from fastcoder_lsp.engine.int8.dot import AVX2, NEON_DOT, NEON_I8MM, SIZE, VNNI_256, DotKind, in_four_bits
from fastcoder_lsp.engine.int8.sync import default_threads, fast_by_capacity, fast_cores
from fastcoder_lsp.engine.int8.tiles import mix_tile, product_tile, score_tile
from fastcoder_lsp.kernels.processor import limited
from tests.engine.assembly import X86, Code, code_of

COLUMNS = 16
"""Columns of a tile."""


@pytest.mark.parametrize(
    ("kind", "rows", "inner", "most"),
    [
        (NEON_DOT, 1, "sdot", 0.15),
        (NEON_DOT, 2, "sdot", 0.15),
        (NEON_DOT, 4, "sdot", 0.15),
        (NEON_I8MM, 2, "usmmla", 0.08),
        (NEON_I8MM, 4, "usmmla", 0.08),
        (NEON_I8MM, 1, "usmmla", 0.08),
        (in_four_bits(NEON_DOT), 4, "sdot", 0.15),
        (in_four_bits(NEON_I8MM), 4, "usmmla", 0.08),
    ],
    ids=lambda value: value.name if isinstance(value, DotKind) else str(value),
)
def test_instructions_a_byte_product(kind: DotKind, rows: int, inner: str, most: float) -> None:
    code = code_of(neon.neon_tile(kind, rows, add=False), features_of(kind), inner)
    registers = neon.TURN if rows == 1 and inner == "usmmla" else 1
    assert len(code.loop) / (registers * SIZE * COLUMNS * rows) <= most
    assert code.spills == 0


def test_a_row_alone_loads_four_registers_at_once() -> None:
    code = code_of(neon.neon_tile(NEON_I8MM, 1, add=False), "+dotprod,+i8mm", "usmmla")
    products = sum(line.startswith("usmmla") for line in code.loop)
    loads = [line for line in code.loop if line.startswith("ld")]
    assert products == neon.TURN * COLUMNS
    assert len(loads) == (products + neon.TURN) // 4
    assert all(line.startswith("ld1") and line.endswith("#64") for line in loads)


@pytest.mark.parametrize("rows", [1, neon.FOLDED_ROWS_OF_NEON])
@pytest.mark.parametrize("kind", [in_four_bits(NEON_DOT), in_four_bits(NEON_I8MM)], ids=lambda kind: kind.name)
def test_four_bits_are_unfolded_in_registers(kind: DotKind, rows: int) -> None:
    code = code_of(neon.neon_folded_tile(kind, rows, add=False), features_of(kind), "su" if kind.eights else "sdot")
    assert len(code.loop) / (32 * COLUMNS * rows) <= 0.2
    assert code.spills == 0


def features_of(kind: DotKind) -> str:
    return "+dotprod,+i8mm" if kind.eights else "+dotprod"


@pytest.mark.parametrize("make", [tiles.score_tile, tiles.mix_tile])
def test_attention_stays_in_registers(make: Callable[[int, int], Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tiles, "REGISTERS", tiles.REGISTERS_OF_NEON)
    code = code_of(make(7, 64), "+dotprod", "fmla")
    assert sum(line.startswith("fmla") for line in code.loop) >= 16
    assert code.spills == 0


def test_threads_see_what_was_written_before() -> None:
    adding = [line.split()[0] for line in code_of(sync.fetch_add, "+lse", "ldadd").whole]
    assert "ldaddal" in adding
    looking = [line.split()[0] for line in code_of(sync.load_shared, "+lse", "lda").whole]
    assert "ldar" in looking
    without = [line.split()[0] for line in code_of(sync.fetch_add, "", "ldaxr").whole]
    assert {"ldaxr", "stlxr"} <= set(without)


def test_waiting_rests_the_core() -> None:
    """An ARM core that waits does nothing for a moment between two looks."""
    assert "isb" in code_of(sync.rest, "", "isb").whole


@pytest.mark.parametrize(
    ("capacities", "expected"),
    [
        ([], None),
        ([1024] * 4, None),  # one kind
        ([446] * 4 + [1024] * 2, 2),  # RK3399: little ones first
        ([1024, 871, 871, 871, 323, 323, 323, 323], 4),  # one prime core, three large ones, four small ones
    ],
)
def test_small_cores_do_not_count(capacities: list[int], expected: int | None) -> None:
    assert fast_by_capacity(capacities) == expected


def test_capacities_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sync, "is_arm", lambda: True)
    monkeypatch.setattr(sys, "platform", "linux")
    for number, text in enumerate(["446\n", "446\n", "1024\n", "odd"]):
        (tmp_path / f"cpu{number}").mkdir()
        (tmp_path / f"cpu{number}" / "cpu_capacity").write_text(text)
    (tmp_path / "cpufreq").mkdir()
    assert fast_cores(tmp_path) == 1
    assert fast_cores(tmp_path / "absent") is None


@pytest.mark.parametrize(
    ("listed", "usable", "expected"),
    [
        ("0-7\n", range(16), 4),  # four performance cores with two threads each, eight small ones
        ("0-7\n", range(2, 16), 3),  # a container without the first core
        ("0-7\n", range(8, 16), None),  # small cores alone
        ("0,2,4-5\n", range(16), 3),
        ("\n", range(16), None),
        ("0-x\n", range(16), None),
    ],
)
def test_performance_cores_of_an_intel_cpu_are_counted_by_their_physical_cores(
    listed: str, usable: range, expected: int | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setattr(os, "sched_getaffinity", lambda _process: usable, raising=False)
    for cpu in range(8):
        (tmp_path / f"cpu{cpu}" / "topology").mkdir(parents=True)
        (tmp_path / f"cpu{cpu}" / "topology" / "thread_siblings_list").write_text(
            f"{cpu // 2 * 2}-{cpu // 2 * 2 + 1}\n"
        )
    (tmp_path / "cpus").write_text(listed)
    assert fast_cores(tmp_path, tmp_path / "cpus") == expected


def test_macos_counts_them_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    """Level 0 is the performance cores'; a Mac of one kind, and one that does not say, has no such level."""
    monkeypatch.setattr(sync, "is_arm", lambda: True)
    monkeypatch.setattr(sys, "platform", "darwin")
    for levels, cores, expected in ((2, 4, 4), (1, 8, None), (0, 0, None)):
        said = {b"hw.nperflevels": levels, b"hw.perflevel0.physicalcpu": cores}
        monkeypatch.setattr(sync, "sysctl", said.__getitem__)
        assert fast_cores() == expected


def test_threads_are_at_most_the_fast_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _process: range(8), raising=False)
    monkeypatch.setattr(psutil, "cpu_count", lambda logical: 6)
    monkeypatch.setattr(sync, "fast_cores", lambda: 2)
    assert default_threads() == 2
    monkeypatch.setattr(sync, "fast_cores", lambda: None)
    assert default_threads() == 6


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
