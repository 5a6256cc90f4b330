"""The Triton kernels against torch at every width, in fp32 and bf16; run by `scripts/test-gpu`, interpreted."""

import os
from pathlib import Path

import pytest
import torch

from benchmarks.fused import FUSED, kernels_by_name, triton_kernels
from fastcoder_lsp.engine.static import plan
from fastcoder_lsp.engine.static.build import build
from fastcoder_lsp.engine.static.cache import StaticCache
from fastcoder_lsp.engine.static.plan import STEP_WIDTHS
from tests.engine.planted import changed
from tests.engine.static_parts import MeanDevice, tiny_recipe
from tests.gpu.agreement import CHECKS, Subject, kernels_of, mend_products

assert os.environ.get("TRITON_INTERPRET") == "1", "run by scripts/test-gpu"
NEAR = {torch.float32: 2e-5, torch.bfloat16: 1.2e-2}
"""What another order of summation makes, and in bf16 what rounding in other places does."""
FAULTS = {
    "attend: a row sees its younger brothers": (
        "attend",
        "(place_of_row[:, None] < leave[None, :])",
        "(place_of_row[:, None] < leave[None, :] + 1)",
    ),
    "attend: one slot of the text too few": ("attend", "(beyond < 0)[None, :])", "(beyond < -1)[None, :])"),
    "attend: padding sees the text": ("attend", "real = place_of_row < ", "real = place_of_row >= 0 * "),
    "attend: the last tile is left out": (
        "attend",
        "end = tl.minimum(start + span, held + width)",
        "end = tl.minimum(start + span - TILE, held + width)",
    ),
    "attend: sums are not shrunk": ("attend", "total = total * shrink + ", "total = total + "),
    "attend: no scale": ("attend", 'input_precision="ieee") * factor', 'input_precision="ieee")'),
    "join: splits weigh the same": (
        "attend",
        "weight = tl.where(there, tl.exp(best - tl.max(best, axis=0)), 0.0)",
        "weight = tl.where(there, 1.0, 0.0)",
    ),
    "best: ties to the highest chunk": (
        "best",
        "tl.min(tl.where(left == key, chunk, CHUNKS - 1), axis=0)",
        "tl.max(tl.where(left == key, chunk, 0), axis=0)",
    ),
    "best: an id twice": (
        "best",
        "(keys == last_key) & (id_ > last_id))\n        found",
        "(keys == last_key) & (id_ >= last_id))\n        found",
    ),
    "best: negative logits in the wrong order": ("best", "return bits ^ ((bits >> 31) & 0x7FFFFFFF)", "return bits"),
    "best: the rest of a row is left out": (
        "best",
        "inside = ids < vocabulary\n",
        "inside = ids < vocabulary - vocabulary % CHUNK\n",
    ),
    "conclude: the first program follows": ("conclude", "if before == width - 1:", "if row == 0:"),
    "conclude: once and never again": ("conclude", "tl.store(arrived, 0)", "pass"),
    "conclude: another row's word": ("conclude", "tl.store(said + row, found", "tl.store(said + row * 0, found"),
    "follow: nothing is moved": ("conclude", "if child != target:", "if child < 0:"),
    "follow: one slot too far": (
        "conclude",
        "tl.load(kept + 1 + place), decided + place",
        "tl.load(kept + 1 + place), decided + place + 1",
    ),
    "follow: more than there is room for": ("conclude", "(taken < most)", "(taken < ROWS)"),
    "follow: from the first row on": ("conclude", "node = decided - 1", "node = decided * 0"),
    "follow: whatever is guessed": ("conclude", "(above == node) & (guess == token)", "(above == node)"),
    "follow: the first panels alone": ("conclude", "tl.program_id(0) * PANELS", "tl.program_id(0) * 0"),
    "follow: the first numbers of a panel alone": (
        "conclude",
        "for begin in range(0, length, LANES):",
        "for begin in range(0, 8, LANES):\n                length = 8",
    ),
}
"""What is wrong → which check must find it, and how the kernels' text is changed."""


@pytest.mark.parametrize(
    ("check", "width", "dtype"),
    [(check, width, torch.float32) for check in CHECKS for width in STEP_WIDTHS]
    + [(check, width, torch.bfloat16) for check in CHECKS for width in (1, 8, 32)],
    ids=str,
)
def test_kernels_say_what_torch_says(check: str, width: int, dtype: torch.dtype) -> None:
    assert CHECKS[check](Subject(dtype), width) <= NEAR[dtype]


@pytest.mark.parametrize("dtype", NEAR, ids=str)
@pytest.mark.parametrize(
    ("cached", "width", "count"), [(0, 1, 1), (0, 16, 11), (63, 64, 50), (320, 64, 64), (352, 32, 3)]
)
def test_attention_at_the_edges(cached: int, width: int, count: int, dtype: torch.dtype) -> None:
    assert Subject(dtype).attend(width, count=count, cached=cached) <= NEAR[dtype]


@pytest.mark.parametrize("fault", FAULTS)
def test_a_planted_fault_is_found(fault: str, tmp_path: Path) -> None:
    """Each of these changes of the kernels makes its check fail; a check that cannot fail proves nothing."""
    check, old, new = FAULTS[fault]
    faulty = changed(triton_kernels, tmp_path, {old: new})
    subject = Subject(torch.float32)
    with kernels_of(faulty):
        found = subject.attend(16, count=11) if check == "attend" else CHECKS[check](subject, 5)
    assert found > NEAR[torch.float32]


def test_states_that_stay_behind_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """A planted fault of the launching code: keys and values are moved, hidden states are not."""
    panels = StaticCache.panels
    monkeypatch.setattr(StaticCache, "panels", lambda cache: panels(cache)[:1])
    assert Subject(torch.float32).conclude(5) == float("inf")


@pytest.mark.parametrize("fault", [None, "attend: no scale"])
def test_the_check_at_the_start(fault: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mend_products()
    monkeypatch.setattr(plan, "STEP_WIDTHS", (1, 32))
    recipe = tiny_recipe(tmp_path, kernels=kernels_by_name(FUSED), warm_up=False, context=300)
    if fault is None:
        assert "kernels: fused" in build(recipe, MeanDevice(1 << 40)).info.notes
        return
    _, old, new = FAULTS[fault]
    with kernels_of(changed(triton_kernels, tmp_path, {old: new})):
        engine = build(recipe, MeanDevice(1 << 40))
    assert any(note.startswith("kernels: torch; fused ones are not used: ") for note in engine.info.notes)
