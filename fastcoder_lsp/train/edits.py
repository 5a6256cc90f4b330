"""`train edits`: a fill-in model learns to suggest next edits, from a repository's commits, in Sweep's first format.

The hunks of a file are applied one after the other, from the top or from the bottom, as a user might have made them.
After each of them the model is asked as the server asks: the history is what `edits/history` makes of the hunks so far,
the cursor is at the end of the last one. The answer is the window with all later hunks that lie in it; where none does,
the window stays as it is, so that the model learns to be quiet. The loss is on the answer only, as published.

Half of the examples of a step change something: Sweep does not say how many of its own do, and of cursortab's cases
half do.
"""

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from typing_extensions import override

from fastcoder_lsp.core.controls import counted
from fastcoder_lsp.edits.formats import EditLimits, EditPrompt, encode_parts
from fastcoder_lsp.edits.history import EditHistory
from fastcoder_lsp.edits.minimal import Hunk, line_hunks
from fastcoder_lsp.edits.sweep import SweepV1
from fastcoder_lsp.edits.values import EditQuestion
from fastcoder_lsp.errors import FastcoderError, UsageError
from fastcoder_lsp.model.tuned import TrainingRecord
from fastcoder_lsp.tokenizer import Tokenizer
from fastcoder_lsp.train.commits import CommitHistory, FileChange, read_history
from fastcoder_lsp.train.example import Example, Labels, trunk
from fastcoder_lsp.train.run_folder import RunFolder
from fastcoder_lsp.train.sequences import order
from fastcoder_lsp.train.texts import Texts
from fastcoder_lsp.train.trainable import Trainable
from fastcoder_lsp.train.tuning import TaskSession

FORMAT = SweepV1()
EDIT, QUIET = "edit", "quiet"
"""The loss terms: of answers that change the window, and of those that repeat it."""
HELD_OUT_SHARE = 0.1
"""Of the examples: those of the latest commits."""
MOST_EXAMPLES = 100_000
"""As many as Sweep had; those of older commits are left out."""
MOST_HUNKS = 12
"""Of a file; more are a rewrite, whose order cannot be guessed."""
PROMPT_SHARE = 0.85
"""Of an example's tokens, estimated as for prompts, a third too high for code. The answer needs about a quarter."""
APART_MS = 5_000.0
"""Time between two hunks: they are changes of their own."""


@dataclass(frozen=True, slots=True)
class EditsSettings:
    """`commits`: the newest ones, without merges; `commit`: the newest of them, None for `HEAD`."""

    commits: int = 2000
    commit: str | None = None


@dataclass(frozen=True, slots=True)
class EditExample:
    """A prompt and its answer: `new` is the window after it, equal to `prompt.region` where nothing is to change."""

    prompt: EditPrompt
    new: str

    @property
    def is_quiet(self) -> bool:
        """Whether the answer changes nothing."""
        return self.new == self.prompt.region

    def encoded(self, tokenizer: Tokenizer) -> "EncodedExample":
        """The example as tokens."""
        asked = self.prompt.encode(tokenizer)
        answer = encode_parts(FORMAT.answer(self.new), tokenizer)
        return EncodedExample(np.array([*asked, *answer], np.int32), len(asked), QUIET if self.is_quiet else EDIT)


@dataclass(frozen=True, slots=True)
class EncodedExample:
    """The tokens of a prompt and, from `answer` on, of its answer with the mark that ends it; `term`: of its loss."""

    tokens: npt.NDArray[np.int32]
    answer: int
    term: str

    def __len__(self) -> int:
        return len(self.tokens)

    def example(self) -> Example:
        """With a goal at each token of the answer."""
        ids = self.tokens.astype(np.int64)
        nodes = np.arange(self.answer - 1, len(ids) - 1, dtype=np.int64)
        return Example(*trunk(ids), {self.term: Labels(nodes, ids[self.answer :])}, {})


