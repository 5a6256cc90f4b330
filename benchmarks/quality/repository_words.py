"""A repository of a suite as the product's retrieval sees it: its files by their words, made once for all questions."""

from collections.abc import Mapping
from functools import cached_property

from fastcoder_lsp.index.words.terms import Terms
from fastcoder_lsp.index.words.word_index import WordIndex
from fastcoder_lsp.prompt.retrieval import FileWords


class RepositoryWords:
    """The files of a repository, all of them; who asks leaves out the one that the question is about."""

    def __init__(self, name: str, files: Mapping[str, str]) -> None:
        self.name = name
        self.files = files
        self.terms = Terms()

    @cached_property
    def words(self) -> Mapping[str, FileWords]:
        """Path → text and words."""
        return {path: FileWords(text, self.terms.of_lines(text)) for path, text in self.files.items()}

    @cached_property
    def index(self) -> WordIndex:
        """Which files use which words."""
        index = WordIndex()
        for path, file in self.words.items():
            index.put(path, file.lines.terms_W)
        index.settle()
        return index
