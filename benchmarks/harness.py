"""Shared by benchmarks: decode requests, kept answers, reports, means and their errors."""

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from math import sqrt
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

import numpy as np
import numpy.typing as npt
from typing_extensions import override

from fastcoder_lsp.bench.report import write_json
from fastcoder_lsp.cli.options import option
from fastcoder_lsp.core import (
    GREEDY,
    DraftTree,
    Engine,
    EngineInfo,
    Engines,
    Prefilled,
    Sampler,
    ShouldStop,
    Tokens,
    Verified,
)
from fastcoder_lsp.decode.loop import DecodeRequest
from fastcoder_lsp.observe import percentile
from fastcoder_lsp.prompt import Prompt
from fastcoder_lsp.prompt.anchor import allowed
from fastcoder_lsp.tokenizer import Tokenizer


@dataclass(frozen=True, slots=True, kw_only=True)
class Reported:
    json: Path | None = option("write the full results to FILE", None, metavar="FILE")


NODES = 16
"""Rows of one verification where a benchmark says nothing else."""


def decode_request(
    tokenizer: Tokenizer,
    prompt: Sequence[int],
    max_tokens: int,
    *,
    cut: Callable[[str], int | None] | None = None,
    healing: bytes = b"",
    sampler: Sampler = GREEDY,
    document: str = "",
    nodes: int = NODES,
) -> DecodeRequest:
    """A request to decode after `prompt`; the fields are those of `DecodeRequest`."""
    return DecodeRequest(
        prompt=tuple(prompt),
        max_tokens=max_tokens,
        end_ids=tokenizer.end_ids,
        piece=tokenizer.piece,
        allow=partial(allowed, tokenizer),
        cut=cut or (lambda _text: None),
        healing=healing,
        sampler=sampler,
        document=document,
        nodes=nodes,
    )


def line_end(text: str) -> int | None:
    end = text.find("\n")
    return end if end >= 0 else None


def top_two_gap(engine: Engine, tokens: Sequence[int]) -> float:
    engine.prefill(tokens[:-1], lambda: False)
    best = engine.step(DraftTree.chain(tokens[-1:]), top_k=2).top_logits_NK
    assert best is not None, "asked for two, got none"
    return float(best[0, 0] - best[0, 1])


class WrappedEngine(Engine):
    """An engine that passes everything on; a subclass changes some of it."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    @property
    @override
    def info(self) -> EngineInfo:
        return self._engine.info

    @override
    def prefill(self, tokens: Tokens, should_stop: ShouldStop) -> Prefilled:
        return self._engine.prefill(tokens, should_stop)

    @override
    def step(
        self,
        tree: DraftTree,
        sampler: Sampler = GREEDY,
        allowed: Mapping[int, npt.NDArray[np.int64]] | None = None,
        top_k: int = 0,
    ) -> Verified:
        return self._engine.step(tree, sampler, allowed, top_k)

    @override
    def cached(self) -> tuple[int, ...]:
        return self._engine.cached()

    @override
    def close(self) -> None:
        self._engine.close()


class WrappedEngines(Engines):
    """Engines whose slots are wrapped by `wrap`, which gets an engine and its slot's name."""

    def __init__(self, engines: Engines, wrap: Callable[[Engine, str], Engine]) -> None:
        self._engines, self._wrap = engines, wrap
        self._slots: dict[tuple[str, bool], Engine] = {}

    @property
    @override
    def info(self) -> EngineInfo:
        return self._engines.info

    @override
    def slot(self, name: str) -> Engine:
        return self._slots.setdefault((name, False), self._wrap(self._engines.slot(name), name))

    @override
    def second_cache(self, name: str) -> Engine | None:
        engine = self._engines.second_cache(name)
        return None if engine is None else self._slots.setdefault((name, True), self._wrap(engine, name))

    @override
    def exchange(self, name: str) -> None:
        self._drop(name)
        self._engines.exchange(name)

    @override
    def swap(self, name: str) -> None:
        self._drop(name)
        self._engines.swap(name)

    @override
    def forget(self, name: str) -> None:
        self._drop(name)
        self._engines.forget(name)

    @override
    def rename(self, old: str, new: str) -> None:
        self._drop(old)
        self._drop(new)
        self._engines.rename(old, new)

    @override
    def close(self) -> None:
        self._engines.close()

    def _drop(self, name: str) -> None:
        for beside in (False, True):
            self._slots.pop((name, beside), None)


def key(identity: str, prompt: Prompt, limit: str) -> str:
    """Names one answer: by whom, to what, up to which end."""
    asked = [identity, list(prompt.tokens), prompt.healing.hex(), limit]
    return hashlib.sha256(json.dumps(asked).encode()).hexdigest()[:32]


