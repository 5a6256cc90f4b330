"""`bench edits`: next edits by cursortab's cases and rule, through our gate.

Score: deltaChrF × the harmonic mean of shown and quiet, as in cursortab's evaluation.
"""

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import fmean, harmonic_mean
from typing import Any, TypeAlias

from msgspec import structs

from benchmarks.datasets import EDIT_CASES, PUBLISHED, EditCase, RecordedAnswer, histories, load_edit_cases, require
from benchmarks.harness import Reported, write
from benchmarks.product import LocalEdits
from fastcoder_lsp.bench.report import print_table
from fastcoder_lsp.cli.options import option
from fastcoder_lsp.core import Change, Reason
from fastcoder_lsp.core.pieces import at_once
from fastcoder_lsp.edits.analogy import SOURCE, analogous, repeated
from fastcoder_lsp.edits.elsewhere import edits_elsewhere
from fastcoder_lsp.edits.formats import FORMATS, EditLimits
from fastcoder_lsp.edits.gate import EditFacts, EditGate
from fastcoder_lsp.edits.minimal import Patch, apply, minimal, patches_of
from fastcoder_lsp.edits.values import Edit, EditAnswer, EditQuestion
from fastcoder_lsp.observe import percentile
from fastcoder_lsp.workspace.languages import language_of

EXAMPLE = "edits --json edits.json"
THRESHOLD = 0.7
"""Of the joint probability, where an answer has one: recorded answers have none."""
_N_GRAMS, _BETA = 6, 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Options(Reported):
    """Judge recorded answers of published edit models by cursortab's cases and rule, with our gate and without.

    The recorded answers have no probabilities, so the gate's threshold does not hold any of them back. With `--model`
    a local edit model is asked instead, at several thresholds. `--replay` without a model asks for what the user's
    repeated changes alone suggest.
    """

    cases: Path | None = option("the cases; without it, those of the benchmark data", None, metavar="FILE")
    model: str = option("ask this edit model instead, as the setting `edits.model`", "", metavar="NAME")
    threshold: float = option("joint probability from which its edits are shown", THRESHOLD)
    replay: str = option("also ask after each edit of these histories, separated by commas", "", metavar="NAMES")
    limit: int | None = option("only the first N edits of each history", None, metavar="N")


WAYS = ("none", "by key", "automatic")
"""Without a gate; with ours, for requests as in the cases, most of them by key; and as if none were by key."""
Answerer: TypeAlias = Callable[[EditCase, EditQuestion, int], EditAnswer | None]
"""(case, question, how many requests came before) → the answer; None if there is none."""


@dataclass(frozen=True, slots=True)
class CaseResult:
    case: str
    wanted: bool
    shown: bool
    delta_chrf: float
    reasons: tuple[str, ...]


def run(options: Options) -> int:
    cases = load_edit_cases(options.cases or require("next_edit") / EDIT_CASES)
    if options.model:
        return _ask(options, cases)
    if options.replay:
        names = tuple(filter(None, options.replay.split(",")))
        others = {name: replay_elsewhere(require("replay"), name, options.limit) for name in names}
        told = _replayed(options, by_analogy)
        print_table(
            "Proposed in other files, and made there within the same commit",
            ("history", "shown", "right", "wrong", "repeated elsewhere", "found"),
            [
                (name, one.shown, one.right, one.shown - one.right, len(one.repeated), len(one.repeated & one.found))
                for name, one in others.items()
            ],
        )
        elsewhere = {name: asdict(one) | _sets(one) for name, one in others.items()}
        write(options, "edits", {"histories": told, "elsewhere": elsewhere})
        return 0
    models = {model: None for case in cases for model in case.answers}
    results: dict[str, Any] = {}
    rows = list[tuple[str, ...]]()
    for model in sorted(models, key=_published_score, reverse=True):
        asked = [case for case in cases if model in case.answers]
        results[model] = {way: _report([judge(case, recorded(model), way) for case in asked]) for way in WAYS}
        rows += [(model, way, *_cells(found)) for way, found in results[model].items()]
        if (published := PUBLISHED.get(model)) is not None:
            results[model]["published"] = asdict(published)
            shares = (f"{published.shown:.0f} %", f"{published.quiet:.0f} %")
            rows.append((model, "published", *shares, f"{published.delta_chrf:.1f}", f"{_published_score(model):.1f}"))
    title = f"Recorded answers to {len(cases)} cases; published figures are of all 50"
    print_table(title, ("model", "gate", *_COLUMNS), rows)
    write(options, "edits", {"models": results})
    return 0


