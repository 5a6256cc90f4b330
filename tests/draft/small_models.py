"""Smaller models for drafters in tests: toys that are often right about a toy, and engines over real weights."""

from collections.abc import Callable, Sequence

from fastcoder_lsp.core import Engine, EngineInfo, Tokens
from fastcoder_lsp.draft.smaller import DocumentEngines, Smaller
from tests.draft.toys import RepetitiveEngine, repetitive


class NearlyRepetitive(RepetitiveEngine):
    """Says what `RepetitiveEngine` says, but for every seventh text."""

    def choose(self, tokens: Tokens, among: Sequence[int]) -> int:
        said = repetitive(tokens, among)
        return among[(said + 1) % len(among)] if sum(tokens) % 7 == 3 else said


class Lent:
    def __init__(self, make: Callable[[], Engine]) -> None:
        self._make, self._engines = make, dict[str, Engine]()
        self.info: EngineInfo = self.of("").info

    def of(self, document: str) -> Engine:
        if document not in self._engines:
            self._engines[document] = self._make()
        return self._engines[document]

    def forget(self, document: str) -> None:
        self._engines.pop(document, None)

    def rename(self, old: str, new: str) -> None:
        if old in self._engines:
            self._engines[new] = self._engines.pop(old)


def lending(*makers: Callable[[], Engine]) -> Smaller:
    """Models that are made when they are first asked for."""
    models: list[DocumentEngines] = []

    def lend() -> Sequence[DocumentEngines]:
        if not models:
            models.extend(Lent(make) for make in makers)
        return models

    return lend


def toys(vocabulary: int) -> Smaller:
    """One that is nearly always right, and one that always is."""
    return lending(lambda: NearlyRepetitive(vocabulary), lambda: RepetitiveEngine(vocabulary))
