"""The parts of a model that may be left out when it drafts for itself, as `train self` found them."""

import json
import math
from dataclasses import dataclass
from pathlib import Path

from fastcoder_lsp.core.files import private_folder, read_cached, replace_file

FORMAT = 1


@dataclass(frozen=True, slots=True)
class SkipSet:
    """The parts that a search chose to skip, and the speedup over plain decoding that it promised; 0: unknown."""

    skipped: frozenset[int] = frozenset()
    speed: float = 0.0


NO_SKIP_SET = SkipSet()


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