_COLUMNS = ("shown", "quiet", "deltaChrF", "score")
CURVE = (0.0, 0.1, 0.3, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95)
"""Thresholds of the gate's curve."""


def _ask(options: Options, cases: Sequence[EditCase]) -> int:
    local = LocalEdits.load(options.model)
    ask = remembered(local.answer)
    found = {way: _report([judge(case, ask, way, options.threshold) for case in cases]) for way in WAYS}
    curve = {str(least): summary([judge(case, ask, "by key", least) for case in cases]) for least in CURVE}
    print_table(
        f"{options.model}: {len(cases)} cases; p50 of an answer: {percentile(local.ms, 0.5):.0f} ms",
        ("gate", *_COLUMNS),
        [(way, *_cells(one)) for way, one in found.items()],
    )
    print_table("By key, by threshold", ("threshold", *_COLUMNS), [(at, *_cells(one)) for at, one in curve.items()])
    told = _replayed(options, local.answer)
    write(options, "edits", {"gates": found, "curve": curve, "histories": told, "ms": local.ms})
    return 0


def _replayed(options: Options, answer: Callable[[EditQuestion], EditAnswer]) -> dict[str, Any]:
    found = {
        name: replay(require("replay"), name, answer, options.threshold, options.limit)
        for name in filter(None, options.replay.split(","))
    }
    if found:
        print_table(
            f"Proposed after each edit of a history, and made within the next {REACH}",
            ("history", "edits", "asked", "shown", "right", "wrong", "edits found", "repeated", "found"),
            [
                (
                    *(name, one.edits, one.asked, one.shown, one.right, one.shown - one.right, len(one.found)),
                    *(len(one.repeated), len(one.repeated & one.found)),
                )
                for name, one in found.items()
            ],
        )
    return {name: asdict(one) | _sets(one) for name, one in found.items()}


def _sets(found: "ReplayedEdits") -> dict[str, list[int]]:
    return {"found": sorted(found.found), "repeated": sorted(found.repeated)}


NOTHING = Reason("edit-none", "You repeated no change.", "")


def by_analogy(question: EditQuestion) -> EditAnswer:
    edits = analogous(question)
    return EditAnswer(edits, source=SOURCE, reason=None if edits else NOTHING)


def remembered(answer: Callable[[EditQuestion], EditAnswer]) -> Answerer:
    """Asks about each text and place of a case once."""
    answers: dict[tuple[str, str, int], EditAnswer] = {}

    def once(case: EditCase, question: EditQuestion, _number: int) -> EditAnswer:
        place = case.id, question.text, question.offset
        if place not in answers:
            answers[place] = answer(question)
        return answers[place]

    return once


def _report(results: Sequence[CaseResult]) -> dict[str, Any]:
    reasons = Counter(reason for result in results for reason in result.reasons)
    return {**summary(results), "reasons": reasons, "cases": [asdict(result) for result in results]}


def judge(case: EditCase, answer: Answerer, way: str, threshold: float = THRESHOLD) -> CaseResult:
    """Take a case's steps with the answers of one model, in one of `WAYS`."""
    text, offset, history = case.text, case.offset, case.history
    gate = EditGate() if way != "none" else None
    proposed: tuple[Edit, ...] = ()
    shown, requests, reasons = False, 0, list[str]()
    for step in case.steps:
        if step == "accept":
            history += _accepted(case.path, text, proposed)
            offset = _end_of(proposed, offset)
            text, proposed = apply(text, proposed), ()
            continue
        by_key = way == "by key" and "manual" in step
        document = case.path, case.path, case.language, requests, text
        asked = EditQuestion(requests + 1, *document, offset, history, by_key)
        reason = gate.before(asked, EditFacts(0.0, modified=case.modified)) if gate is not None else None
        given = answer(case, asked, requests) if reason is None else None
        requests += reason is None
        proposed = given.edits if given is not None else ()
        if given is not None and gate is not None:
            reason = gate.after(asked, proposed, given.probability, threshold, cut=given.cut)
        if reason is not None:
            reasons.append(reason.code)
            proposed = ()
        shown |= apply(text, proposed) != text
    quality = delta_chrf(case.text, apply(text, proposed), case.after) if case.after is not None else 0.0
    return CaseResult(case.id, case.after is not None, shown, quality, tuple(reasons))


