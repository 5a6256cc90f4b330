"""Corpora: named stores of common code that belong to no workspace, and change only by being built again."""

import json
import logging
import re
import shutil
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from fastcoder_lsp.core.files import private_folder, replace_file
from fastcoder_lsp.errors import UsageError
from fastcoder_lsp.index.chunks import ChunkedEncoder
from fastcoder_lsp.index.part import FileRecord, IndexedFile, text_digest
from fastcoder_lsp.index.store import Store, StoreStatus
from fastcoder_lsp.tokenizer import Tokenizer

log = logging.getLogger(__name__)

_INFO = "corpus.json"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]{0,79}")
BATCH_CHARACTERS = 4_000_000  # text that is tokenised and sorted at once, over a million tokens: it bounds memory
OnShard = Callable[[int, int], None]  # called after each shard with the numbers of files and tokens so far


@dataclass(frozen=True, slots=True)
class CorpusInfo:
    """The record of a corpus; `identity` is the tokenizer it was built with."""

    name: str
    sources: tuple[str, ...]
    identity: str
    files: int
    tokens: int
    bytes: int


class Corpora:
    """The corpora in a cache folder."""

    def __init__(self, cache: Path) -> None:
        self._folder = cache / "corpora"

    def infos(self) -> list[CorpusInfo]:
        """All complete corpora, by name; unreadable ones are left out."""
        found = []
        for path in sorted(self._folder.glob(f"*/*/{_INFO}")):
            try:
                row = json.loads(path.read_bytes())
                found.append(CorpusInfo(**row | {"sources": tuple(row["sources"])}))
            except (OSError, ValueError, TypeError, KeyError):
                continue
        return found

    def has(self, name: str, identity: str) -> bool:
        """Whether a complete corpus exists for a tokenizer."""
        return (self._place(name, identity) / _INFO).is_file()

    def build(
        self,
        name: str,
        sources: Sequence[str],
        texts: Iterable[tuple[str, str]],
        encoder: Tokenizer,
        on_shard: OnShard = lambda _files, _tokens: None,
        should_stop: Callable[[], bool] = lambda: False,
    ) -> CorpusInfo | None:
        r"""Build a corpus, or build it again; None if stopped, or if another process is building it.

        Args:
            name: letters, digits, and `.`, `_`, `+`, `-`.
            sources: the origin of the texts, for people.
            texts: key and text of each file, line ends `\n`.
            encoder: the tokenizer.
            on_shard: called after each shard.
            should_stop: called for each file.

        Raises:
            OSError: it cannot be written; nothing of it is left.
        """
        folder = private_folder(self._place(name, encoder.identity))
        store = Store.open(folder, encoder.identity, ", ".join(sources), log.info)
        try:
            if not store.writable:
                return None
            (folder / _INFO).unlink(missing_ok=True)
            store.clear()
            status = _fill(store, texts, ChunkedEncoder(encoder), on_shard, should_stop)
        except BaseException:
            # A partial corpus is useless, and its space may be what the disk lacks.
            store.abandon()
            raise
        if status is None:
            store.abandon()
            return None
        store.close()
        info = CorpusInfo(name, tuple(sources), encoder.identity, status.files, status.tokens, status.bytes)
        replace_file(folder / _INFO, json.dumps(asdict(info)).encode())
        return info

    def open(self, name: str, identity: str) -> Store:
        """Open a corpus for searching, in any number of processes; UsageError if the tokenizer has none so named."""
        if not self.has(name, identity):
            raise UsageError(
                f"there is no corpus '{name}' for this model's tokenizer",
                "List the corpora: fastcoder-lsp corpus list. Build one: fastcoder-lsp corpus build PATH --name NAME",
            )
        store = Store.open(self._place(name, identity), identity, name, reader=True)
        if not store.complete:
            log.warning("the corpus '%s' is not used, because it is damaged or of another version", name)
        return store

    def remove(self, name: str) -> None:
        """Delete a corpus, for all tokenizers; raises UsageError if there is none of this name."""
        folder = self._folder / checked_name(name)
        if not folder.is_dir():
            raise UsageError(f"there is no corpus '{name}'", "See: fastcoder-lsp corpus list")
        shutil.rmtree(folder)

    def _place(self, name: str, identity: str) -> Path:
        return self._folder / checked_name(name) / identity[:16]


def is_name(text: str) -> bool:
    """Whether the name is valid for a corpus."""
    return _NAME.fullmatch(text) is not None


def checked_name(name: str) -> str:
    """`name`, if it is valid for a corpus; else UsageError."""
    if not is_name(name):
        raise UsageError(f"'{name}' is not a valid corpus name", "Use letters, digits, '.', '_', '+' and '-'.")
    return name


def _fill(
    store: Store,
    texts: Iterable[tuple[str, str]],
    encoder: ChunkedEncoder,
    on_shard: OnShard,
    should_stop: Callable[[], bool],
) -> StoreStatus | None:
    """Put all texts into the store, batch by batch; returns its sizes, or None if stopped."""
    batch: list[tuple[str, str]] = []
    held = files = tokens = 0
    for key, text in texts:
        if should_stop():
            return None
        batch.append((key, text))
        held += len(text)
        if held >= BATCH_CHARACTERS:
            tokens += _add(store, batch, encoder)
            files += len(batch)
            on_shard(files, tokens)
            batch, held = [], 0
    tokens += _add(store, batch, encoder)
    on_shard(files + len(batch), tokens)
    while store.merge(should_stop):
        pass
    store.mark_complete()
    return store.status()


def _add(store: Store, batch: Sequence[tuple[str, str]], encoder: ChunkedEncoder) -> int:
    encoded = encoder.encode_many([text for _, text in batch])
    store.add_segment(
        [IndexedFile(FileRecord(key, text_digest(text)), ids) for (key, text), ids in zip(batch, encoded, strict=True)]
    )
    return sum(map(len, encoded))
