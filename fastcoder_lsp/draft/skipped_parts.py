"""The parts that a model leaves out when it drafts for itself: the search over the user's code, and its file.

Zhang et al. 2024 (*Draft & Verify*, section 3.2) search the set that makes a token cheapest, by Bayesian optimisation.
Here sets are changed in one or two parts at a time, and a change stays if it decodes quicker. A set's worth is counted,
not timed, so a busy machine finds the same set.
"""

import json
import math
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from fastcoder_lsp.core import DraftTree, Engines, SkimmingEngine
from fastcoder_lsp.core.files import private_folder, read_cached, replace_file
from fastcoder_lsp.draft.self_model import usual_parts

CHAIN = 4
"""Guesses of one trial."""
FORMAT = 1


@dataclass(frozen=True, slots=True)
class Trial:
    """A place of a text: an engine, the tokens before it, and the model's continuation."""

    engine: SkimmingEngine
    text: tuple[int, ...]
    output: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Costs:
    """Cost of a pass with parts left out, as a share of a whole one; the `head` over the vocabulary always runs."""

    sublayers: int
    head: float = 0.0
    attention: float = 0.5

    def share(self, skipped: frozenset[int]) -> float:
        """Cost of a pass without these parts."""
        each = (self.attention, 1 - self.attention)
        left_out = sum(each[part % 2] for part in skipped) / (self.sublayers / 2)
        return self.head + (1 - self.head) * (1 - left_out)


@dataclass(frozen=True, slots=True)
class SkipSet:
    """The parts that a search chose to skip, and the speedup over plain decoding that it promised; 0: unknown."""

    skipped: frozenset[int] = frozenset()
    speed: float = 0.0


NO_SKIP_SET = SkipSet()


def trials(engines: Engines, texts: Sequence[Sequence[int]], places: int, seed: int = 0) -> list[Trial]:
    """Random places in `texts`, with their plain continuations; each keeps a KV cache."""
    chance = random.Random(seed)  # noqa: S311 a sample is no secret
    long = [text for text in texts if len(text) > 2 * CHAIN]
    made = []
    for number in range(places if long else 0):
        engine = engines.slot(f"place {number}")
        assert isinstance(engine, SkimmingEngine)
        text = tuple(chance.choice(long))
        text = text[: chance.randrange(2 * CHAIN, min(len(text), engine.info.context - CHAIN - 1) + 1)]
        engine.prefill(text[:-1], lambda: False)
        output: list[int] = []
        while len(output) <= CHAIN:
            output += engine.step(DraftTree.chain((output or text)[-1:])).emitted
        made.append(Trial(engine, text, tuple(output)))
    return made


def search(
    costs: Costs,
    places: Sequence[Trial],
    rounds: int,
    *,
    progress: Callable[[int, float], None] = lambda _tried, _speed: None,
    seed: int = 0,
) -> SkipSet:
    """The set, of `rounds` tried, that promises the fastest decoding over `places`, or the usual one without any."""
    chance = random.Random(seed)  # noqa: S311 a change is no secret
    parts = range(costs.sublayers)
    best = usual_parts(costs.sublayers)
    speed = _speed(costs, places, best)
    for tried in range(1, rounds + 1 if places else 1):
        changed = best ^ frozenset(chance.sample(parts, chance.choice((1, 1, 2))))
        if (promised := _speed(costs, places, changed)) > speed:
            best, speed = changed, promised
        progress(tried, speed)
    return SkipSet(best, speed)


def _speed(costs: Costs, places: Sequence[Trial], skipped: frozenset[int]) -> float:
    """Tokens in the time of a plain token; a pass costs as much as the parts that it runs, however many rows it has."""
    share = costs.share(skipped)
    tokens = cost = 0.0
    for trial in places:
        trial.engine.prefill(trial.text[:-1], lambda: False)
        pending, after, accepted = list(trial.text[-1:]), 0, 0
        while accepted < CHAIN:
            ids_K, _ = trial.engine.skim(pending, after, skipped, 1)
            after += 1
            if int(ids_K[0]) != trial.output[accepted]:
                break
            pending, accepted = [int(ids_K[0])], accepted + 1
        tokens += accepted + 1
        cost += after * share + 1
    return tokens / cost if places else 0.0


def keep(cache: Path, digest: str, found: SkipSet) -> Path:
    """Write the set for the model whose weights have the hash `digest`."""
    path = _path(cache, digest)
    private_folder(path.parent)
    record = {"format": FORMAT, "digest": digest, "skipped": sorted(found.skipped), "speed": found.speed}
    replace_file(path, json.dumps(record).encode())
    return path


def kept(cache: Path, digest: str) -> SkipSet:
    """The set found for these weights; `NO_SKIP_SET` if there is none, or its file is damaged."""

    def parse(data: bytes) -> SkipSet:
        record = json.loads(data)
        if record["format"] != FORMAT or record["digest"] != digest:
            raise ValueError(f"format {record['format']}, or another model's")
        parts, speed = frozenset(int(part) for part in record["skipped"] if int(part) >= 0), float(record["speed"])
        return SkipSet(parts, speed if math.isfinite(speed) and speed > 0 else 0.0)

    return read_cached(_path(cache, digest), parse) or NO_SKIP_SET


def _path(cache: Path, digest: str) -> Path:
    return cache / "skipped" / f"{digest[:32]}.json"
