"""Progress of a download that somebody else makes, read from the size of the folder it goes to.

Owns one thread while a `with` block lasts. Both pip and the hub's client write into a folder that we name; reading its
size works with every version of them, whatever they call their own bars.
"""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from fastcoder_lsp.model.dialogue import Step
from fastcoder_lsp.model.store import folder_bytes

INTERVAL_S = 0.2


@contextmanager
def watched(folder: Path, what: str, total: int, advance: Callable[[Step], None], before: int = 0) -> Iterator[None]:
    """Tell `advance` how many bytes are in `folder`, on top of `before`, while the block lasts; never goes back."""
    finished = threading.Event()

    def tell() -> None:
        most = 0
        while not finished.wait(INTERVAL_S):
            most = max(most, before + folder_bytes(folder))
            advance(Step(what, min(total, most), total))

    watcher = threading.Thread(target=tell, name="download-progress", daemon=True)
    watcher.start()
    try:
        yield
    finally:
        finished.set()
        watcher.join()
