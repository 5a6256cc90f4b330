"""Part 5: does drafting change what is said? Strict and free widths, greedy and sampled, on random weights.

Owns the comparison: plain decoding by one engine, drafted decoding by the same; at each first difference the distance
of the two best logits tells a tie from a mistake.
"""

from dataclasses import dataclass

from benchmarks.common.gap import top_two_gap
from benchmarks.gpu.loop import Prompter, decode
from benchmarks.gpu.machine import Bench, say
from benchmarks.gpu.shapes import Named
from benchmarks.gpu.steps import bench_prompt
from fastcoder_lsp.core import GREEDY, Engine, Sampler
from fastcoder_lsp.draft.none import NoDrafter
from fastcoder_lsp.engine.prefix import common_prefix

WIDTHS = (2, 8, 16, 33, 64)


@dataclass(frozen=True, slots=True)
class Exactness:
    """`prompts` compared over `tokens` tokens; `gaps`: of the two best logits where a text first differs."""

    mode: str
    prompts: int
    tokens: int
    gaps: tuple[float, ...]

    @property
    def per_thousand(self) -> float:
        """First differences in a thousand tokens."""
        return 1e3 * len(self.gaps) / self.tokens


def measure(bench: Bench, model: Named, kernels: str) -> list[Exactness]:
    """Strict first: there must be no difference. Then free widths, whose differences are counted."""
    found = []
    for mode, strict in (("strict", True), ("free", False)):
        engine = bench.engine(model, "torch" if strict else kernels, strict=strict)
        found.append(compare(engine, mode, bench, model))
        engine.close()
        bench.tidy()
        say(f"{model.name}, {mode}: {len(found[-1].gaps)} of {found[-1].prompts} differ")
    return found


def compare(engine: Engine, mode: str, bench: Bench, model: Named) -> Exactness:
    """Every prompt plainly and drafted, greedily and sampled in turns."""
    prompts, count = (4, 12) if bench.smoke else (20, 96)
    gaps, tokens = list[float](), 0
    for number in range(prompts):
        sampler = Sampler(0.8, seed=number) if number % 2 else GREEDY
        prompt = bench_prompt(model, 100 + 17 * number)
        plain = decode(engine, NoDrafter(), prompt, count, 1, sampler).tokens
        prompter = Prompter(plain, model.shape.vocabulary, seed=number)
        drafted = decode(engine, prompter, prompt, count, WIDTHS[number % len(WIDTHS)], sampler).tokens
        same = common_prefix(plain, drafted)
        tokens += same
        if same < len(plain):
            gaps.append(top_two_gap(engine, [*prompt, *plain[:same]]))
    return Exactness(mode, prompts, tokens, tuple(gaps))