def summary(results: Sequence[CaseResult]) -> dict[str, float]:
    wanted = [result for result in results if result.wanted]
    quiet = [result for result in results if not result.wanted]
    shown_share = fmean(result.shown for result in wanted) if wanted else 0.0
    quiet_share = fmean(not result.shown for result in quiet) if quiet else 0.0
    quality = fmean(result.delta_chrf for result in wanted) if wanted else 0.0
    return {
        "wanted": len(wanted),
        "shown": 100 * shown_share,
        "unwanted": len(quiet),
        "quiet": 100 * quiet_share,
        "delta_chrf": quality,
        "score": quality * harmonic_mean([shown_share, quiet_share]),
    }


def _cells(found: Mapping[str, Any]) -> list[str]:
    shares = (("shown", "wanted"), ("quiet", "unwanted"))
    counts = [f"{found[share] * found[of] / 100:.0f} of {found[of]:.0f}" for share, of in shares]
    return [*counts, f"{found['delta_chrf']:.1f}", f"{found['score']:.1f}"]


def _published_score(model: str) -> float:
    published = PUBLISHED.get(model)
    return 0.0 if published is None else published.delta_chrf * harmonic_mean([published.shown, published.quiet]) / 100


def delta_chrf(before: str, candidate: str, reference: str) -> float:
    """chrF (Popović 2015) of the changed lines of two texts, in percent; cursortab's `metrics/chrf.go`.

    Orders without n-grams on both sides do not count; two texts without changed lines are alike.
    """
    ours, theirs = _changed(before, candidate), _changed(before, reference)
    scores = []
    for order in range(1, _N_GRAMS + 1):
        grams, wanted = (Counter(text[i : i + order] for i in range(len(text) - order + 1)) for text in (ours, theirs))
        if not grams and not wanted:
            continue
        common = (grams & wanted).total()
        weighted = _BETA**2 * wanted.total() + grams.total()
        scores.append((1 + _BETA**2) * common / weighted)
    return 100 * fmean(scores) if scores else 100.0


def _changed(before: str, after: str) -> str:
    return "\n".join(Patch(0, tuple(before.split("\n")), tuple(after.split("\n"))).trimmed().new)


def _accepted(path: str, text: str, edits: Iterable[Edit]) -> tuple[Change, ...]:
    changes, moved = list[Change](), 0
    for patch in patches_of(text, tuple(edits)):
        old, new = ("".join(f"{line}\n" for line in side) for side in (patch.old, patch.new))
        changes.append(Change(path, patch.line + moved, old, new, accepted=True))
        moved += len(patch.new) - len(patch.old)
    return tuple(changes)


def _end_of(edits: Sequence[Edit], offset: int) -> int:
    if not edits:
        return offset
    return edits[-1].start + len(edits[-1].text) + sum(len(edit.text) - edit.end + edit.start for edit in edits[:-1])


def recorded(model: str) -> Answerer:
    def answer(case: EditCase, question: EditQuestion, number: int) -> EditAnswer | None:
        for one in case.answers.get(model, ())[number:]:
            if (edits := read_answer(question, one)) is not None:
                return EditAnswer(edits, cut=not one.complete)
        return None

    return answer


