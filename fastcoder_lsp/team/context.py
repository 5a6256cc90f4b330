"""Finds code in a team's repositories for the prompts of tenants whose key may read them.

Owns the word index of each tree, shared by a replica's tenants, and the choice of snippets from the trees that a tenant
may read. The indexes hold nothing of a tenant, neither texts nor queries. The document's own text is not shown, because
its file is usually in the repository. Used by the model's thread alone.
"""

from collections import OrderedDict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from fastcoder_lsp.config import Settings
from fastcoder_lsp.core import Snapshot
from fastcoder_lsp.prompt.context import NOTHING, ContextSnippet, PromptContext
from fastcoder_lsp.prompt.retrieval import FileWords, WordQuery, query_at, retrieve, worth
from fastcoder_lsp.runtime.context import GOOD_ENOUGH, MOST_CHARACTERS
from fastcoder_lsp.runtime.folder_words import FolderWords
from fastcoder_lsp.workspace.languages import language_of
from fastcoder_lsp.workspace.rules import ReadingRules
from fastcoder_lsp.workspace.secret_lines import secret_lines, without_lines, without_secrets

MOST_TREES = 64
"""Most trees with a word index; old trees of an updated repository drop out."""
_OWN = 0.5
"""A piece with this share of the document's lines counts as the document's own text, as committed."""


class RepositoryWords:
    """The word indexes of all trees."""

    def __init__(self) -> None:
        self._of: OrderedDict[Path, FolderWords] = OrderedDict()

    def of(self, tree: Path, settings: Settings) -> FolderWords:
        """The word index of a tree; for a new tree a thread starts to fill it."""
        words = self._of.pop(tree, None) or FolderWords(tree, ReadingRules((tree,), settings))
        self._of[tree] = words
        while len(self._of) > MOST_TREES:
            self._of.popitem(last=False)[1].stop()
        words.follow(words.rules)
        return words

    def close(self) -> None:
        """Abandon all scans."""
        for words in self._of.values():
            words.stop()


class TeamContext:
    """Finds snippets in the trees that one tenant may read (`prompt.Context`).

    Args:
        words: the word indexes.
        folders: the trees with their settings; trees whose settings disable context are skipped.
    """

    def __init__(self, words: RepositoryWords, folders: Mapping[Path, Settings]) -> None:
        self._words = words
        self._folders = {tree: settings for tree, settings in folders.items() if settings.context_enabled}

    def observe(self, snapshot: Snapshot) -> None:
        """Do nothing: edits are not recorded."""

    def may_show(self, sources: Collection[str]) -> bool:
        """Whether all files are in a tree, and may be read now."""
        return all(map(self._may_show, map(Path, sources)))

    def find(
        self, snapshot: Snapshot, offset: int, shown: tuple[int, int], kept: PromptContext | None = None
    ) -> PromptContext:
        """Snippets of all trees for the cursor at `offset`, best first."""
        found, asked = list[ContextSnippet](), list[tuple[WordQuery, FolderWords]]()
        for tree, settings in self._folders.items():
            words = self._words.of(tree, settings)
            ask = query_at(snapshot.text, offset, words.index, words.terms)
            asked.append((ask, words))
            found += self._in_tree(words, ask, snapshot, offset, shown)
        if not asked:
            return NOTHING
        found.sort(key=lambda snippet: -snippet.score)
        instead = PromptContext(tuple(found), _name(self._folders), "")
        good = kept is not None and bool(kept.snippets) and self.may_show([one.source for one in kept.snippets])
        return kept if kept is not None and good and _good_enough(kept, instead, asked) else instead

    def _in_tree(
        self, words: FolderWords, ask: WordQuery, snapshot: Snapshot, offset: int, shown: tuple[int, int]
    ) -> list[ContextSnippet]:
        load = _Files(words, snapshot.language)
        pieces = retrieve(ask, replace(snapshot, path=None), offset, shown, words.index, words.terms, load)
        own = frozenset(filter(None, map(str.strip, snapshot.text.split("\n"))))
        found = []
        for piece in pieces:
            if not piece.source or _alike(piece.text, own):
                continue
            language, file = language_of(Path(piece.path)), load(piece.source)
            hidden = secret_lines(file.text, language) if file is not None else frozenset[str]()
            clean = without_secrets(without_lines(piece.text, hidden), language)
            if clean.strip():
                found.append(replace(piece, text=clean, source=str(words.root / piece.source)))
        return found

    def _may_show(self, path: Path) -> bool:
        for tree, settings in self._folders.items():
            if path.is_relative_to(tree):
                return self._words.of(tree, settings).rules.may_read(path) is None
        return False


@dataclass(slots=True)
class _Files:
    """The files of the query's language, with a bound on characters that are read from the disk.

    Attributes:
        words: the tree's word index.
        language: the document's language.
        room: characters that may still be read.
    """

    words: FolderWords
    language: str
    room: int = MOST_CHARACTERS

    def __call__(self, key: str) -> FileWords | None:
        if language_of(Path(key)) != self.language:
            return None
        if self.words.held(key):
            return self.words.load(key)
        read = self.words.load(key) if self.room > 0 else None
        self.room -= len(read.text) if read is not None else 0
        return read


def _alike(piece: str, own: Collection[str]) -> bool:
    lines = [line for line in map(str.strip, piece.split("\n")) if line]
    return sum(line in own for line in lines) >= _OWN * len(lines)


def _good_enough(kept: PromptContext, instead: PromptContext, asked: Sequence[tuple[WordQuery, FolderWords]]) -> bool:
    """Whether new snippets would gain too little, by the word index of every tree."""
    still = [one.text for one in kept.snippets]
    other = [one.text for one in instead.snippets[: len(still)]]
    return all(worth(ask, still, words.terms) >= GOOD_ENOUGH * worth(ask, other, words.terms) for ask, words in asked)


def _name(folders: Collection[Path]) -> str:
    """The repository's name, if all trees are of one: they lie in a folder with its name."""
    return next(iter(folders)).parent.name if len(folders) == 1 else "repository"
