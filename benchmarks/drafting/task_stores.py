"""The datastores of tasks: D_r is a task's repository without the target's body, D_c the standard library alone.

Owns building both in memory from texts, and keeping D_c's tokens between runs; nothing of them is ever written into a
user's index.
"""

import sysconfig
from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np

from benchmarks.datasets.repoeval import Task, TaskSet
from fastcoder_lsp.draft.base import Pinned
from fastcoder_lsp.draft.frozen_table import FrozenTable, TableShape, build
from fastcoder_lsp.draft.matching import GAP
from fastcoder_lsp.index.liveness import liveness
from fastcoder_lsp.index.part import Document, FileRecord, Part, build_part
from fastcoder_lsp.index.searcher import LivePart, Searcher, StoreSnapshot
from fastcoder_lsp.index.suffix_array import Tokens32
from fastcoder_lsp.tokenizer import Tokenizer

NOT_COMMON = {"site-packages", "dist-packages", "test", "tests", "idle_test", "__pycache__"}


class TaskStores:
    """D_r of any task and D_c.

    Args:
        tokenizer: of the model.
        tasks: the tasks and their repositories.
        cache: folder where D_c's tokens are kept.
    """

    def __init__(self, tokenizer: Tokenizer, tasks: TaskSet, cache: Path) -> None:
        self._tokenizer, self._tasks, self._cache = tokenizer, tasks, cache
        self._repositories: dict[str, Part] = {}
        self._corpus: Part | None = None
        self._corpus_searcher: Searcher | None = None
        self._frozen: dict[TableShape, FrozenTable] = {}
        self._pinned: tuple[str, Pinned] = ("", Pinned())

    def pin(self, task: Task) -> Pinned:
        """D_r without the task's body, and D_c."""
        if self._pinned[0] != task.id:
            self._pinned = task.id, Pinned(self._repository(task), self._common(), (hash(task.id),), self.frozen)
        return self._pinned[1]

    def frozen(self, shape: TableShape) -> FrozenTable:
        """Cacheback's frozen table of D_c."""
        if shape not in self._frozen:
            self._frozen[shape] = build(self._corpus_part().tokens_N, shape)
        return self._frozen[shape]

    def corpus_tokens(self) -> int:
        """The size of D_c in tokens."""
        return self._corpus_part().size

    def _repository(self, task: Task) -> Searcher:
        """The repository's files, the target's replaced by what it is without the body."""
        part = self._repositories.get(task.repo)
        if part is None:
            part = self._repositories[task.repo] = self._build(self._tasks.files[task.repo])
        target = next(i for i, record in enumerate(part.records) if record.key == task.path)
        live = liveness(part.order_M, part.starts, [target])
        edited = self._build({task.path: self._tasks.without_body(task)})
        return Searcher(
            [
                StoreSnapshot((LivePart(edited, frozenset(), None, recent=True),), 1),
                StoreSnapshot((LivePart(part, frozenset({target}), live, recent=False),), 1),
            ],
            prefer=task.path,
        )

    def _build(self, files: Mapping[str, str]) -> Part:
        tokens = self._tokenizer.encode_many(list(files.values()))
        return build_part(
            [Document(FileRecord(key, ""), np.array(ids, np.int32)) for key, ids in zip(files, tokens, strict=True)]
        )

    def _common(self) -> Searcher:
        if self._corpus_searcher is None:
            part = self._corpus_part()
            self._corpus_searcher = Searcher([StoreSnapshot((LivePart(part, frozenset(), None, recent=False),), 1)])
        return self._corpus_searcher

    def _corpus_part(self) -> Part:
        if self._corpus is None:
            self._corpus = self._load_corpus()
        return self._corpus

    def _load_corpus(self) -> Part:
        """Tokenise the standard library once; later runs read its tokens."""
        name = f"stdlib-{sysconfig.get_python_version()}-{self._tokenizer.identity}.npy"
        path = self._cache / "bench" / name
        if path.exists():
            tokens_N: Tokens32 = np.load(path, allow_pickle=False)
        else:
            texts = [file.read_text(encoding="utf-8", errors="replace") for file in corpus_files()]
            encoded = self._tokenizer.encode_many(texts)
            tokens_N = np.concatenate([np.array([*ids, GAP], np.int32) for ids in encoded])
            path.parent.mkdir(parents=True, exist_ok=True)
            np.save(path, tokens_N)
        ends = np.flatnonzero(tokens_N == GAP)
        pieces = np.split(tokens_N, ends + 1)[:-1]
        return build_part([Document(FileRecord(str(i), ""), piece[:-1]) for i, piece in enumerate(pieces)])


def corpus_files() -> Iterator[Path]:
    """The files of D_c: all Python files of the standard library but its tests and what is installed beside it.

    What a user's datastore takes of it (`workspace.corpus_files.standard_library`) leaves out more; this stays as it
    is, for the figures of docs/benchmarks.md were measured on it.
    """
    root = Path(sysconfig.get_path("stdlib"))
    for path in sorted(root.rglob("*.py")):
        if not NOT_COMMON.intersection(path.relative_to(root).parts):
            yield path
