"""From a keystroke or a save to being found, through the live index and a real folder.

Owns the clock of these two paths: it starts where the editor's message is handed over, or the file is written, and ends
when a pinned snapshot holds the new text.
"""

import random
import time
from pathlib import Path

from benchmarks.index.records import Percentiles, percentiles
from fastcoder_lsp.config import resolve
from fastcoder_lsp.index.chunks import Encoder
from fastcoder_lsp.index.part import text_digest
from fastcoder_lsp.workspace.corpus_files import standard_library
from fastcoder_lsp.workspace.live_index import LiveIndex

EDITS, SAVES, LINES, FILES = 300, 100, 1_000, 300
_PATIENCE_S = 10.0


def measure_live(encoder: Encoder, folder: Path) -> tuple[Percentiles, Percentiles, Percentiles]:
    """Milliseconds of a save and of a keystroke in a 1,000-line file, and of handing a keystroke over."""
    root = folder / "project"
    root.mkdir(parents=True)
    texts = [text for _, text in standard_library()][:FILES]
    for number, text in enumerate(texts):
        (root / f"file{number}.py").write_text(text, encoding="utf-8")
    long = next(text for text in texts if text.count("\n") >= LINES)
    lines = long.split("\n")[:LINES]
    edited = root / "edited.py"
    edited.write_text("\n".join(lines), encoding="utf-8")
    live = LiveIndex({root: resolve(())[0]}, encoder, folder / "cache")
    live.start()
    try:
        assert live.settle(600)
        save, _ = _measure(live, edited, lines, SAVES, by_disk=True)
        keystroke, handing = _measure(live, edited, lines, EDITS, by_disk=False)
    finally:
        live.stop()
    return percentiles(save, 1e3), percentiles(keystroke, 1e3), percentiles(handing, 1e3)


def _measure(
    live: LiveIndex, path: Path, lines: list[str], times: int, *, by_disk: bool
) -> tuple[list[float], list[float]]:
    """Seconds from an edit until it is found, and seconds that handing it over took."""
    chance, found, handing = random.Random(3), [], []  # noqa: S311
    for number in range(times):
        lines[chance.randrange(len(lines))] += f" # {number}"
        text = "\n".join(lines)
        digest = text_digest(text)
        start = time.perf_counter()
        if by_disk:
            path.write_text(text, encoding="utf-8")
        else:
            live.document_changed(path, text)
        handing.append(time.perf_counter() - start)
        while not _holds(live, digest):
            time.sleep(0.0002)
            assert time.perf_counter() - start < _PATIENCE_S
        found.append(time.perf_counter() - start)
        # A person's next keystroke comes later than this; the rest of a burst of events must not count as the next.
        time.sleep(0.03)
        assert live.settle(_PATIENCE_S)
    return found, handing


def _holds(live: LiveIndex, digest: str) -> bool:
    """Whether a text can be found, as an edit of this session."""
    recent = (entry for snapshot in live.pin() for entry in snapshot.parts if entry.recent)
    return any(record.digest == digest for entry in recent for record in entry.part.records)