def examples_of(change: FileChange, limits: EditLimits) -> Iterator[EditExample]:
    """The examples that a file's change gives, one after each of its hunks."""
    old, new = change.old.split("\n"), change.new.split("\n")
    hunks = _steps(line_hunks(old, new))
    if len(hunks) > MOST_HUNKS:
        return
    done = list(range(len(hunks)))
    if hashlib.sha256(f"{change.commit} {change.path}".encode(errors="replace")).digest()[0] % 2:
        done.reverse()
    history = EditHistory(lambda _: True, lambda _, lines: [False] * len(lines))
    before = change.old
    for count in range(1, len(done) + 1):
        made, at_ms = frozenset(done[:count]), count * APART_MS
        lines, places = _applied(old, new, hunks, made)
        text = "\n".join(lines)
        history.note(change.path, change.path, before, text, at_ms)
        before = text
        cursor = _cursor(lines, places[done[count - 1]])
        question = EditQuestion(
            count, change.path, change.path, change.language, count, text, cursor, history.changes(at_ms), at_ms
        )
        prompt = FORMAT.prompt(question, limits) if question.history else None
        if prompt is None:
            continue
        first = text.count("\n", 0, prompt.region_start)
        last = first + prompt.region.count("\n")
        inside = _inside([places[step] for step in done[count:]], first, last)
        if inside is None:
            continue
        later = made | {step for step, is_inside in zip(done[count:], inside, strict=True) if is_inside}
        whole, _ = _applied(old, new, hunks, later)
        wanted = "\n".join(whole[first : last + 1 + len(whole) - len(lines)])
        # Answers that the server would not show teach nothing: blank lines alone, or nothing left.
        read = FORMAT.read(prompt, "".join(FORMAT.answer(wanted)))
        if read == wanted or (read is None and wanted == prompt.region):
            yield EditExample(prompt, wanted)


def _steps(hunks: Sequence[Hunk]) -> list[Hunk]:
    """The hunks; lines that replace as many others are changed one by one, as when something is renamed."""
    found = list[Hunk]()
    for a, b, c, d in hunks:
        if b - a == d - c:
            found += [(a + line, a + line + 1, c + line, c + line + 1) for line in range(b - a)]
        else:
            found.append((a, b, c, d))
    return found


def _applied(
    old: Sequence[str], new: Sequence[str], hunks: Sequence[Hunk], made: frozenset[int] | set[int]
) -> tuple[list[str], list[tuple[int, int]]]:
    """The lines with some hunks made, and where each hunk is in them."""
    lines, places, at = list[str](), list[tuple[int, int]](), 0
    for step, (a, b, c, d) in enumerate(hunks):
        lines += old[at:a]
        start, at = len(lines), b
        lines += new[c:d] if step in made else old[a:b]
        places.append((start, len(lines)))
    return [*lines, *old[at:]], places


def _cursor(lines: Sequence[str], place: tuple[int, int]) -> int:
    """The end of what was written; of a deletion, the line below."""
    start, end = place
    row = min(max(start, end - 1), len(lines) - 1)
    return sum(len(line) + 1 for line in lines[:row]) + (len(lines[row]) if end > start else 0)


def _inside(places: Sequence[tuple[int, int]], first: int, last: int) -> list[bool] | None:
    """Whether each place lies within the lines `first` to `last`; None if one crosses an end of them.

    An insertion at an end of the window belongs to it as much as to what lies around it.
    """
    inside = list[bool]()
    for start, end in places:
        within = first <= start and end <= last + 1 if end > start else first < start <= last
        beyond = end <= first or start > last if end > start else start < first or start > last + 1
        if not within and not beyond:
            return None
        inside.append(within)
    return inside


