"""The ceiling: what a typist gets who waits at each keystroke for the full answer, without any budget.

Owns those answers. They are the model's own, in this process: the product's prompt, decoding and post-processing, with
a drafter that makes them quicker and, by exactness, no different from those of `none`. Where the last answer goes on
with the key that was typed, what is left of it is the answer, as in the server. An answer belongs to a model, an engine
and a prompt, (and to the rules of where it ends), and is kept in the cache folder.
"""

import hashlib
import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from benchmarks.common.answers import Answers, key
from benchmarks.common.product import FullAnswer
from benchmarks.datasets.histories import Edit, Step, apply, typed
from benchmarks.keystroke import hands
from benchmarks.keystroke.records import KeyPosition
from benchmarks.keystroke.subset import Subset
from fastcoder_lsp import postprocess, syntax
from fastcoder_lsp.core import CompletionRequest, Snapshot
from fastcoder_lsp.decode import stop

Ask = Callable[[CompletionRequest], str]
"""The full answer to a request: what would be inserted at the cursor."""
RULES = (postprocess, stop, syntax)
"""What decides where an answer ends and what is shown of it; answers made by other rules are not these."""


def _unheard(_step: Step) -> None:
    pass


@dataclass(frozen=True, slots=True)
class Ceiling:
    """`answers`: the full answer at each place; `keys`: of all runs; `saved`: those that accepts make unnecessary."""

    answers: Mapping[KeyPosition, str]
    keys: int
    saved: int
    taker: hands.Taker = hands.TAB

    @property
    def share(self) -> float:
        """The share of the keys that need not be typed."""
        return self.saved / self.keys if self.keys else 0.0

    def saved_in(self, place: int, step: Edit) -> int:
        """The keys of one run that accepts save: that of the step at `place`."""
        strokes = hands.keys(step.text.removesuffix("\n"))
        answers = [self.answers[KeyPosition(place, at)] for at in range(len(strokes) + 1)]
        return patient(answers, strokes, self.taker)


def ceiling(
    subset: Subset,
    files: Mapping[str, str],
    ask: Ask,
    on_key: Callable[[int], None],
    on_step: Callable[[Step], None] = _unheard,
    taker: hands.Taker = hands.TAB,
) -> Ceiling:
    """Wait at every key of the subset's typed runs.

    Args:
        subset: of a history.
        files: its tree before the first step.
        ask: gives full answers.
        on_key: told how many keys are behind.
        on_step: told of every step when it is made.
        taker: who accepts.
    """
    tree, keys, saved = dict(files), 0, 0
    answers: dict[KeyPosition, str] = {}
    for place, step in enumerate(subset.steps):
        if place in subset.typed and isinstance(step, Edit):
            said = step.text.removesuffix("\n")
            strokes = hands.keys(said)
            full = full_answers(step, tree, ask, partial(_add, on_key, keys))
            answers |= {KeyPosition(place, at): text for at, text in enumerate(full)}
            saved += patient(full, strokes, taker)
            keys += len(strokes)
        apply(tree, step)
        on_step(step)
    return Ceiling(answers, keys, saved, taker)


def full_answers(step: Edit, tree: Mapping[str, str], ask: Ask, on_key: Callable[[int], None]) -> list[str]:
    """The full answer before each key of a run, and the one behind the last."""
    run = typed(tree, step)
    said = run.text.removesuffix("\n")
    head, tail = run.document[: run.offset], run.text[len(said) :] + run.document[run.offset :]
    opened, strokes = hands.opening(said), hands.keys(said)
    there, last, answers = opened, "", []
    for count, stroke in enumerate(("", *strokes)):
        there += stroke
        goes_on = bool(stroke) and last.startswith(stroke) and len(stroke) < len(last)
        if goes_on:
            last = last[len(stroke) :]
        else:
            snapshot = Snapshot(run.path, run.path, run.language, count, head + there + tail)
            last = ask(CompletionRequest(snapshot, len(head) + len(there)))
        answers.append(last)
        on_key(count)
    return answers


def _add(on_key: Callable[[int], None], behind: int, count: int) -> None:
    on_key(behind + count)


def patient(answers: Sequence[str], strokes: Sequence[str], taker: hands.Taker = hands.TAB) -> int:
    """The keys that accepts save a typist who sees every full answer."""
    saved = at = 0
    while at < len(strokes):
        here = taker.accepted_keys(answers[at], strokes[at:])
        saved += here
        at += here or 1
    return saved


class FullAnswers:
    """The model's full answers, each made once.

    Args:
        answers: kept from run to run.
        identity: names model and engine.
        server: what answers; its drafter may be any.
    """

    def __init__(self, answers: Answers, identity: str, server: FullAnswer) -> None:
        self._answers, self._server = answers, server
        self._identity = f"{identity} {_rules()}"

    def __call__(self, request: CompletionRequest) -> str:
        """The full answer to `request`; those to one run's requests are asked for in their order."""
        text, at = request.snapshot.text, request.offset
        if request.snapshot.version == 0:
            self._server.forget(request.snapshot.uri)  # a run's answers depend on that run alone
        prompt = self._server.prompt(request)
        asked = hashlib.sha256(f"{text[:at]}\0{text[at:]}".encode("utf-8", "surrogatepass")).hexdigest()
        name = key(self._identity, prompt, f"keystroke {self._server.max_tokens} {asked}")
        found = self._answers.get(name)
        if found is None:
            found = self._server.text(request)
            self._answers.put(name, found)
        return found


def _rules() -> str:
    """Names the present form of `RULES`."""
    sources = hashlib.sha256()
    for module in RULES:
        path = Path(inspect.getfile(module))
        for file in sorted(path.parent.glob("*.py")) if path.name == "__init__.py" else [path]:
            sources.update(file.read_bytes())
    return sources.hexdigest()[:16]