def read_answer(question: EditQuestion, answer: RecordedAnswer) -> tuple[Edit, ...] | None:
    """The edits of the question's text that a recorded answer makes; None if its prompt shows another text."""
    if not answer.prompt:
        return answer.edits
    if (infilled := _INFILL.fullmatch(answer.prompt)) is not None:
        at = len(infilled["before"])
        shows = question.text == infilled["before"] + infilled["after"]
        return minimal(question.text, at, at, answer.output) if shows else None
    if (window := _REWRITTEN.search(answer.prompt)) is not None:
        old = window["old"].replace("<|cursor|>", "", 1)
        at = question.text.find(old)
        fenced = _FENCED.fullmatch(answer.output.strip())
        new = fenced["new"] if fenced is not None else old
        return minimal(question.text, at, at + len(old), new) if at >= 0 else None
    return _read_formatted(question, answer)


_INFILL = re.compile(r"<\|fim_prefix\|>(?P<before>.*)<\|fim_suffix\|>(?P<after>.*)<\|fim_middle\|>", re.DOTALL)
_REWRITTEN = re.compile(r"<\|code_to_edit\|>\n(?P<old>.*)\n<\|/code_to_edit\|>", re.DOTALL)
"""The window of prompts like NES', which no format of ours makes."""
_FENCED = re.compile(r"```\w*\n(?P<new>.*?)\n?```", re.DOTALL)


def _read_formatted(question: EditQuestion, answer: RecordedAnswer) -> tuple[Edit, ...] | None:
    """By the first of our formats that makes a prompt with the same region for some cursor in the text."""
    starts = [match.end() for match in re.finditer(r"^[ \t]*", question.text, re.MULTILINE)]
    for form in FORMATS:
        old = form.recognise(answer.prompt)
        if old is None:
            continue
        for offset in (question.offset, *starts):
            prompt = form.prompt(structs.replace(question, offset=offset), EditLimits())
            if prompt is not None and prompt.old == old:
                new = form.read(prompt, answer.output, complete=answer.complete)
                text = question.text
                return () if new is None else minimal(text, prompt.region_start, prompt.region_end, new)
    return None


PAUSE_MS = 2_000.0
"""Between two edits of a replayed history, so that each is an entry of its own."""
REACH = 12
"""An edit that a person makes within so many edits was proposed rightly."""


@dataclass(slots=True)
class ReplayedEdits:
    """What was proposed after each edit of a history.

    Attributes:
        asked: how often the gate let a model be asked.
        shown, right: proposals shown, and those that the person made within the next edits, verbatim.
        found: edits that were shown before they were made.
        repeated: edits with a replacement that two earlier ones made.
    """

    edits: int = 0
    asked: int = 0
    shown: int = 0
    right: int = 0
    found: set[int] = field(default_factory=set)
    repeated: set[int] = field(default_factory=set)
    reasons: dict[str, int] = field(default_factory=dict)


def replay(
    folder: Path,
    name: str,
    answer: Callable[[EditQuestion], EditAnswer],
    threshold: float = THRESHOLD,
    limit: int | None = None,
) -> ReplayedEdits:
    made = list(_made(folder, name))[:limit]
    told, gate = ReplayedEdits(edits=len(made)), EditGate()
    history = histories.edit_history()
    for number, edit in enumerate(made):
        now_ms = number * PAUSE_MS
        history.note(edit.path, edit.path, edit.before, edit.after, now_ms)
        asked_ms = now_ms + PAUSE_MS
        document, changes = (edit.path, edit.path, edit.language, number, edit.after), history.changes(asked_ms)
        question = EditQuestion(number, *document, edit.end, changes)
        if any(len({example.change for example in one.examples}) > 2 for one in repeated(question.history)):
            told.repeated.add(number)
        reason = gate.before(question, history.facts(edit.path, asked_ms))
        if reason is None:
            told.asked += 1
            given = answer(question)
            reason = given.reason or gate.after(question, given.edits, given.probability, threshold, cut=given.cut)
        if reason is not None:
            told.reasons[reason.code] = told.reasons.get(reason.code, 0) + 1
            continue
        later = [
            (at, patch)
            for at, one in enumerate(made[number + 1 : number + 1 + REACH], number + 1)
            if one.path == edit.path
            for patch in one.patches
        ]
        proposed = patches_of(edit.after, given.edits)
        matched = [[at for at, patch in later if _holds(patch, one)] for one in proposed]
        told.shown += 1
        told.right += all(matched)
        told.found.update(at for places in matched for at in places[:1] if all(matched))
    return told


