"""`train edits`: a fill-in model learns to suggest next edits, from commits, in our order of Sweep's first format.

The hunks of a file are applied one after the other, from the top or from the bottom, as a user might have made them.
After each of them the model is asked as the server asks: the history is that of `edits/history` for the hunks so far,
the cursor is at the end of the last one. The answer is the window with the later hunks in it that the history foretells
(`Foretelling`): others would only teach the model to guess. Without such a hunk the window stays as it is, so that the
model learns to be quiet. The loss is on the answer only, as published.

Commits hold few half-done renames, the commonest next edit. So each changed file is also renamed in: one of its names
gets another one, line by line. Half of the examples of a step change something: Sweep does not say how many of its own
do, and half of cursortab's cases do.
"""

import hashlib
import random
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Final

import numpy as np
from msgspec import structs
from typing_extensions import override

from fastcoder_lsp import model as models
from fastcoder_lsp.core import Change
from fastcoder_lsp.core.arrays import Int32s
from fastcoder_lsp.core.controls import counted
from fastcoder_lsp.edits.formats import EditLimits, EditPrompt, encode_parts
from fastcoder_lsp.edits.gate import differing
from fastcoder_lsp.edits.history import EditHistory
from fastcoder_lsp.edits.minimal import Hunk, line_hunks
from fastcoder_lsp.edits.sweep import FastcoderV1
from fastcoder_lsp.edits.values import EditQuestion
from fastcoder_lsp.errors import FastcoderError, UsageError
from fastcoder_lsp.model.files import TrainingRecord
from fastcoder_lsp.papers.train.example import Example, Labels, order, trunk
from fastcoder_lsp.papers.train.options import TrainingDevice, machine
from fastcoder_lsp.papers.train.run_folder import RunFolder
from fastcoder_lsp.papers.train.texts import CommitHistory, FileChange, Texts, read_history
from fastcoder_lsp.papers.train.trainable import Trainable
from fastcoder_lsp.papers.train.tuning import TaskSession
from fastcoder_lsp.tokenizer import Tokenizer

FORMAT: Final = FastcoderV1()
CHANGED, COPIED, QUIET = "changed", "copied", "quiet"
"""The loss terms: of the tokens by which an answer changes the window, of its others, and of answers that repeat it.

The gate's probability is that of the first ones."""
WEIGHTS: Final = {CHANGED: 0.3, COPIED: 1.0, QUIET: 1.0}
"""Each term is a mean, and a tenth of an edit's tokens change something: one of them counts as three others."""
HELD_OUT_SHARE = 0.1  # of a repository's examples: those of the latest commits
MOST_EXAMPLES = 100_000  # as many as Sweep had; those of older commits are left out
MOST_HUNKS = 12  # of a file; more are a rewrite, whose order cannot be guessed
PROMPT_SHARE = 0.85
"""Of an example's tokens, estimated as for prompts, a third too high for code. The answer needs about a quarter."""
APART_MS = 5_000.0  # time between two hunks: they are changes of their own
MOST_EARLIER = 2  # changes of another file that an example's history may begin with, as a user's does
_MOST_EARLIER_CHARACTERS = 400
_FEWEST_AROUND, _MOST_AROUND = 1, 9
"""Lines that an example shows above the first hunk and below the last one: files of every length occur."""
_RENAMED_LINES = 24  # lines of a file that a name is changed in
_WORD = re.compile(r"\w+|[^\w\s]")
_NAME = re.compile(
    r"\b(?!(?:and|async|await|bool|boolean|break|case|catch|class|const|continue|def|default|del|elif|else|enum|except|"
    r"export|extends|extern|false|False|final|finally|for|from|func|function|global|impl|import|int|interface|lambda|let|"
    r"match|mod|module|mut|new|nil|None|not|null|number|override|package|pass|private|protected|pub|public|raise|range|"
    r"return|self|static|str|string|struct|super|switch|this|throw|true|True|try|type|use|using|val|var|void|where|"
    r"while|with|yield)\b)[A-Za-z_]\w{2,}"
)
"""A name that is no keyword of the commoner languages."""
_SUFFIXES: Final = ("s", "_id", "_name", "Value", "_new", "2", "List", "_path")


@dataclass(frozen=True, slots=True)
class EditsSettings:
    """`commits`: of each repository the newest ones, without merges; `commit`: the newest of them, None for `HEAD`."""

    commits: int = 2000
    commit: str | None = None


