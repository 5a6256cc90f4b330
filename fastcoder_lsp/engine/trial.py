"""The graph engine beside the eager one, once on each GPU and model: do they say the same, and which is quicker?

Owns the comparison, which runs in a process of its own with a time limit, so that a fault in a program of the GPU costs
the trial and not the server; and the record of what was found. Where anything is in doubt the eager engine is taken.
"""

import hashlib
import json
import logging
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from fastcoder_lsp import __version__
from fastcoder_lsp.core import DraftTree, Engine
from fastcoder_lsp.engine.loader import Job, load_engine, prepare
from fastcoder_lsp.engine.options import EngineOptions

logger = logging.getLogger(__name__)
PLAIN, GRAPHS = "cuda-bf16", "cuda-graphs"
SECONDS = 420.0
"""The whole trial at most: two loads, and kernels that are compiled for the first time."""
ATTEMPTS = 2
"""Trials that may end without an outcome, by a crash or by being killed, before none is begun any more."""
PROMPT, TOKENS, ROWS, TIMED = 200, 48, 16, 20
TIE = 0.5
"""The two best logits are nearer to each other than two orders of summation in bf16 may bring them."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """Which kind is taken, why, in the user's words, and milliseconds of a step by kind and rows."""

    chosen: str
    reason: str
    ms: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Said:
    """What an engine says: tokens, how far the second best was, what a tree's rows say, milliseconds by rows."""

    tokens: tuple[int, ...]
    gaps: tuple[float, ...]
    accepted: int
    ms: tuple[float, float]


def choose(
    job: Job,
    machine: str,
    *,
    kinds: tuple[str, str] = (PLAIN, GRAPHS),
    command: Callable[[Path], list[str]] | None = None,
) -> Verdict:
    """The kind for this model on this machine: remembered, or found out now.

    Args:
        job: what is to be loaded.
        machine: names the GPU and the versions of what drives it.
        kinds: the one that is taken in doubt, and the one that is tried.
        command: of the trial's process, given the folder of its request; a test brings its own.
    """
    key = f"{__version__} {machine} {job.digest} {job.context} {kinds}"
    record = job.cache / "tuning" / f"engine-{hashlib.sha256(key.encode()).hexdigest()[:16]}.json"
    known = _read(record)
    if known.get("chosen") in kinds:
        return Verdict(known["chosen"], known["reason"], known["ms"])
    attempts = int(known.get("attempts", 0))
    if attempts >= ATTEMPTS:
        return Verdict(kinds[0], f"{kinds[1]} is not used: its trial did not end, {attempts} times", {})
    _write(record, {"attempts": attempts + 1})
    job.progress(0.0, "comparing engines on this GPU, once")
    verdict = _tried(job, kinds, record.with_suffix(".trial"), command or _command)
    if verdict is None:
        return Verdict(kinds[0], f"{kinds[1]} is not used: its trial failed; the log says how", {})
    _write(record, asdict(verdict))
    return verdict


def _tried(job: Job, kinds: tuple[str, str], folder: Path, command: Callable[[Path], list[str]]) -> Verdict | None:
    """Run the trial in its own process; None where it came to no verdict."""
    folder.mkdir(parents=True, exist_ok=True)
    outcome = folder / "outcome.json"
    outcome.unlink(missing_ok=True)
    request = {
        **{name: str(getattr(job, name)) for name in ("folder", "name", "source", "digest", "cache", "kernels")},
        "options": asdict(job.options),
        "kinds": list(kinds),
    }
    (folder / "request.json").write_text(json.dumps(request), encoding="utf-8")
    try:
        done = subprocess.run(
            command(folder),
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,  # a server's own belongs to its protocol
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            timeout=SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as why:
        logger.warning("the trial of %s ended without an outcome: %s", kinds[1], why)
        return None
    found = _read(outcome)
    if found.get("chosen") not in kinds:
        logger.warning("the trial of %s ended with %s: %s", kinds[1], done.returncode, done.stderr[-2000:])
        return None
    return Verdict(found["chosen"], found["reason"], found["ms"])


def _command(folder: Path) -> list[str]:
    """Not from the folder that it is started in: a workspace is no place to take programs from."""
    return [sys.executable, "-P", "-m", "fastcoder_lsp.engine.trial", str(folder)]


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
    _write(folder / "outcome.json", asdict(compare(job, (first, second))))


def compare(job: Job, kinds: tuple[str, str]) -> Verdict:
    """Both engines, one after the other: the second follows the first one's text, so that one tie costs one token."""
    found: list[Said] = []
    for kind in kinds:
        options = replace(job.options, kind=kind)  # type: ignore[arg-type]  # a key of `Kind`
        engine = load_engine(replace(job, options=options))
        if engine.info.name != kind:
            return Verdict(kinds[0], f"{kinds[1]} is not used: {engine.info.name} runs where {kind} was wanted", {})
        found.append(_listen(engine, found[0].tokens if found else ()))
        engine.close()
        del engine
    return judge(kinds, found[0], found[1])


def judge(kinds: tuple[str, str], plain: Said, graphs: Said) -> Verdict:
    """The second where it says what the first does, but for ties, and takes less time for one row and for many."""
    ms = {
        f"{kind}, {rows} rows": each
        for kind, said in zip(kinds, (plain, graphs), strict=True)
        for rows, each in zip((1, ROWS), said.ms, strict=True)
    }
    wrong = sum(
        left != right and gap > TIE for left, right, gap in zip(plain.tokens, graphs.tokens, plain.gaps, strict=True)
    )
    times = ", ".join(f"{name} {each:.2f} ms" for name, each in ms.items())
    if wrong:
        return Verdict(kinds[0], f"{kinds[1]} is not used: it says something else at {wrong} of {TOKENS} tokens", ms)
    if graphs.accepted < plain.accepted - 1:
        return Verdict(kinds[0], f"{kinds[1]} is not used: it accepts fewer drafts", ms)
    if sum(graphs.ms) >= sum(plain.ms):
        return Verdict(kinds[0], f"{kinds[1]} is no quicker here: {times}", ms)
    return Verdict(kinds[1], f"{kinds[1]} was compared once and is quicker: {times}", ms)


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


def _read(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def _write(path: Path, value: Mapping[str, Any]) -> None:
    """A folder that cannot be written costs a trial at the next start, no more."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        new = path.with_suffix(".new")
        new.write_text(json.dumps(value, indent=1) + "\n", encoding="utf-8")
        new.replace(path)
    except OSError as error:
        logger.warning("%s cannot be kept: %s", path, error)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
