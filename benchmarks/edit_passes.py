"""`bench edit_passes`: drafters replayed over recorded answers of edit models, without a model.

A pass verifies so many rows, the root's among them, and gives the accepted guesses and the model's own token. Tokens
include the one that ends the answer.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.datasets import EDIT_CASES, EditCase, load_edit_cases, require
from benchmarks.drafting import DrafterParts, drafter_names, label, make
from benchmarks.drafting.traces import ReplayPass, replay
from benchmarks.harness import Reported, percentiles, write
from fastcoder_lsp.bench.model import find_model
from fastcoder_lsp.bench.report import print_table
from fastcoder_lsp.cli.options import option
from fastcoder_lsp.core import Rewrite
from fastcoder_lsp.edits.formats import answer_tokens, encode_raw, recognise
from fastcoder_lsp.tokenizer import Tokenizer

EXAMPLE = "edit_passes --models sweep-next-edit-0.5B --drafters rewrite,lookup"


@dataclass(frozen=True, slots=True, kw_only=True)
class Options(Reported):
    """Replay drafters over recorded answers of edit models: tokens a pass.

    The prompts and answers are read by one tokenizer, which is Sweep's and Zeta's own. What an answer repeats is cut
    from its prompt, as the server does.
    """

    cases: Path | None = option("the cases; without it, those of the benchmark data", None, metavar="FILE")
    model: str = option("the model whose tokenizer to use, as the setting `model`", "auto")
    models: str = option(
        "models whose answers to replay, separated by commas",
        "sweep-next-edit-0.5B,sweep-next-edit-1.5B",
        metavar="NAMES",
    )
    drafters: str = option("drafters, separated by commas", "rewrite,auto:width=fixed,suffix,lookup", metavar="NAMES")
    rows: str = option("rows of one verification, the root's included, separated by commas", "8,16", metavar="N")


@dataclass(frozen=True, slots=True)
class EditTrace:
    prompt: tuple[int, ...]
    tokens: tuple[int, ...]
    rewrite: Rewrite


def run(options: Options) -> int:
    tokenizer = find_model(options.model).tokenizer
    cases = load_edit_cases(options.cases or require("next_edit") / EDIT_CASES)
    results: dict[str, Any] = {}
    for model in options.models.split(","):
        found = traces(cases, model, tokenizer)
        results[model] = {"answers": len(found), "tokens": sum(len(trace.tokens) for trace in found)}
        for name in drafter_names(options.drafters):
            for rows in map(int, options.rows.split(",")):
                steps = [replay_edit(name, trace, rows, tokenizer) for trace in found]
                results[model].setdefault(name, {})[str(rows)] = figures(steps)
    _print(options, results)
    write(options, "edit_passes", {"rows": options.rows, "models": results})
    return 0


def traces(cases: Sequence[EditCase], model: str, tokenizer: Tokenizer) -> list[EditTrace]:
    """The answers of a model whose prompts are in a known format; recordings do not tell which token ended them."""
    end = min(answer_tokens(tokenizer)[1])

    def ids(text: str) -> tuple[int, ...]:
        return tuple(encode_raw(text, tokenizer))

    found = list[EditTrace]()
    for case in cases:
        changes = tuple(
            (ids(change.old.removesuffix("\n")), ids(change.new.removesuffix("\n"))) for change in case.history
        )
        for answer in case.answers.get(model, ()):
            if answer.output and (known := recognise(answer.prompt)) is not None:
                said = (*ids(answer.output), *((end,) if answer.finish == "stop" else ()))
                found.append(EditTrace(ids(answer.prompt), said, Rewrite(ids(known[1]), (end,), changes)))
    return found


def replay_edit(name: str, trace: EditTrace, rows: int, tokenizer: Tokenizer) -> list[ReplayPass]:
    """The passes of one answer; the drafter has drafted no other one."""
    drafter = make(name, DrafterParts(piece=answer_tokens(tokenizer)[0]))
    return replay(drafter, (trace.prompt, trace.tokens), rows, "", tokenizer.vocabulary, trace.rewrite)


def figures(answers: Sequence[Sequence[ReplayPass]]) -> Mapping[str, Any]:
    every = [step for steps in answers for step in steps]
    return {
        "passes": len(every),
        "tokens_a_pass": sum(step.emitted for step in every) / max(len(every), 1),
        "draft_us": percentiles([step.us for step in every], 50, 99),
    }


def _print(options: Options, results: Mapping[str, Any]) -> None:
    widths = options.rows.split(",")
    for model, result in results.items():
        print_table(
            f"{model}: {result['answers']} answers, {result['tokens']} tokens; tokens a pass, by rows of one",
            ("drafter", *widths, "p50 µs", "p99 µs"),
            [
                (
                    label(name),
                    *(result[name][rows]["tokens_a_pass"] for rows in widths),
                    *result[name][widths[-1]]["draft_us"].values(),
                )
                for name in drafter_names(options.drafters)
            ],
        )