class EditsTask:
    """Every other example of a step changes something; all once in each epoch, each epoch in another order."""

    def __init__(
        self,
        learnt: Sequence["EncodedExample"],
        held: Sequence["EncodedExample"],
        *,
        batch: int,
        seed: int,
        held_out: int,
    ) -> None:
        self._kinds = [kind for kind in _by_term(learnt) if kind]
        self._held = [one for kind in _by_term(held) for one in _spread(kind, held_out // 2)]
        self._batch, self._seed = batch, seed

    @property
    def weights(self) -> dict[str, float]:
        """The weight of each loss term."""
        return {EDIT: 1.0, QUIET: 1.0}

    def examples(self, step: int) -> list[Example]:
        """The examples to train on."""
        return [self._at(index) for index in range(step * self._batch, (step + 1) * self._batch)]

    def held_out(self) -> list[Example]:
        """Examples of later commits."""
        return [one.example() for one in self._held]

    def _at(self, index: int) -> Example:
        place, kind = divmod(index, len(self._kinds))
        return self._kinds[kind][order(len(self._kinds[kind]), self._seed, place)].example()


def _by_term(examples: Sequence[EncodedExample]) -> list[list[EncodedExample]]:
    return [[one for one in examples if one.term == term] for term in (EDIT, QUIET)]


def _spread(examples: Sequence[EncodedExample], most: int) -> list[EncodedExample]:
    """At most so many of them, evenly spread."""
    return [examples[place * len(examples) // most] for place in range(most)] if len(examples) > most else [*examples]


class EditsSession(TaskSession):
    """`train edits`."""

    method = "edits"

    @override
    def read(self) -> Texts:
        self.listener.note(f"reading the history of {self.repository}")
        return Texts(self.job.data, (), self.history.fingerprint)

    @cached_property
    def repository(self) -> Path:
        """The top folder of the work tree."""
        return Path(self.job.data[0]).expanduser().absolute()

    @cached_property
    def history(self) -> CommitHistory:
        """The commits; a run that is resumed keeps to those that it began with."""
        return read_history(self.repository, self.own.commit or self._begun_with(), self.own.commits)

    def _begun_with(self) -> str | None:
        if self.job.restart:
            return None
        try:
            known: Any = RunFolder(self.job.out.expanduser().absolute()).identity()["record"]["arguments"]["newest"]
        except (FastcoderError, KeyError, TypeError):
            return None
        return known if isinstance(known, str) else None

    @cached_property
    def record(self) -> TrainingRecord:
        """The record with the prompt's format and the newest commit."""
        record = super().record
        arguments = {**record.arguments, "newest": self.history.commit}
        return replace(record, arguments=arguments, edit_format=FORMAT.name)

    @cached_property
    def examples(self) -> tuple[list[EncodedExample], list[EncodedExample]]:
        """Examples to learn from, and those of later commits; equal ones count once, for the earliest commit.

        Raises:
            UsageError: there are too few.
        """
        length = self.settings.length
        limits = EditLimits(prompt_tokens=int(length * PROMPT_SHARE))
        found, seen = list[tuple[str, EncodedExample]](), set[bytes]()
        for change in self.history.changes:
            for one in examples_of(change, limits):
                example = one.encoded(self.tokenizer)
                digest = hashlib.sha256(example.tokens.tobytes()).digest()
                if len(example) <= length and digest not in seen:
                    seen.add(digest)
                    found.append((change.commit, example))
        found = found[-MOST_EXAMPLES:]
        later = {commit for commit, _ in found[len(found) - max(1, int(len(found) * HELD_OUT_SHARE)) :]}
        learnt = [example for commit, example in found if commit not in later]
        if not any(example.term == EDIT for example in learnt):
            raise UsageError(
                f"too few changes to learn from: {counted(len(found), 'example')} in {self.repository}",
                "Name a repository with a longer history, or raise --length.",
            )
        return learnt, [example for commit, example in found if commit in later]

    @override
    def amount(self) -> str:
        learnt, held = self.examples
        edits = sum(example.term == EDIT for example in learnt)
        changes = counted(len(self.history.changes), "changed file")
        return f"{changes}: {counted(edits, 'edit')} and {len(learnt) - edits} quiet, {len(held)} of later commits"

    @override
    def task(self, trainable: Trainable) -> EditsTask:
        settings = self.settings
        return EditsTask(*self.examples, batch=settings.batch, seed=settings.seed, held_out=settings.held_out)
