"""CPU seconds of the work for a client, by cause.

Whether work was of use is known late: it is booked as unused or unseen, and moves when a text that needed it is shown.
"""

import weakref
from collections import defaultdict, deque
from collections.abc import Mapping
from dataclasses import dataclass, field

from fastcoder_lsp.core import Tokens
from fastcoder_lsp.core.differences import common_prefix
from fastcoder_lsp.observe import Cause
from fastcoder_lsp.scheduling.generation import Generation, LocalGeneration, SearchingGeneration

_TEXTS = 12  # latest texts whose steps may still move: as many as the front remembers of a document
_STRETCHES = 32


@dataclass(slots=True)
class _PrefilledStretch:
    """The tokens `start`…`end` of a prompt; `ahead`: no question waited for them. `used`: the share booked as used."""

    uri: str
    prompt: Tokens
    start: int
    end: int
    ahead: bool
    seconds: float = 0.0
    used: float = 0.0


@dataclass(slots=True)
class _GeneratedText:
    """The work for a text that begins at character `start` of its document, as it was after the last piece.

    `unseen`: the length of the text before each step that is booked as unseen, and the step's seconds.
    """

    uri: str
    start: int
    prompt: Tokens
    steps: int = 0
    prefilled: int = 0
    length: int = 0
    unseen: list[tuple[int, float]] = field(default_factory=list)


class CpuByCause:
    """The CPU seconds of one client; only the scheduler's thread touches it."""

    def __init__(self) -> None:
        self._untold = defaultdict[Cause, float](float)
        self._texts: deque[_GeneratedText] = deque(maxlen=_TEXTS)
        self._stretches: deque[_PrefilledStretch] = deque(maxlen=_STRETCHES)
        self._generation: weakref.ref[LocalGeneration] | None = None  # of the newest text
        self._doing: Cause | _PrefilledStretch | None = None

    def doing(self, cause: Cause) -> None:
        """Tell the cause of the piece of work that runs."""
        self._doing = cause

    def prefetching(self, uri: str, prompt: Tokens, start: int, end: int) -> None:
        """Tell that the piece of work that runs prefills these tokens of a likely prompt."""
        self._doing = _PrefilledStretch(uri, prompt, start, end, ahead=True)

    def spent(self, seconds: float, generation: Generation | None) -> None:
        """Book a piece of work, by what was told of it, or else by the progress of the client's generation."""
        doing, self._doing = self._doing, None
        if doing is None and isinstance(generation, LocalGeneration):
            doing = self._progress(generation, seconds)
        elif doing is None:
            doing = "prompt" if isinstance(generation, SearchingGeneration) else "other"
        if isinstance(doing, _PrefilledStretch):
            self._add(doing, seconds)
            doing = "prefetch_unused" if doing.ahead else "prefill_unused"
        self._untold[doing] += seconds

    def _add(self, stretch: _PrefilledStretch, seconds: float) -> None:
        """Add a stretch to the one that it goes on from, if any: a long prompt has more pieces than are kept."""
        for known in self._stretches:
            same = known.uri == stretch.uri and known.ahead == stretch.ahead and known.end == stretch.start
            if same and known.prompt == stretch.prompt and not known.used:
                known.end, known.seconds = stretch.end, known.seconds + seconds
                return
        stretch.seconds = seconds
        self._stretches.appendleft(stretch)

    def _progress(self, generation: LocalGeneration, seconds: float) -> Cause | _PrefilledStretch:
        is_new = self._generation is None or self._generation() is not generation
        if is_new:
            self._generation = weakref.ref(generation)
            place, prompt = generation.place, generation.request.prompt
            self._texts.appendleft(_GeneratedText(generation.snapshot.uri, len(place.before), prompt))
        text, counts = self._texts[0], generation.counts()
        steps, prefilled = counts.steps - text.steps, counts.prefilled - text.prefilled
        if steps > 0:
            text.unseen.append((text.length, seconds))
        text.steps, text.prefilled, text.length = counts.steps, counts.prefilled, len(generation.said())
        if steps > 0:
            return "steps_unseen"
        if prefilled <= 0:
            return "prompt" if is_new else "other"
        end = max(min(generation.cached, len(text.prompt)), prefilled)
        return _PrefilledStretch(text.uri, text.prompt, end - prefilled, end, generation.ahead)

    def shown(self, uri: str, start: int, length: int) -> None:
        """The user saw the first `length` characters of the text that begins at character `start` of a document."""
        texts = [text for text in self._texts if (text.uri, text.start) == (uri, start)]
        if not texts:
            return
        text = next((one for one in texts if one.length >= length), texts[0])
        # The step at the end of what is shown says that it ends there, or that what follows is unsure.
        seen = [seconds for before, seconds in text.unseen if before <= length]
        text.unseen = [step for step in text.unseen if step[0] > length]
        self._move("steps_unseen", "steps_shown", sum(seen))
        for stretch in self._stretches:
            if stretch.uri == uri and stretch.used < 1:
                shared = min(common_prefix(stretch.prompt, text.prompt), stretch.end) - stretch.start
                used = max(shared / max(stretch.end - stretch.start, 1), stretch.used)
                unused: Cause = "prefetch_unused" if stretch.ahead else "prefill_unused"
                of_use: Cause = "prefetch_used" if stretch.ahead else "prefill_used"
                self._move(unused, of_use, (used - stretch.used) * stretch.seconds)
                stretch.used = used

    def _move(self, before: Cause, after: Cause, seconds: float) -> None:
        self._untold[before] -= seconds
        self._untold[after] += seconds

    def take(self) -> Mapping[Cause, float]:
        """The seconds by cause since the last call; below zero where more moved away than was added."""
        untold, self._untold = self._untold, defaultdict[Cause, float](float)
        return {cause: seconds for cause, seconds in untold.items() if seconds}
