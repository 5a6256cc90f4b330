"""The trial's own process: two kinds of engine, one after the other, and what each says in which time.

Owns the comparison; who wants to know waits in `trial`.
"""

import json
import statistics
import sys
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from fastcoder_lsp.core import DraftTree, Engine
from fastcoder_lsp.engine.job import Job, prepare
from fastcoder_lsp.engine.loader import BITS, load_engine
from fastcoder_lsp.engine.options import EngineOptions
from fastcoder_lsp.engine.trial import Verdict, write_json

PROMPT, TOKENS, ROWS, TIMED = 200, 48, 16, 20
TIE = 0.5
"""The two best logits are nearer to each other than two orders of summation in bf16 may bring them."""


@dataclass(frozen=True, slots=True)
class Said:
    """What an engine says: tokens, how far the second best was, what a tree's rows say, milliseconds by rows."""

    tokens: tuple[int, ...]
    gaps: tuple[float, ...]
    accepted: int
    ms: tuple[float, float]


def main(folder: Path) -> None:
    """The trial's process."""
    request: Mapping[str, Any] = json.loads((folder / "request.json").read_text(encoding="utf-8"))
    job = prepare(
        Path(request["folder"]),
        request["name"],
        request["source"],
        request["digest"],
        options=EngineOptions(**request["options"]),
        cache=Path(request["cache"]),
        kernels=Path(request["kernels"]),
        progress=lambda _share, _what: None,
        enter=lambda _stage: None,
    )
    first, second = request["kinds"]
    write_json(folder / "outcome.json", asdict(compare(job, (first, second))))


def compare(job: Job, kinds: tuple[str, str]) -> Verdict:
    """Both engines, one after the other: the second follows the first one's text, so that one tie costs one token."""
    found: list[Said] = []
    for kind in kinds:
        options = replace(job.options, kind=kind)  # type: ignore[arg-type]  # a key of `Kind`
        engine = load_engine(replace(job, options=options))
        if engine.info.name != kind:
            return Verdict(kinds[0], f"{kinds[1]} is not used: {kind} fell back to {engine.info.name}", {})
        found.append(_listen(engine, found[0].tokens if found else ()))
        engine.close()
        del engine
    return judge(kinds, found[0], found[1])


def judge(kinds: tuple[str, str], plain: Said, graphs: Said) -> Verdict:
    """The second where it says what the first does, but for ties, and takes less time for one row and for many.

    Engines whose weights are rounded differently may say different things: of them, time alone decides.
    """
    ms = {
        f"{kind}, {rows} rows": each
        for kind, said in zip(kinds, (plain, graphs), strict=True)
        for rows, each in zip((1, ROWS), said.ms, strict=True)
    }
    wrong = sum(
        left != right and gap > TIE for left, right, gap in zip(plain.tokens, graphs.tokens, plain.gaps, strict=True)
    )
    times = ", ".join(f"{name} {each:.2f} ms" for name, each in ms.items())
    alike = kinds[0] not in BITS
    if alike and wrong:
        return Verdict(kinds[0], f"{kinds[1]} is not used: it gives other tokens at {wrong} of {TOKENS} places", ms)
    if alike and graphs.accepted < plain.accepted - 1:
        return Verdict(kinds[0], f"{kinds[1]} is not used: it accepts fewer drafts", ms)
    if sum(graphs.ms) >= sum(plain.ms):
        return Verdict(kinds[0], f"{kinds[1]} is not faster here: {times}", ms)
    return Verdict(kinds[1], f"{kinds[1]} is faster here: {times}", ms)


def _listen(engine: Engine, follow: tuple[int, ...]) -> Said:
    """What an engine says step by step, along `follow` where that is given, along itself where not."""
    vocabulary = engine.info.vocabulary
    prompt = [(31 * place + 7) % min(vocabulary, 997) for place in range(min(PROMPT, engine.info.context // 2))]
    engine.prefill(prompt[:-1], lambda: False)
    tokens, gaps, last = list[int](), list[float](), prompt[-1]
    for place in range(TOKENS):
        step = engine.step(DraftTree.chain([last]), top_k=2)
        assert step.top_logits_NK is not None, "asked for"
        tokens.append(step.emitted[0])
        gaps.append(float(step.top_logits_NK[0, 0] - step.top_logits_NK[0, 1]))
        last = follow[place] if follow else tokens[-1]
    truth = follow or tuple(tokens)
    engine.prefill(prompt[:-1], lambda: False)
    guesses = (prompt[-1], *truth[: ROWS - 1])
    accepted = len(engine.step(DraftTree(guesses, tuple(range(-1, ROWS - 1)))).path)
    return Said(tuple(tokens), tuple(gaps), accepted, (_step_ms(engine, prompt, 1), _step_ms(engine, prompt, ROWS)))


def _step_ms(engine: Engine, prompt: list[int], rows: int) -> float:
    """Median milliseconds of a step, whatever of it is accepted."""
    tree = DraftTree((prompt[-1], *range(rows - 1)), (-1, *[0] * (rows - 1)))
    taken = []
    for _ in range(TIMED):
        engine.prefill(prompt[:-1], lambda: False)
        started = time.perf_counter()
        engine.step(tree)
        taken.append((time.perf_counter() - started) * 1e3)
    return statistics.median(taken)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