@dataclass(frozen=True, slots=True)
class EditExample:
    """A prompt and its answer: `new` is the window after it, equal to `prompt.region` where nothing is to change."""

    prompt: EditPrompt
    new: str

    def encoded(self, tokenizer: Tokenizer) -> "EncodedExample":
        """The example as tokens."""
        asked = self.prompt.encode(tokenizer)
        old, new = (encode_parts(FORMAT.answer(text), tokenizer) for text in (self.prompt.region, self.new))
        return EncodedExample(np.array([*asked, *new], np.int32), len(asked), tuple(sorted(differing(old, new))))


@dataclass(frozen=True, slots=True)
class EncodedExample:
    """A prompt's tokens and, from `answer` on, its answer's with the end mark; `changed`: places of changed ones."""

    tokens: Int32s
    answer: int
    changed: tuple[int, ...]

    def __len__(self) -> int:
        return len(self.tokens)

    def example(self) -> Example:
        """With a goal at each token of the answer."""
        ids = self.tokens.astype(np.int64)
        nodes, goals = np.arange(self.answer - 1, len(ids) - 1, dtype=np.int64), ids[self.answer :]
        is_changed = np.isin(np.arange(len(goals)), self.changed)
        terms = {CHANGED: is_changed, COPIED: ~is_changed} if self.changed else {QUIET: ~is_changed}
        labels = {term: Labels(nodes[chosen], goals[chosen]) for term, chosen in terms.items()}
        return Example(*trunk(ids), labels, {})


def examples_of(change: FileChange, limits: EditLimits, earlier: tuple[Change, ...] = ()) -> Iterator[EditExample]:
    """The examples that a file's change gives, one after each of its hunks; `earlier` changes begin the history."""
    old, new = change.old.split("\n"), change.new.split("\n")
    hunks = _steps(line_hunks(old, new))
    if len(hunks) > MOST_HUNKS:
        return
    done = list(range(len(hunks)))
    if _draw(change).random() > 0.5:
        done.reverse()
    history = EditHistory(lambda _: True, lambda _uri, _above, lines: [False] * len(lines))
    before = change.old
    for count in range(1, len(done) + 1):
        made, at_ms = frozenset(done[:count]), count * APART_MS
        lines, places = _applied(old, new, hunks, made)
        text = "\n".join(lines)
        history.note(change.path, change.path, before, text, at_ms)
        before = text
        cursor = _cursor(lines, places[done[count - 1]])
        question = EditQuestion(
            count, change.path, change.path, change.language, count, text, cursor, history.changes(at_ms)
        )
        if not question.history:
            continue
        question = structs.replace(question, history=(*earlier, *question.history))
        prompt = FORMAT.prompt(question, limits)
        if prompt is None:
            continue
        first = text.count("\n", 0, prompt.region_start)
        last = first + prompt.region.count("\n")
        inside = _inside([places[step] for step in done[count:]], first, last)
        if inside is None:
            continue
        left = [step for step, is_inside in zip(done[count:], inside, strict=True) if is_inside]
        known = Foretelling(question.history, prompt.text)
        later = [step for step in left if known.tells(*_sides(old, new, hunks[step]))]
        if left and not later:
            continue
        whole, _ = _applied(old, new, hunks, made.union(later))
        wanted = "\n".join(whole[first : last + 1 + len(whole) - len(lines)])
        # Answers that the server would not show teach nothing: blank lines alone, or nothing left.
        read = FORMAT.read(prompt, "".join(FORMAT.answer(wanted)))
        if read == wanted or (read is None and wanted == prompt.region):
            yield EditExample(prompt, wanted)


class Foretelling:
    """Whether a history foretells the hunks that follow it.

    A hunk is foretold if the prompt has every word that it adds, and a change of the history added one of these words
    or removed one of those that the hunk removes: a name, if the hunk changes any.
    """

    def __init__(self, history: Sequence[Change], prompt: str) -> None:
        self._words = frozenset(_WORD.findall(prompt))
        sides = [_added_and_removed(change.old, change.new) for change in history]
        self._added = frozenset[str]().union(*(added for added, _ in sides))
        self._removed = frozenset[str]().union(*(removed for _, removed in sides))

    def tells(self, old: str, new: str) -> bool:
        """Whether lines that become others are foretold."""
        added, removed = _added_and_removed(old, new)
        common = (added & self._added) | (removed & self._removed)
        if any(map(_NAME.fullmatch, added | removed)):
            common = frozenset(filter(_NAME.fullmatch, common))
        return added <= self._words and bool(common)


