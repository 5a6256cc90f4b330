"""`bench edits`: next edits by cursortab's cases and rule, through our gate.

The cases hold recorded answers of published models, so that the gate and the reading of answers are judged without
weights. Score: deltaChrF × the harmonic mean of shown and quiet, as in cursortab's evaluation.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from statistics import fmean, harmonic_mean
from typing import Any, TypeAlias

from benchmarks.datasets import require
from benchmarks.datasets.next_edit import FILE, PUBLISHED, EditCase, RecordedAnswer, load
from benchmarks.harness import Reported, write
from fastcoder_lsp.bench.report import print_table
from fastcoder_lsp.cli.options import option
from fastcoder_lsp.edits.formats import FORMATS, EditLimits
from fastcoder_lsp.edits.gate import EditFacts, EditGate
from fastcoder_lsp.edits.minimal import apply, minimal
from fastcoder_lsp.edits.patch import Patch, patches_of
from fastcoder_lsp.edits.values import Change, Edit, EditAnswer, EditQuestion

EXAMPLE = "edits --json edits.json"
THRESHOLD = 0.7
"""Of the joint probability, where an answer has one: recorded answers have none."""
_N_GRAMS, _BETA = 6, 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Options(Reported):
    """Judge recorded answers of published edit models by cursortab's cases and rule, with our gate and without.

    The recorded answers have no probabilities, so the gate's threshold does not hold any of them back.
    """

    cases: Path | None = option("the cases; without it, those of the benchmark data", None, metavar="FILE")


WAYS = ("none", "by key", "automatic")
"""Without a gate; with ours, for requests as in the cases, most of them by key; and as if none were by key."""
Answerer: TypeAlias = Callable[[EditCase, EditQuestion, int], EditAnswer | None]
"""(case, question, how many requests came before) → the answer; None if there is none."""


@dataclass(frozen=True, slots=True)
class CaseResult:
    """One case: whether an edit was wanted and shown, the final text's quality in percent, the reasons for none."""

    case: str
    wanted: bool
    shown: bool
    delta_chrf: float
    reasons: tuple[str, ...]


def run(options: Options) -> int:
    """Run the benchmark."""
    cases = load(options.cases or require("next_edit") / FILE)
    models = {model: None for case in cases for model in case.answers}
    results: dict[str, Any] = {}
    rows = []
    for model in sorted(models, key=_published_score, reverse=True):
        published = PUBLISHED.get(model)
        results[model] = {"published": None if published is None else asdict(published)}
        for way in WAYS:
            judged = [judge(case, recorded(model), way) for case in cases if model in case.answers]
            results[model][way] = {
                **summary(judged),
                "reasons": Counter(reason for result in judged for reason in result.reasons),
                "cases": [asdict(result) for result in judged],
            }
            rows.append((model, way, *_cells(results[model][way])))
        if published is not None:
            shares = (f"{published.shown:.0f} %", f"{published.quiet:.0f} %")
            rows.append((model, "published", *shares, f"{published.delta_chrf:.1f}", f"{_published_score(model):.1f}"))
    print_table(
        f"Recorded answers to {len(cases)} cases; published figures are of all 50",
        ("model", "gate", "shown", "quiet", "deltaChrF", "score"),
        rows,
    )
    write(options, "edits", {"models": results})
    return 0


def judge(case: EditCase, answer: Answerer, way: str) -> CaseResult:
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
        asked = EditQuestion(
            requests + 1, case.path, case.path, case.language, requests, text, offset, history, 0.0, by_key
        )
        reason = gate.before(asked, EditFacts(0.0, modified=case.modified)) if gate is not None else None
        given = answer(case, asked, requests) if reason is None else None
        requests += reason is None
        proposed = given.edits if given is not None else ()
        if given is not None and gate is not None:
            reason = gate.after(asked, proposed, given.probability, THRESHOLD, cut=given.cut)
        if reason is not None:
            reasons.append(reason.code)
            proposed = ()
        shown |= apply(text, proposed) != text
    quality = delta_chrf(case.text, apply(text, proposed), case.after) if case.after is not None else 0.0
    return CaseResult(case.id, case.after is not None, shown, quality, tuple(reasons))


def summary(results: Sequence[CaseResult]) -> dict[str, float]:
    """Shares in percent, and how many cases wanted an edit and how many wanted quiet."""
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
    counts = [f"{found[share] * found[of] / 100:.0f} of {found[of]:.0f}" for share, of in _SHARES]
    return [*counts, f"{found['delta_chrf']:.1f}", f"{found['score']:.1f}"]


_SHARES = (("shown", "wanted"), ("quiet", "unwanted"))


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
    """The cursor after accepting: the end of the last edit, in the new text."""
    if not edits:
        return offset
    return edits[-1].start + len(edits[-1].text) + sum(len(edit.text) - edit.end + edit.start for edit in edits[:-1])


def recorded(model: str) -> Answerer:
    """Gives the recorded answers of a model: the next one whose prompt shows the question's text."""

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
            prompt = form.prompt(replace(question, offset=offset), EditLimits())
            if prompt is not None and prompt.old == old:
                new = form.read(prompt, answer.output, complete=answer.complete)
                text = question.text
                return () if new is None else minimal(text, prompt.region_start, prompt.region_end, new)
    return None
