"""Smaller models for drafters in tests: toys that are often right about a toy, and engines over real weights."""

from collections.abc import Callable, Sequence

from fastcoder_lsp.core import Engine, EngineInfo, Tokens
from fastcoder_lsp.documents import Slots
from fastcoder_lsp.draft.base import Smaller
from tests.draft.toys import RepetitiveEngine, repetitive


class NearlyRepetitive(RepetitiveEngine):
    """Says what `RepetitiveEngine` says, but for every seventh text."""

    def choose(self, tokens: Tokens, among: Sequence[int]) -> int:
        said = repetitive(tokens, among)
        return among[(said + 1) % len(among)] if sum(tokens) % 7 == 3 else said


class Lent(Slots):
    def __init__(self, make: Callable[[], Engine]) -> None:
        self._make, self._made = make, dict[str, Engine]()

    @property
    def info(self) -> EngineInfo:
        return self.of("").info

    def of(self, document: str) -> Engine:
        if document not in self._made:
            self._made[document] = self._make()
        return self._made[document]

    def forget(self, document: str) -> tuple[str, ...]:
        self._made.pop(document, None)
        return (document,)

    def rename(self, old: str, new: str) -> None:
        if old in self._made:
            self._made[new] = self._made.pop(old)


def lending(*makers: Callable[[], Engine]) -> Smaller:
    models: list[Slots] = []

    def lend() -> Sequence[Slots]:
        if not models:
            models.extend(Lent(make) for make in makers)
        return models

    return lend


def toys(vocabulary: int) -> Smaller:
    return lending(lambda: NearlyRepetitive(vocabulary), lambda: RepetitiveEngine(vocabulary))