def _added_and_removed(old: str, new: str) -> tuple[frozenset[str], frozenset[str]]:
    before, after = Counter(_WORD.findall(old)), Counter(_WORD.findall(new))
    return frozenset(after - before), frozenset(before - after)


def _sides(old: Sequence[str], new: Sequence[str], hunk: Hunk) -> tuple[str, str]:
    a, b, c, d = hunk
    return "\n".join(old[a:b]), "\n".join(new[c:d])


def excerpt(change: FileChange) -> FileChange:
    """The change with some of the lines around it."""
    old, new, draw = change.old.split("\n"), change.new.split("\n"), _draw(change)
    hunks = line_hunks(old, new)
    above, below = hunks[0][0], len(old) - hunks[-1][1]
    above -= min(draw.randint(_FEWEST_AROUND, _MOST_AROUND), above)
    below -= min(draw.randint(_FEWEST_AROUND, _MOST_AROUND), below)
    sides = ("\n".join(lines[above : len(lines) - below]) for lines in (old, new))
    return FileChange(change.commit, change.path, change.language, *sides)


def renamed(change: FileChange) -> FileChange | None:
    """Some lines of the file after the change, in which a name gets another one; None if no name is there twice."""
    draw, lines = _draw(change), change.new.split("\n")
    first = draw.randrange(max(len(lines) - _RENAMED_LINES, 0) + 1)
    lines = lines[first : first + draw.randint(_RENAMED_LINES // 3, _RENAMED_LINES)]
    found = Counter(name for line in lines for name in set(_NAME.findall(line)))
    names = sorted(name for name, count in found.items() if count > 1)
    others = sorted(set(_NAME.findall(change.new)) - found.keys())
    if not names:
        return None
    old = draw.choice(names)
    new = draw.choice(others) if others and draw.random() < 0.5 else old + draw.choice(_SUFFIXES)
    text = "\n".join(lines)
    return FileChange(change.commit, change.path, change.language, text, re.sub(rf"\b{old}\b", new, text))


def _draw(change: FileChange) -> random.Random:
    seed = hashlib.sha256(f"{change.commit} {change.path}".encode(errors="replace")).digest()
    return random.Random(seed)  # noqa: S311 no secret


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
    start, end = place
    row = min(max(start, end - 1), len(lines) - 1)
    return sum(len(line) + 1 for line in lines[:row]) + (len(lines[row]) if end > start else 0)


def _inside(places: Sequence[tuple[int, int]], first: int, last: int) -> list[bool] | None:
    """Whether each place lies within these lines, insertions at an end on both sides; None if one crosses an end."""
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

    weights = WEIGHTS

    def __init__(
        self,
        learnt: Sequence["EncodedExample"],
        held: Sequence["EncodedExample"],
        *,
        batch: int,
        seed: int,
        held_out: int,
    ) -> None:
        self._kinds = [kind for kind in _by_kind(learnt) if kind]
        self._held = [one for kind in _by_kind(held) for one in _spread(kind, held_out // 2)]
        self._batch, self._seed = batch, seed

    def examples(self, step: int) -> list[Example]:
        """The examples to train on."""
        return [self._at(index) for index in range(step * self._batch, (step + 1) * self._batch)]

    def held_out(self) -> list[Example]:
        """Examples of later commits."""
        return [one.example() for one in self._held]

    def _at(self, index: int) -> Example:
        place, kind = divmod(index, len(self._kinds))
        return self._kinds[kind][order(len(self._kinds[kind]), self._seed, place)].example()


def _by_kind(examples: Sequence[EncodedExample]) -> list[list[EncodedExample]]:
    return [[one for one in examples if bool(one.changed) == changes] for changes in (True, False)]


def _spread(examples: Sequence[EncodedExample], most: int) -> list[EncodedExample]:
    return [examples[place * len(examples) // most] for place in range(most)] if len(examples) > most else [*examples]


class EditsSession(TaskSession):
    """`train edits`."""

    method = "edits"

    @override
    def machine(self) -> TrainingDevice:
        return machine(self.job.device, models.count_parameters(self.files.folder), vectors=True)

    @override
    def read(self) -> Texts:
        for repository in self.repositories:
            self.listener.note(f"reading the history of {repository}")
        prints = "".join(history.fingerprint for history in self.histories)
        return Texts(self.job.data, (), hashlib.sha256(prints.encode()).hexdigest())

    @cached_property
    def repositories(self) -> tuple[Path, ...]:
        """The top folders of the work trees."""
        return tuple(Path(one).expanduser().absolute() for one in self.job.data)

    @cached_property
    def histories(self) -> tuple[CommitHistory, ...]:
        """The commits of each repository, the same ones if a run is resumed; UsageError for an unreadable one."""
        if self.own.commit and len(self.repositories) > 1:
            raise UsageError("--commit names a commit of one repository, but there are several", "Leave it out.")
        newest = self._begun_with() or (self.own.commit,) * len(self.repositories)
        return tuple(map(read_history, self.repositories, newest, (self.own.commits,) * len(newest)))

    def _begun_with(self) -> tuple[str, ...] | None:
        if self.job.restart:
            return None
        try:
            known: Any = RunFolder(self.job.out.expanduser().absolute()).identity()["record"]["arguments"]["newest"]
        except (FastcoderError, KeyError, TypeError):
            return None
        return tuple(known) if isinstance(known, list) and len(known) == len(self.repositories) else None

    @cached_property
    def record(self) -> TrainingRecord:
        """The record with the prompt's format and the newest commits."""
        record = super().record
        arguments = {**record.arguments, "newest": [history.commit for history in self.histories]}
        return replace(record, arguments=arguments, edit_format=FORMAT.name)

    @cached_property
    def examples(self) -> tuple[list[EncodedExample], list[EncodedExample]]:
        """Examples to learn from, and those of later commits; equal ones count once. Raises UsageError for too few."""
        learnt, held, seen = list[EncodedExample](), list[EncodedExample](), set[bytes]()
        for history in self.histories:
            found = self._of(history, seen)[-MOST_EXAMPLES:]
            later = {commit for commit, _ in found[len(found) - max(1, int(len(found) * HELD_OUT_SHARE)) :]}
            learnt += [example for commit, example in found if commit not in later]
            held += [example for commit, example in found if commit in later]
        if not any(example.changed for example in learnt):
            raise UsageError(
                f"too few changes to learn from: {counted(len(learnt) + len(held), 'example')} in "
                f"{', '.join(map(str, self.repositories))}",
                "Name a repository with a longer history, or raise --length.",
            )
        return learnt, held

    def _of(self, history: CommitHistory, seen: set[bytes]) -> list[tuple[str, EncodedExample]]:
        """The examples of a history that are not `seen` yet, with their commits, oldest first."""
        length = self.settings.length
        limits = EditLimits(prompt_tokens=int(length * PROMPT_SHARE))
        found, earlier = list[tuple[str, EncodedExample]](), tuple[Change, ...]()
        for change in history.changes:
            made = list(examples_of(excerpt(change), limits, earlier))
            if (other := renamed(change)) is not None:
                steps = list(examples_of(other, limits, earlier))
                made += [steps[0], *steps[-1:]] if len(steps) > 1 else steps
            earlier = _earlier(change)
            for one in made:
                example = one.encoded(self.tokenizer)
                digest = hashlib.sha256(example.tokens.tobytes()).digest()
                if len(example) <= length and digest not in seen:
                    seen.add(digest)
                    found.append((change.commit, example))
        return found

    @override
    def amount(self) -> str:
        learnt, held = self.examples
        edits = sum(bool(example.changed) for example in learnt)
        changes = counted(sum(len(history.changes) for history in self.histories), "changed file")
        return f"{changes}: {counted(edits, 'edit')} and {len(learnt) - edits} quiet, {len(held)} of later commits"

    @override
    def task(self, trainable: Trainable) -> EditsTask:
        settings = self.settings
        return EditsTask(*self.examples, batch=settings.batch, seed=settings.seed, held_out=settings.held_out)


def _earlier(change: FileChange) -> tuple[Change, ...]:
    """Changes that the history of the next file's examples begins with: some of this file's, in half of all cases."""
    old, new = change.old.split("\n"), change.new.split("\n")
    sides = [_sides(old, new, hunk) for hunk in line_hunks(old, new)[:MOST_EARLIER]]
    small = [(one, other) for one, other in sides if len(one) + len(other) <= _MOST_EARLIER_CHARACTERS]
    if _draw(change).random() < 0.5:
        return ()
    return tuple(Change(change.path, 0, _whole(one), _whole(other)) for one, other in small)


def _whole(lines: str) -> str:
    return f"{lines}\n" if lines else ""
