"""The ceiling: a typist waits at each keystroke for the full answer, without any budget.

The answers are the model's own, in this process: the product's prompt, decoding and post-processing, with a drafter
that makes them quicker and, by exactness, no different from those of `none`. Where the last answer goes on with the key
that was typed, what is left of it is the answer, as in the server. An answer belongs to a model, an engine, a prompt,
and the rules of where it ends; it is kept in the cache folder.
"""

import hashlib
import inspect
from collections.abc import Callable, Mapping, MutableMapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from typing_extensions import override

from benchmarks.datasets.histories import RecordedEdit, apply, typed
from benchmarks.harness import Answers, key
from benchmarks.product import FullAnswer
from benchmarks.typist import TAB, Accepter, KeyPosition, Subset, cursors, keys_of
from fastcoder_lsp import postprocess, syntax
from fastcoder_lsp.core import CompletionRequest, Snapshot
from fastcoder_lsp.decode import stop

Ask = Callable[[CompletionRequest], str]
"""The full answer to a request: what would be inserted at the cursor."""
RULES = (postprocess, stop, syntax)
"""Modules that decide where an answer ends and which part is shown; kept answers belong to their sources."""
OPEN_FILES = 8
"""Files that are open in the editor: the last ones that were edited; the others were saved and closed."""


@dataclass(frozen=True, slots=True)
class Ceiling:
    """`answers`: the full answer at each place; `keys`: of all runs; `saved_in`: run → keys that accepts save in it."""

    answers: Mapping[KeyPosition, str]
    keys: int
    saved_in: Mapping[int, int]

    @property
    def saved(self) -> int:
        return sum(self.saved_in.values())

    @property
    def share(self) -> float:
        return self.saved / self.keys if self.keys else 0.0


def ceiling(
    subset: Subset, files: MutableMapping[str, str], ask: Ask, on_key: Callable[[int], None], taker: Accepter = TAB
) -> Ceiling:
    runs, behind = subset.typed_steps(), 0
    answers: dict[KeyPosition, str] = {}
    saved: dict[int, int] = {}
    for place, step in enumerate(subset.steps):
        if (run := runs.get(place)) is not None:
            strokes, begun = keys_of(run), behind
            full = full_answers(run, files, ask, lambda count, begun=begun: on_key(begun + count))  # type: ignore[misc]
            answers |= {KeyPosition(place, at): text for at, text in enumerate(full)}
            saved[place] = patient(full, strokes, taker)
            behind += len(strokes)
        apply(files, step)
    return Ceiling(answers, behind, saved)


def full_answers(step: RecordedEdit, tree: Mapping[str, str], ask: Ask, on_key: Callable[[int], None]) -> list[str]:
    """The full answer before each key of a run, and the one behind the last."""
    run = typed(tree, step)
    last, answers = "", list[str]()
    for count, (stroke, before, after) in enumerate(cursors(run)):
        if stroke and last.startswith(stroke) and len(stroke) < len(last):
            last = last[len(stroke) :]
        else:
            snapshot = Snapshot(run.path, run.path, run.language, count, before + after)
            last = ask(CompletionRequest(snapshot, len(before)))
        answers.append(last)
        on_key(count)
    return answers


def patient(answers: Sequence[str], strokes: Sequence[str], taker: Accepter = TAB) -> int:
    saved = at = 0
    while at < len(strokes):
        here = taker.accepted_keys(answers[at], strokes[at:])
        saved += here
        at += here or 1
    return saved


class FullAnswers:
    """The model's full answers, each made once; `identity` names model and engine."""

    def __init__(self, answers: Answers, identity: str, server: FullAnswer) -> None:
        self._answers, self._server = answers, server
        sources = hashlib.sha256()
        for module in RULES:
            path = Path(inspect.getfile(module))
            for file in sorted(path.parent.glob("*.py")) if path.name == "__init__.py" else [path]:
                sources.update(file.read_bytes())
        self._identity = f"{identity} {sources.hexdigest()[:16]}"

    def __call__(self, request: CompletionRequest) -> str:
        """The full answer to `request`; those to one run's requests are asked for in their order."""
        text, at = request.snapshot.text, request.offset
        if request.snapshot.version == 0:
            self._server.forget(request.snapshot.uri)  # a run's answers depend on that run alone
        prompt = self._server.prompt(request)
        asked = hashlib.sha256(f"{text[:at]}\0{text[at:]}".encode("utf-8", "surrogatepass")).hexdigest()
        name = key(self._identity, prompt, f"keystroke {self._server.max_tokens} {asked}")
        return self._answers.get(name, lambda: self._server.text(request))


class Tree(dict[str, str]):
    """path → text, as `histories.apply` changes it; what is new or closed goes to the disk."""

    def __init__(self, root: Path, files: Mapping[str, str]) -> None:
        super().__init__(files)
        self.root = root
        self._open: dict[str, None] = {}
        self._shown: dict[str, str] = {}
        for path in files:
            self._save(path)

    def __setitem__(self, path: str, text: str) -> None:
        new = path not in self
        super().__setitem__(path, text)
        self._shown.pop(path, None)
        if new:
            self._save(path)
        else:
            self._edited(path)

    def _edited(self, path: str) -> None:
        self._open.pop(path, None)
        self._open[path] = None
        while len(self._open) > OPEN_FILES:
            oldest = next(iter(self._open))
            self._save(oldest)
            del self._open[oldest]

    def __delitem__(self, path: str) -> None:
        super().__delitem__(path)
        self._gone(path)

    @override
    def pop(self, path: str, *default: str | None) -> str | None:  # type: ignore[override]
        text: str | None = super().pop(path, *default)
        self._gone(path)
        return text

    def show(self, path: str, text: str) -> None:
        """Have a file open with a text that is not in it yet, until it is changed."""
        self._edited(path)
        self._shown = {path: text}

    def open_texts(self) -> Mapping[Path, str]:
        """The open documents' texts in the editor; the latest last."""
        return {self.root / path: self._shown.get(path, self[path]) for path in self._open}

    def _gone(self, path: str) -> None:
        self._open.pop(path, None)
        (self.root / path).unlink(missing_ok=True)

    def _save(self, path: str) -> None:
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(self[path], encoding="utf-8", newline="")
