"""One setting against another with no clock: what full answers save over the same keys, run by run.

Owns the pairing, and the folder that the answers are given in: the history's tree on the disk as an editor leaves it,
so that settings which show the model other files find them there.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from math import sqrt
from pathlib import Path
from typing import Any

from benchmarks.common.answers import Answers
from benchmarks.common.product import FullAnswer
from benchmarks.datasets.histories import Create, Edit, Remove, Save, Step, apply
from benchmarks.keystroke.ceiling import Ceiling, FullAnswers, ceiling
from benchmarks.keystroke.hands import Taker, keys
from benchmarks.keystroke.subset import Subset
from fastcoder_lsp.core import CompletionRequest


@dataclass(frozen=True, slots=True)
class Way:
    """One way of answering: what accepts saved of each run, and prompt tokens computed a key."""

    saved: Mapping[int, int]
    tokens_a_key: float


@dataclass(frozen=True, slots=True)
class Difference:
    """Of two shares of saved keys, in points, over the same runs; its standard error takes a run as one."""

    left: float
    right: float
    difference: float
    standard_error: float
    runs: int
    keys: int

    def to_json(self) -> dict[str, Any]:
        """The numbers as JSON, for reports."""
        return asdict(self)


class HistoryFolder:
    """A history's tree on the disk.

    Args:
        root: an empty folder.
        files: path → text before the first step.
    """

    def __init__(self, root: Path, files: Mapping[str, str]) -> None:
        self._root, self._files = root, dict(files)
        self._open: dict[Path, str] = {}
        for path in files:
            self._write(path)

    def open_texts(self) -> Mapping[Path, str]:
        """The documents that were edited, as they stand."""
        return self._open

    def take(self, step: Step) -> None:
        """A step of the history is made."""
        apply(self._files, step)
        match step:
            case Edit(path):
                self._open[self._root / path] = self._files[path]
            case Create(path) | Save(path):
                self._write(path)
            case Remove(path):
                self._open.pop(self._root / path, None)
                (self._root / path).unlink(missing_ok=True)

    def placed(self, request: CompletionRequest) -> CompletionRequest:
        """The same request by the document's path on the disk; its text is what is open there."""
        path = self._root / (request.snapshot.path or "")
        self._open.pop(path, None)  # the latest one comes last
        self._open[path] = request.snapshot.text
        return replace(request, snapshot=replace(request.snapshot, path=str(path)))

    def _write(self, path: str) -> None:
        file = self._root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(self._files[path], encoding="utf-8", newline="")


def answered(
    subset: Subset,
    files: Mapping[str, str],
    root: Path,
    settings: Mapping[str, Any],
    kept: Answers,
    digest: str,
    on_key: Callable[[int], None],
    taker: Taker,
) -> Way:
    """Wait for the full answer at every key, with these settings.

    Args:
        subset: of the history, typed.
        files: its tree before the first step.
        root: an empty folder, for the tree.
        settings: of the server.
        kept: answers of earlier runs.
        digest: names the model.
        on_key: told how many keys are behind.
        taker: who accepts.

    Raises:
        FastcoderError: the model is missing, damaged, or does not fit this machine.
    """
    folder = HistoryFolder(root, files)
    server = FullAnswer(settings, root, folder.open_texts)
    try:
        full = FullAnswers(kept, f"{digest} {server.engine_name}", server)
        top = ceiling(subset, files, lambda request: full(folder.placed(request)), on_key, folder.take, taker)
        return Way(saved_by_run(subset, top), server.computed / max(subset.keys, 1))
    finally:
        server.close()


def saved_by_run(subset: Subset, top: Ceiling) -> dict[int, int]:
    """The place of each typed run → the keys that accepts save in it."""
    return {
        place: top.saved_in(place, step)
        for place, step in enumerate(subset.steps)
        if place in subset.typed and isinstance(step, Edit)
    }


def difference(subset: Subset, left: Mapping[int, int], right: Mapping[int, int]) -> Difference:
    """What `right` saves more than `left`, of all keys, in points."""
    lengths = {
        place: len(keys(step.text.removesuffix("\n")))
        for place, step in enumerate(subset.steps)
        if place in left and isinstance(step, Edit)
    }
    total = sum(lengths.values())
    gained = sum(right[place] - left[place] for place in lengths) / total
    rests = [right[place] - left[place] - gained * length for place, length in lengths.items()]
    return Difference(
        100 * sum(left.values()) / total,
        100 * sum(right.values()) / total,
        100 * gained,
        100 * _error_of_sum(rests) / total,
        len(lengths),
        total,
    )


def _error_of_sum(rests: Sequence[float]) -> float:
    """Of the sum of numbers that are zero on average; zero for a single one, which tells nothing of others."""
    count = len(rests)
    return sqrt(count / (count - 1) * sum(rest * rest for rest in rests)) if count > 1 else 0.0