class KeptRows:
    """Rows that outlive a run, each named by its "key": a file to which lines are only appended; the last one counts.

    `path`: None keeps nothing.
    """

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self.rows: dict[str, dict[str, Any]] = {}
        self._torn = False
        for line in path.read_text(encoding="utf-8").splitlines(keepends=True) if path and path.exists() else ():
            self._torn = not line.endswith("\n")
            try:
                row = json.loads(line)
            except json.JSONDecodeError:
                continue  # the last line of a run that was killed
            if "key" in row:
                self.rows[row["key"]] = row

    def put(self, name: str, **values: Any) -> None:
        """Keep a row; on disk when this returns."""
        row = self.rows[name] = {"key": name, **values}
        if self._path is not None:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            with self._path.open("a", encoding="utf-8") as file:
                file.write("\n" * self._torn + json.dumps(row) + "\n")
            self._torn = False


class Answers(KeptRows):
    """key → the text that was generated."""

    def get(self, name: str, make: Callable[[], str]) -> str:
        """The kept text, or the one that `make` gives, which is kept from now on."""
        if name not in self.rows:
            self.put(name, text=make())
        return str(self.rows[name]["text"])


def write(options: Reported, benchmark: str, results: Mapping[str, Any], **settings: Any) -> None:
    """Write the report that `--json` asks for: its settings are the options, and what they came to."""
    if options.json is not None:
        told = json.loads(json.dumps(asdict(options), default=str))
        write_json(options.json, benchmark, told | settings, results)


def percentiles(values: Sequence[float], *of: int) -> dict[str, float]:
    """Percentiles of at least one value: `p50` and so on."""
    return {f"p{one}": percentile([*values], one / 100) for one in of}


def share(part: float, whole: float) -> float | None:
    """A part of a whole; None of nothing."""
    return part / whole if whole else None


def number(value: float | None, form: str) -> str:
    return "–" if value is None else format(value, form)


def percent(part: float | None) -> str:
    return number(None if part is None else 100 * part, ".1f")


@dataclass(frozen=True, slots=True)
class Mean:
    mean: float
    standard_error: float
    tasks: int

    @classmethod
    def of(cls, values: Sequence[float], clusters: Sequence[str] | None = None) -> "Mean":
        """The mean of at least one value, with its standard error; `clusters` says what each value belongs with."""
        if clusters is not None:
            return cls(fmean(values), clustered_error(values, clusters), len(values))
        spread = stdev(values) / sqrt(len(values)) if len(values) > 1 else 0.0
        return cls(fmean(values), spread, len(values))


def clustered_error(values: Sequence[float], clusters: Sequence[str]) -> float:
    """The standard error of a mean whose values are alike within clusters: Liang and Zeger's, for a mean.

    Zero for a single cluster, which tells nothing of others.
    """
    middle, sums = fmean(values), dict.fromkeys(clusters, 0.0)
    for value, cluster in zip(values, clusters, strict=True):
        sums[cluster] += value - middle
    return error_of_sum(list(sums.values())) / len(values)


def error_of_sum(rests: Sequence[float]) -> float:
    """The standard error of a sum of numbers that are zero on average; zero for a single one."""
    count = len(rests)
    return sqrt(count / (count - 1) * sum(rest * rest for rest in rests)) if count > 1 else 0.0


def pooled_gain(left: Sequence[float], right: Sequence[float], sizes: Sequence[float]) -> tuple[float, float]:
    """`right` minus `left`, pooled over all `sizes`, and its standard error, clustered by the places of the three."""
    gains, total = [b - a for a, b in zip(left, right, strict=True)], sum(sizes)
    gained = sum(gains) / total
    return gained, error_of_sum([gain - gained * size for gain, size in zip(gains, sizes, strict=True)]) / total


def paired(
    left: Mapping[str, float], right: Mapping[str, float], clusters: Mapping[str, str] | None = None
) -> Mean | None:
    """`right` minus `left` over the tasks that both have; None where they share none."""
    tasks = [task for task in left if task in right]
    if not tasks:
        return None
    of_each = [clusters[task] for task in tasks] if clusters is not None else None
    return Mean.of([right[task] - left[task] for task in tasks], of_each)


def edit_similarity(left: str, right: str) -> float:
    """1 - Levenshtein distance / length of the longer; 1 for equal texts. RepoCoder's measure."""
    if not left and not right:
        return 1.0
    row = list(range(len(right) + 1))
    for i, a in enumerate(left, 1):
        diagonal, row[0] = row[0], i
        for j, b in enumerate(right, 1):
            diagonal, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, diagonal + (a != b))
    return 1 - row[-1] / max(len(left), len(right))
