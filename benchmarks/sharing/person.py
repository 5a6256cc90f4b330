"""One person who types a history, as `keystroke.hands` says people type, over a service in this process.

Owns the ghost text on this person's screen, and the keys. Each edit cancels the request before it, as VS Code does; who
is told of a late suggestion asks again.
"""

from collections.abc import Callable, Iterator
from concurrent.futures import Future
from dataclasses import dataclass, field
from functools import partial
from pathlib import PurePosixPath

from benchmarks.datasets.histories import Edit, apply
from benchmarks.keystroke import hands
from benchmarks.keystroke.subset import Subset
from fastcoder_lsp.completion.protocol import HostListener, ModelHost
from fastcoder_lsp.completion.question import Policy
from fastcoder_lsp.completion.service import CompletionService
from fastcoder_lsp.core import Completion, CompletionRequest, Late, Snapshot
from fastcoder_lsp.workspace.languages import language_of

AFTER_S = 0.7
"""What a person looks at a finished run before going on to the next place."""


@dataclass(slots=True)
class Account:
    """What the typing comes to.

    Attributes:
        typed: keys that were pressed.
        saved: keys that an accept brought in.
        asked, shown: requests, and those that were answered by text before the next key.
        computed: prompt tokens that were computed from each key to the next.
        waited_ms: from each key to the text that was shown before the next one.
    """

    typed: int = 0
    saved: int = 0
    asked: int = 0
    shown: int = 0
    computed: list[int] = field(default_factory=list)
    waited_ms: list[float] = field(default_factory=list)

    @property
    def accepted(self) -> float:
        """Of all characters, those that were not typed."""
        return self.saved / max(1, self.typed + self.saved)


class Person:
    """Somebody at a keyboard.

    Attributes:
        due_ms: when the next key is pressed.
        account: what it came to.

    Args:
        open_host: this one's place at the model.
        subset: what is typed.
        files: the tree before.
        policy: of this one's settings.
        now: milliseconds.
        computed: prompt tokens that were computed for this one so far.
        speed: keys a second.
        seed: of the rhythm.
    """

    def __init__(
        self,
        open_host: Callable[[HostListener], ModelHost],
        subset: Subset,
        files: dict[str, str],
        policy: Policy,
        now: Callable[[], float],
        computed: Callable[[], int],
        *,
        speed: float,
        seed: int,
    ) -> None:
        self.account, self.due_ms = Account(), 0.0
        self._subset, self._files, self._policy, self._now, self._computed = subset, files, policy, now, computed
        self._speed, self._seed = speed, seed
        self._service = CompletionService(open_host, lambda _: None, clock=now, on_late=self._late)
        self._keys = self._typing()
        self._path, self._cursor, self._version = "", 0, 0
        self._ghost: tuple[str, int] | None = None
        self._asking: Future[Completion] | None = None
        self._before = 0
        self._asked_ms = 0.0

    def load(self) -> "Future[bool]":
        """Have the model loaded."""
        return self._service.preload()

    def press(self) -> bool:
        """The next key, which is due; whether there is one after it."""
        wait_s = next(self._keys, None)
        if wait_s is None:
            self._leave()
            self._service.shutdown(0.0)
            return False
        self.due_ms += wait_s * 1e3
        return True

    def _typing(self) -> Iterator[float]:
        """Every key of the history; seconds until the next one."""
        for place, step in enumerate(self._subset.steps):
            if place in self._subset.typed and isinstance(step, Edit):
                yield from self._run(place, step)
            else:
                apply(self._files, step)

    def _run(self, run: int, step: Edit) -> Iterator[float]:
        """Open the line of a run, and type it."""
        self._leave()
        said = step.text.removesuffix("\n")
        self._path, self._cursor = step.path, step.offset
        opened = hands.opening(said)
        self._replace(step.delete, opened + step.text[len(said) :])
        self._cursor = step.offset + len(opened)
        self._ask()
        strokes = hands.keys(said)
        waits = hands.waits(strokes, self._speed, f"{self._seed} {run}")
        key = 0
        while key < len(strokes):
            self._before = self._computed()
            yield waits[key]
            self.account.computed.append(self._computed() - self._before)
            saved = hands.accepted_keys(self._ghost[0], strokes[key:]) if self._ghost else 0
            if saved:
                yield from self._accept("".join(strokes[key : key + saved]))
                self.account.saved += saved
                key += saved
            else:
                self._type(strokes[key])
                self.account.typed += 1
                key += 1
        yield AFTER_S

    def _type(self, key: str) -> None:
        ghost = self._ghost
        self._replace(0, key)
        if ghost is not None and ghost[0].startswith(key) and len(key) < len(ghost[0]):
            self._ghost = ghost[0][len(key) :], ghost[1]
        self._ask()

    def _accept(self, kept: str) -> Iterator[float]:
        """Tab; what is wrong of the suggestion is deleted at the next key."""
        assert self._ghost is not None
        text, replaces = self._ghost
        self._replace(replaces, text)
        self._service.accepted(self._request(), self._policy)
        self._ask()
        if wrong := len(text) - len(kept):
            yield 1 / self._speed
            self._cursor -= wrong
            self._replace(wrong, "")
            self._ask()

    def _replace(self, delete: int, text: str) -> None:
        """Replace what is right of the cursor; what was asked before is given up, and what was shown is gone."""
        self._leave()
        apply(self._files, Edit(self._path, self._cursor, delete, text, typed=True))
        self._cursor += len(text)
        self._version += 1

    def _request(self) -> CompletionRequest:
        path, text = PurePosixPath("/", self._path), self._files[self._path]
        snapshot = Snapshot(f"file://{path}", str(path), language_of(path), self._version, text)
        return CompletionRequest(snapshot, self._cursor)

    def _ask(self) -> None:
        self.account.asked += 1
        self._asked_ms = self.due_ms
        self._send()

    def _send(self) -> None:
        late_ms = max(0.0, self._now() - self.due_ms)  # the model was at work when the key came
        self._asking = asking = self._service.submit(self._request(), self._policy, late_ms)
        asking.add_done_callback(partial(self._answered, self._version))

    def _answered(self, version: int, answer: "Future[Completion]") -> None:
        if answer.cancelled() or version != self._version or answer is not self._asking:
            return
        completion = answer.result()
        self.account.shown += bool(completion.text)
        if completion.text:
            self.account.waited_ms.append(self._now() - self._asked_ms)
        self._ghost = (completion.text, completion.end - completion.start) if completion.text else None

    def _late(self, late: Late) -> None:
        if late.version == self._version:
            self._send()

    def _leave(self) -> None:
        asking, self._asking, self._ghost = self._asking, None, None
        if asking is not None:
            asking.cancel()
