"""Part 5, too: does the graph engine say what transformers says, given the same random weights?

Owns the comparison: another program's forward over the same text, in one pass where ours took steps from a KV cache.
"""

from dataclasses import dataclass

import torch

from benchmarks.gpu import peers
from benchmarks.gpu.loop import Prompter, decode
from benchmarks.gpu.machine import Bench, say
from benchmarks.gpu.shapes import Named
from benchmarks.gpu.steps import bench_prompt
from fastcoder_lsp.draft.none import NoDrafter

ROUNDED = 0.2
"""Logits of these weights spread by about one; in bf16 rounding moves them by a few hundredths, and not by so much."""
NODES = 16


@dataclass(frozen=True, slots=True)
class Agreement:
    """`tokens` compared; `gaps`: at each that differs, how much the other one is worth more by transformers' logits."""

    tokens: int
    gaps: tuple[float, ...]

    @property
    def sound(self) -> bool:
        """Whether all that differs are ties but for rounding."""
        return max(self.gaps, default=0.0) <= ROUNDED


@torch.inference_mode()
def measure(bench: Bench, model: Named, kernels: str) -> dict[str, Agreement]:
    """What plain and drafted decoding say, each against transformers over that very text."""
    network = peers.make(bench, model)
    engine = bench.engine(model, kernels)
    prompts, count = (2, 12) if bench.smoke else (6, 64)
    gaps: dict[str, list[float]] = {"plain": [], "drafted": []}
    for number in range(prompts):
        prompt = bench_prompt(model, 100 + 70 * number)
        plain = decode(engine, NoDrafter(), prompt, count, 1).tokens
        drafted = decode(engine, Prompter(plain, model.shape.vocabulary, seed=number), prompt, count, NODES).tokens
        for name, said in (("plain", plain), ("drafted", drafted)):
            ids = torch.tensor([[*prompt, *said]], device=bench.device.place)
            logits_NV = network(ids, logits_to_keep=count + 1).logits[0, :-1].float()
            said_N1 = ids[0, len(prompt) :, None]
            apart_N = logits_NV.amax(1) - logits_NV.gather(1, said_N1)[:, 0]
            gaps[name] += [gap for gap in apart_N.tolist() if gap > 0]
    engine.close()
    del network
    bench.tidy()
    found = {name: Agreement(prompts * count, tuple(each)) for name, each in gaps.items()}
    say(f"{model.name}: not as transformers says: " + ", ".join(f"{len(a.gaps)} of {a.tokens}" for a in found.values()))
    return found