class _ReplayedFiles:
    """The files of a history, as they are now."""

    def __init__(self, texts: Mapping[str, str]) -> None:
        self._texts = texts

    def known(self) -> Collection[str]:
        return self._texts.keys()

    def holding(self, words: Sequence[str], *, partly: bool = False) -> list[str]:  # noqa: ARG002 it has all
        return [path for path, text in self._texts.items() if all(word in text for word in words)]

    def read(self, path: str) -> tuple[str, str] | None:
        return (self._texts[path], language_of(Path(path))) if path in self._texts else None


def replay_elsewhere(folder: Path, name: str, limit: int | None = None) -> ReplayedEdits:
    """What other files are proposed after each edit of a history, each proposal once in a commit.

    `repeated` are the edits that make the first place of a replacement in their file, after another file had it.
    """
    made, told = list(_made(folder, name))[:limit], ReplayedEdits()
    history, gate = histories.edit_history(), EditGate()
    seen = set[tuple[str, str, tuple[Patch, ...]]]()
    for number, edit in enumerate(made):
        now_ms = number * PAUSE_MS
        history.note(edit.path, edit.path, edit.before, edit.after, now_ms)
        asked_ms = now_ms + PAUSE_MS
        changes = history.changes(asked_ms)
        question = EditQuestion(number, edit.path, edit.path, edit.language, number, edit.after, edit.end, changes)
        if _is_first_in_its_file(question, number, made):
            told.repeated.add(number)
        if gate.before(question, history.facts(edit.path, asked_ms)) is not None or analogous(question):
            continue
        told.asked += 1
        for found in at_once(edits_elsewhere(question, _ReplayedFiles(edit.files))):
            patches = patches_of(edit.files[found.path], found.edits)
            if (edit.commit, found.path, patches) in seen:
                continue
            seen.add((edit.commit, found.path, patches))
            later = [
                (at, patch)
                for at, one in enumerate(made[number + 1 :], number + 1)
                if one.commit == edit.commit and one.path == found.path
                for patch in one.patches
            ]
            matched = [[at for at, patch in later if _holds(patch, one)] for one in patches]
            told.shown += 1
            told.right += all(matched)
            told.found.update(at for places in matched for at in places[:1] if all(matched))
    told.edits = len(made)
    return told


def _is_first_in_its_file(question: EditQuestion, number: int, made: "Sequence[_MadeEdit]") -> bool:
    """Whether a question's last change repeats one of other files, in a file that has not repeated it yet."""
    return any(
        len({one.change for one in again.examples}) > 2
        and [one.path for one in again.examples].count(question.path) == 1
        for again in repeated(question.history)
    ) and any(one.commit == made[number].commit for one in made[:number])


@dataclass(frozen=True, slots=True)
class _MadeEdit:
    commit: str
    files: Mapping[str, str]  # the whole tree after it
    path: str
    language: str
    before: str
    after: str
    end: int
    patches: tuple[Patch, ...]


def _made(folder: Path, name: str) -> Iterator[_MadeEdit]:
    files = histories.base(folder, name)
    for step in histories.steps(folder, name):
        before = files.get(step.path, "")
        histories.apply(files, step)
        if isinstance(step, histories.RecordedEdit):
            edit = Edit(step.offset, step.offset + step.delete, step.text)
            language = language_of(Path(step.path))
            end = step.offset + len(step.text)
            yield _MadeEdit(
                step.commit,
                dict(files),
                step.path,
                language,
                before,
                files[step.path],
                end,
                patches_of(before, (edit,)),
            )


def _holds(whole: Patch, part: Patch) -> bool:
    """Whether `whole` makes the change `part`, alone or among lines that it changes one by one."""
    if (whole.old, whole.new) == (part.old, part.new):
        return True
    if len(whole.old) != len(whole.new) or len(part.old) != len(part.new):
        return False
    size = len(part.old)
    return any(
        (whole.old[at : at + size], whole.new[at : at + size]) == (part.old, part.new)
        for at in range(len(whole.old) - size + 1)
    )
