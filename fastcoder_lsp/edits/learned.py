"""Which kinds of edits this user makes and rejects, in each language: counts, and nothing of what the edits were."""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

KINDS: Final = ("analogy", "rename", "elsewhere", "import", "model")
LEAST: Final = 8  # edits of a kind that were made or rejected before they say something
WANTED: Final = 0.2  # share of them that must have been made
IN_A_ROW: Final = 2  # rejections in a row that silence a kind for the session


class EditKind(NamedTuple):
    """A kind of edits in a language."""

    kind: str
    language: str


def kind_of(source: str) -> str:
    """The kind of an `EditAnswer` by its source: a model's name, unless it is another kind."""
    return source if source in KINDS else "model"


class LearnedKinds:
    """The counts of made and rejected edits: those of earlier sessions, and this one's."""

    def __init__(self) -> None:
        self._made, self._rejected = Counter[EditKind](), Counter[EditKind]()
        self._row = Counter[str]()

    def learn(self, made: Mapping[EditKind, int], rejected: Mapping[EditKind, int]) -> None:
        """Add the counts of earlier sessions."""
        self._made.update(made)
        self._rejected.update(rejected)

    def settle(self, kind: str, language: str, *, made: bool) -> None:
        """The user made or rejected an edit."""
        (self._made if made else self._rejected)[EditKind(kind, language)] += 1
        self._row[kind] = 0 if made else self._row[kind] + 1

    def wake(self) -> None:
        """The user asks for an edit: no kind is silent any longer."""
        self._row.clear()

    def is_silent(self, kind: str) -> bool:
        """Whether the user rejected the last edits of a kind, one after the other."""
        return self._row[kind] >= IN_A_ROW

    def is_unwanted(self, kind: str, language: str) -> bool:
        """Whether the user makes few edits of a kind in a language."""
        of = EditKind(kind, language)
        made, rejected = self._made[of], self._rejected[of]
        return made + rejected >= LEAST and made < WANTED * (made + rejected)


MADE, REJECTED = "made", "rejected"


def counted_as(kind: str, *, made: bool) -> str:
    """The name of a count on the disk."""
    return f"{kind} {MADE if made else REJECTED}"


def read_counts(counts: Iterable[tuple[str, str, int]]) -> tuple[Counter[EditKind], Counter[EditKind]]:
    """How many edits of each kind were made, and rejected: from (language, name, number) as they are on the disk."""
    found = {MADE: Counter[EditKind](), REJECTED: Counter[EditKind]()}
    for language, name, number in counts:
        kind, _, what = name.rpartition(" ")
        if kind in KINDS and what in found:
            found[what][EditKind(kind, language)] += number
    return found[MADE], found[REJECTED]
