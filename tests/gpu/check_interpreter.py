"""The Triton kernels against torch at every width, in fp32 and bf16; run by `scripts/test-gpu`, interpreted."""

import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from fastcoder_lsp.bench.gpu import works
from fastcoder_lsp.engine import static
from fastcoder_lsp.engine.static import triton_kernels
from fastcoder_lsp.engine.static.int8_product import MOST_INT8_ROWS
from fastcoder_lsp.engine.static.plan import STEP_WIDTHS
from tests.engine.planted import changed
from tests.engine.static_parts import MeanDevice
from tests.gpu.agreement import CHECKS, KERNELS_OF, Subject, kernels_of

assert os.environ.get("TRITON_INTERPRET") == "1", "run by scripts/test-gpu"
NEAR = {torch.float32: 2e-5, torch.bfloat16: 1.2e-2}
"""What another order of summation makes, and in bf16 what rounding in other places does."""
FAULTS = {
    "norm: not divided by the width": (
        "norm",
        "tl.sum(wide * wide, axis=0) / width + eps",
        "tl.sum(wide * wide, axis=0) + eps",
    ),
    "norm: the sum is not kept": ("norm", "tl.store(x + row + columns, values, mask=inside)", "pass"),
    "norm: another row's start": (
        "norm",
        "row = tl.program_id(0).to(tl.int64) * width",
        "row = tl.program_id(0).to(tl.int64) * (width + 1) * 0",
    ),
    "rotate: the sign": ("attend", "low.to(tl.float32) * cosine - high", "low.to(tl.float32) * cosine + high"),
    "rotate: values into the keys' slot": ("attend", "place = values + (head", "place = keys + (head"),
    "rotate: another slot": (
        "attend",
        "slot = tl.load(slots + row) * 2 * HALF",
        "slot = (tl.load(slots + row) + 1) * 2 * HALF",
    ),
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
    "activate: gate and up in exchange": (
        "activate",
        "row * 2 * columns + column, mask",
        "row * 2 * columns + columns - 1 - column, mask",
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
    "conclude: whoever comes first follows": ("conclude", "before == width - 1", "before == 0"),
    "conclude: once and never again": ("conclude", "tl.store(arrived, 0)", "pass"),
    "conclude: another row's word": ("conclude", "tl.store(said + row, found", "tl.store(said + row * 0, found"),
    "follow: nothing is moved": ("follow", "if child != target:", "if child < 0:"),
    "follow: states stay behind": (
        "follow",
        "        move_slot(states, held + child",
        "        move_slot(states, held + target",
    ),
    "follow: one slot too far": ("follow", "target = decided + taken", "target = decided + taken + 1"),
    "follow: more than there is room for": ("follow", "(taken < most)", "(taken < ROWS)"),
    "follow: from the first row on": ("follow", "node = decided - 1", "node = decided * 0"),
    "follow: whatever is guessed": ("follow", "(above == node) & (guess == token)", "(above == node)"),
    "follow: one panel too few": ("follow", "in range(0, panels, PANELS)", "in range(PANELS, panels, PANELS)"),
    "int8: no scale": ("int8", "total = total * tl.load(scale", "total = total + 0 * tl.load(scale"),
    "int8: the first split alone": ("int8", "for split in range(splits):", "for split in range(1):"),
}
"""What is wrong → which check must find it, and how the kernels' text is changed."""


CASES = [
    (check, width, kind)
    for check in CHECKS
    for width in STEP_WIDTHS
    for kind in ("qwen2", "starcoder2")
    # Interpreting takes its time: what does not depend on the kind is run for one, and so is what is wide.
    if not (kind == "starcoder2" and (check in ("best", "conclude", "follow", "int8") or width > 16))
    # Wider products go the plain way.
    if not (check == "int8" and width > MOST_INT8_ROWS)
]


@pytest.mark.parametrize("dtype", NEAR, ids=str)
@pytest.mark.parametrize(("check", "width", "kind"), CASES)
def test_kernels_say_what_torch_says(check: str, width: int, kind: str, dtype: torch.dtype) -> None:
    """Norms, rotation with storing, tree attention over several splits, activations, best ids, int8 products."""
    assert CHECKS[check](Subject(kind, dtype), width) <= NEAR[dtype]


@pytest.mark.parametrize("dtype", NEAR, ids=str)
@pytest.mark.parametrize(
    ("cached", "width", "count"), [(0, 1, 1), (0, 16, 11), (63, 64, 50), (320, 64, 64), (352, 32, 3)]
)
def test_attention_at_the_edges(cached: int, width: int, count: int, dtype: torch.dtype) -> None:
    """An empty cache, rows that are padding, text that ends with a tile, the last slot of the bucket."""
    assert Subject("qwen2", dtype).attend(width, count=count, cached=cached) <= NEAR[dtype]


@pytest.mark.parametrize("fault", FAULTS)
def test_a_planted_fault_is_found(fault: str, tmp_path: Path) -> None:
    """Each of these changes of the kernels makes its check fail; a check that cannot fail proves nothing."""
    check, old, new = FAULTS[fault]
    faulty = changed(KERNELS_OF[check], tmp_path, {old: new})
    subject = Subject("qwen2", torch.float32)
    with kernels_of(faulty, KERNELS_OF[check]):
        found = subject.attend(16, count=11) if check == "attend" else CHECKS[check](subject, 5)
    assert found > NEAR[torch.float32]


def test_a_first_look_at_a_gpu_tells_of_planted_faults(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its question about kernels is answered "works" for sound ones, and not for a fault."""
    device = MeanDevice(1 << 30)
    bench: Any = SimpleNamespace(device=device, synchronize=lambda: None)
    monkeypatch.setattr(works, "CHAINS", 1)
    assert works._kernels(bench, overlapped=False) == works.WORKS
    assert works._kernels(bench, overlapped=True) == "not on this GPU"
    _, old, new = FAULTS["activate: gate and up in exchange"]
    faulty = changed(triton_kernels, tmp_path, {old: new})
    monkeypatch.setattr(static, "triton_kernels", faulty)
    assert "not torch's" in works._kernels(bench, overlapped=False)
