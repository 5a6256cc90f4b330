"""The loop of typing: a person at a keyboard, whatever the keys go to.

Each edit gives the request before it up and asks anew, as VS Code does. What is left of the ghost text stays while the
next key agrees with it.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from benchmarks.datasets.histories import RecordedEdit, Step
from benchmarks.typist import hands
from benchmarks.typist.hands import Subset
from fastcoder_lsp.client.client import Ghost

AFTER_S = 0.7
"""Seconds that a person looks at a finished run before going on to the next place."""


@dataclass(frozen=True, slots=True)
class KeyPosition:
    """Before key `key` of the typed run `run`, everything before it being there."""

    run: int
    key: int


class Typist:
    """A person who types runs of a history. A subclass says where the keys go, by the methods from `text` on.

    Attributes:
        typed, saved, accepts: keys that were pressed, keys that an accept brought in, and accepts.
        saved_in: run → those that an accept brought in.

    Args:
        on_key: told at each key how many are behind.
    """

    def __init__(
        self,
        *,
        speed: float,
        seed: int,
        on_key: Callable[[int], object] = lambda _: None,
        taker: hands.Accepter = hands.TAB,
    ) -> None:
        self.ghost: Ghost | None = None
        self.path, self.cursor = "", 0
        self.strokes: tuple[str, ...] = ()
        self.typed = self.saved = self.accepts = 0
        self.saved_in = Counter[int]()
        self._speed, self._seed, self._on_key, self._taker = speed, seed, on_key, taker

    def keys(self, subset: Subset) -> Iterator[float]:
        """Make the steps of a history, the chosen runs key by key; seconds that pass before the next thing is done."""
        behind = 0
        runs = subset.typed_steps()
        for place, step in enumerate(subset.steps):
            if (run := runs.get(place)) is not None:
                yield from self._run(place, run, behind)
                behind += len(self.strokes)
            else:
                self.leave()
                self.take(step)
                yield 0.0
        self.leave()

    def leave(self) -> None:
        """Move the cursor elsewhere."""
        self.cancel()
        self.ghost = None

    def _run(self, run: int, step: RecordedEdit, behind: int) -> Iterator[float]:
        """Open the line of a run, in place of what it replaces, and type it."""
        self.leave()
        self.path, self.cursor = step.path, step.offset
        before, said = self.text(), step.text.removesuffix("\n")
        opened, self.strokes = hands.opening(said), hands.keys(said)
        self._change(step.delete, opened + step.text[len(said) :])
        self.cursor = step.offset + len(opened)
        self.ask(KeyPosition(run, 0), through=False)
        waits = hands.waits(self.strokes, self._speed, f"{self._seed} {run}")
        key = 0
        while key < len(self.strokes):
            self.rests()
            yield waits[key]
            self.goes_on()
            coming = self.strokes[key:]
            saved = self._taker.accepted_keys(self.ghost.text, coming) if self.ghost else 0
            if saved:
                self.accepts += 1
                self.saved += saved
                self.saved_in[run] += saved
                yield from self._accept(KeyPosition(run, key + saved), "".join(coming[:saved]))
                key += saved
            else:
                self.typed += 1
                self._press(KeyPosition(run, key + 1), coming[0])
                key += 1
            self._on_key(behind + key)
        yield AFTER_S
        expected = before[: step.offset] + step.text + before[step.offset + step.delete :]
        assert self.text() == expected, "what was typed is not what the history has"

    def _press(self, after: KeyPosition, key: str) -> None:
        ghost = self.ghost
        self._change(0, key)
        self.ghost = ghost.after_typing(key) if ghost is not None else None
        self.ask(after, through=self.ghost is not None)

    def _accept(self, after: KeyPosition, kept: str) -> Iterator[float]:
        """Bring in what the taker takes of the suggestion; what is wrong of it is deleted at the next key."""
        assert self.ghost is not None
        ghost = self.ghost
        taken = ghost.text if self._taker.takes_all else kept
        wrong = len(taken) - len(kept)
        self._change(ghost.replaces, taken)
        if taken == ghost.text:  # no editor tells of a part
            self.tell_accepted(ghost)
        self.ask(None if wrong else after, through=False)
        if wrong:
            yield 1 / self._speed
            self.cursor -= wrong
            self._change(wrong, "")
            self.ask(after, through=False)

    def _change(self, delete: int, text: str) -> None:
        """Replace `delete` characters right of the cursor by `text`; the cursor stands behind it."""
        self.leave()
        self.edit(delete, text)
        self.cursor += len(text)

    def text(self) -> str:
        """The document at `path`."""
        raise NotImplementedError

    def take(self, step: Step) -> None:
        """Make a step that is not typed."""
        raise NotImplementedError

    def edit(self, delete: int, text: str) -> None:
        """Replace `delete` characters behind the cursor by `text`."""
        raise NotImplementedError

    def ask(self, place: KeyPosition | None, *, through: bool) -> None:
        """Ask for a suggestion at the cursor.

        Args:
            place: None while the text is not what the history has.
            through: whether the last key went along the suggestion that was shown.
        """
        raise NotImplementedError

    def cancel(self) -> None:
        """Give the open request up, if there is one."""
        raise NotImplementedError

    def tell_accepted(self, ghost: Ghost) -> None:
        """Tell that all of a suggestion was accepted."""
        raise NotImplementedError

    def rests(self) -> None:
        """Hear that a pause before a key begins."""

    def goes_on(self) -> None:
        """Hear that it ends."""
