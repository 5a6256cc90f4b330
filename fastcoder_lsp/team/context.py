"""Code of the repositories that a team follows, for the prompts of those whose key may read them.

Owns the words of each tree, once for all tenants of a replica, and what is shown of the trees that a tenant may read.
Nothing of a tenant goes into them: neither its texts nor what it asked. What the document says itself is not shown, for
its file is in the repository, too, more often than not. Used by the one thread that touches the model.
"""

from collections import OrderedDict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from fastcoder_lsp.config import Settings
from fastcoder_lsp.core import Snapshot
from fastcoder_lsp.prompt.context import NOTHING, ContextSnippet, PromptContext
from fastcoder_lsp.prompt.retrieval import FileWords, WordQuery, question_at, retrieve, worth
from fastcoder_lsp.runtime.context import GOOD_ENOUGH, MOST_CHARACTERS
from fastcoder_lsp.runtime.folder_words import FolderWords
from fastcoder_lsp.workspace.languages import language_of
from fastcoder_lsp.workspace.rules import ReadingRules
from fastcoder_lsp.workspace.secret_lines import secret_lines, without_lines, without_secrets

MOST_TREES = 64
"""Whose words are kept; of a repository that moves on the tree before goes with the time."""
_OWN = 0.5
"""The share of a piece's lines from which it is the document's own text, in the state that was committed."""


class RepositoryWords:
    """The words of all trees."""

    def __init__(self) -> None:
        self._of: OrderedDict[Path, FolderWords] = OrderedDict()

    def of(self, tree: Path, settings: Settings) -> FolderWords:
        """Those of a tree; a thread begins to look through one that is new, and until then it has none."""
        words = self._of.pop(tree, None) or FolderWords(tree, ReadingRules((tree,), settings))
        self._of[tree] = words
        while len(self._of) > MOST_TREES:
            self._of.popitem(last=False)[1].stop()
        words.follow(words.rules)
        return words

    def close(self) -> None:
        """What is being looked at is left."""
        for words in self._of.values():
            words.stop()


class TeamContext:
    """Finds snippets in the trees that one tenant may read (`prompt.Context`).

    Args:
        words: of all trees.
        folders: the trees, with their settings; those whose settings want no context are passed over.
    """

    def __init__(self, words: RepositoryWords, folders: Mapping[Path, Settings]) -> None:
        self._words = words
        self._folders = {tree: settings for tree, settings in folders.items() if settings.context_enabled}

    def observe(self, snapshot: Snapshot) -> None:
        """What is edited stays where it is."""

    def may_show(self, sources: Collection[str]) -> bool:
        """Whether all of them lie in a tree, and may be read now."""
        return all(map(self._may_show, map(Path, sources)))

    def find(
        self, snapshot: Snapshot, offset: int, shown: tuple[int, int], kept: PromptContext | None = None
    ) -> PromptContext:
        """Snippets for the cursor at `offset` of all trees together, best first."""
        found, asked = list[ContextSnippet](), list[tuple[WordQuery, FolderWords]]()
        for tree, settings in self._folders.items():
            words = self._words.of(tree, settings)
            ask = question_at(snapshot.text, offset, words.index, words.terms)
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
    """Gives files to one question: those of its language, and so many characters of those that were not read before.

    Attributes:
        words: of the tree.
        language: of the document.
        room: characters.
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
    """Whether exchanging what is shown would gain too little, by the words of every tree."""
    still = [one.text for one in kept.snippets]
    other = [one.text for one in instead.snippets[: len(still)]]
    return all(worth(ask, still, words.terms) >= GOOD_ENOUGH * worth(ask, other, words.terms) for ask, words in asked)


def _name(folders: Collection[Path]) -> str:
    """Of the repository, where it is one: its trees lie in a folder of its name."""
    return next(iter(folders)).parent.name if len(folders) == 1 else "repository"
