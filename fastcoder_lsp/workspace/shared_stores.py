"""All that the workspaces of a process draft from, each part of it once: live indexes, corpora, tables.

Owns which corpora are open for which tokenizer; the rest belongs to the parts.
"""

import threading
from pathlib import Path

from fastcoder_lsp.index.chunks import Encoder
from fastcoder_lsp.workspace.common_code import CommonCode, Installed
from fastcoder_lsp.workspace.shared_indexes import SharedIndexes


class SharedStores:
    """The stores of a process.

    Args:
        cache: the program's cache folder.
        live: False for one question: nothing is watched, and of what is installed in the workspace, which takes minutes
            to read, only what has been read before is drafted from.

    Attributes:
        indexes: the workspaces' own code.
    """

    def __init__(self, cache: Path, *, live: bool = True) -> None:
        self._cache, self._live = cache, live
        self._lock = threading.Lock()
        self._common: dict[str, CommonCode] = {}
        self.indexes = SharedIndexes(cache, watching=live)

    def join(self, encoder: Encoder, installed: Installed) -> CommonCode:
        """The corpora of this tokenizer, for a workspace with these packages; to be left again by `leave`."""
        with self._lock:
            common = self._common.get(encoder.identity)
            if common is None:
                common = CommonCode(self._cache, encoder, builds_installed=self._live)
                self._common[encoder.identity] = common
            common.join(installed)
            return common

    def leave(self, common: CommonCode, installed: Installed) -> threading.Thread | None:
        """A workspace drafts from these corpora no more; what ends with the last one that does."""
        with self._lock:
            if not common.leave(installed):
                return None
            self._common = {name: other for name, other in self._common.items() if other is not common}
        return common.builder
