"""The family's sizes on this machine, and edit models, as tables of text: for `model list`, `pull` and `doctor`."""

from collections.abc import Sequence

from fastcoder_lsp.model.catalogue import BITS, EDIT_MODELS, PublishedEditModel
from fastcoder_lsp.model.choice import PRECISIONS, PROMPT_TOKENS, Choice, SizeAssessment
from fastcoder_lsp.model.store import size_text

_HEAD = ("model", "precision", "ms a token", f"prompt of {PROMPT_TOKENS}", "memory", "download", "licence", "verdict")
_RIGHT = slice(2, 6)
"""Columns of numbers."""
OTHERWISE = "To choose otherwise, run `fastcoder-lsp model pull NAME`, and set `model` to NAME."


def table(choice: Choice) -> str:
    """A line for each size and precision; `*` before the one that `auto` chooses."""
    rows = [_HEAD, *(_row(verdict, choice) for verdict in choice.verdicts)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    marks = [" ", *("*" if verdict == choice.chosen else " " for verdict in choice.verdicts)]
    return "\n".join(f"{mark} {_line(row, widths)}".rstrip() for mark, row in zip(marks, rows, strict=True))


def _row(verdict: SizeAssessment, choice: Choice) -> tuple[str, ...]:
    size, speed = verdict.size, verdict.speed
    times = (f"{speed.step_ms:.0f}", f"{speed.prompt_ms / 1e3:.1f} s") if speed is not None else ("–", "–")
    memory = f"{size_text(verdict.memory_bytes)}{' (GPU)' if verdict.gpu else ''}"
    over = f"over the limit: {', '.join(each.limit for each in verdict.against)}" if verdict.against else ""
    verdict_text = "; ".join(filter(None, ("chosen" if verdict == choice.chosen else "", over))) or "would do"
    facts = (size.name, PRECISIONS[verdict.bits], *times, memory, size_text(size.download_bytes))
    return (*facts, size.licence.partition(",")[0], verdict_text)


def edit_table(fitting: PublishedEditModel) -> str:
    """A line for each edit model; `*` before the one that fits this machine."""
    facts = (
        (one.hub_id, size_text(one.download_bytes), size_text(one.base.read_bytes(BITS[0])), one.licence)
        for one in EDIT_MODELS
    )
    rows = [("edit model", "download", "memory", "licence"), *facts]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    marks = [" ", *("*" if one is fitting else " " for one in EDIT_MODELS)]
    lines = (_line(row, widths, slice(1, 3)) for row in rows)
    return "\n".join(f"{mark} {line}".rstrip() for mark, line in zip(marks, lines, strict=True))


def _line(row: Sequence[str], widths: Sequence[int], right: slice = _RIGHT) -> str:
    aligned = [f"{text:{width}}" for text, width in zip(row, widths, strict=True)]
    aligned[right] = [f"{text:>{width}}" for text, width in zip(row[right], widths[right], strict=True)]
    return "  ".join(aligned)
