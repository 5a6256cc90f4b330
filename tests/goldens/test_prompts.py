"""What the model sees: prompts of every family at places of the sample workspace, byte by byte."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fastcoder_lsp.core import Change, Extra
from fastcoder_lsp.edits.formats import FORMATS, EditLimits
from fastcoder_lsp.edits.values import EditQuestion
from tests.goldens import adapter
from tests.goldens.golden import Goldens, Normal, sample_files, sample_folder

SMALL = {"limit": 160}
"""A budget that cuts both ends of the window."""
TYPED_BEHIND = '"""The sum of each day."""\n'
TYPED = "    for one in expenses:\n        if one"
WITH_CONTEXT = (
    "expenses/reports.py:31:1",
    "expenses/storage.py:34:1",
    "expenses/cli.py:22:11",
    "tests/test_reports.py:27:12",
    "web/src/chart.ts:25:1",
    "web/src/api.ts:27:3",
)


def places() -> Iterator[tuple[str, str, str, int]]:
    """Some twenty places: name, language, text and offset; at lines' ends, within lines, and at both ends of files."""
    for name, language, text in sample_files():
        for share in (0.0, 0.37, 0.71) if len(text) > 1000 else (0.5, 1.0):
            yield name, language, text, int(len(text) * share)


def test_families(goldens: Goldens) -> None:
    """One family's prompts in full; of the others the checksum of the ids, and one prompt in full."""
    table: dict[str, Any] = {}
    for family in adapter.families():
        prompts, rows = adapter.Prompts(family), {}
        for number, (name, language, text, offset) in enumerate(places()):
            built = prompts.build(f"file:///{number}/{name}", language, 1, text, offset)
            whole = family == "Qwen2.5-Coder" or number == 4
            rows[f"{name}+{offset}"] = built if whole else {key: built[key] for key in ("tokens", "crc32", "healing")}
        table[family] = rows
    goldens.check("prompts_families", table)


@pytest.mark.parametrize("anchored", [True, False], ids=["anchored", "plain"])
def test_typing(goldens: Goldens, anchored: bool) -> None:
    text = next(text for name, _, text in sample_files() if name.endswith("/reports.py"))
    start = text.index(TYPED_BEHIND) + len(TYPED_BEHIND)
    prompts = adapter.Prompts("Qwen2.5-Coder", anchored=anchored, **SMALL)
    rows = []
    for keys in range(0, len(TYPED) + 1, 4):
        now = text[:start] + TYPED[:keys] + text[start:]
        rows.append(prompts.build("file:///reports.py", "python", keys + 1, now, start + keys))
    goldens.check(f"prompts_typing_{'anchored' if anchored else 'plain'}", rows)


def test_code_of_other_files(
    goldens: Goldens,
    small_model: Path,
    environment: dict[str, str],
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("FASTCODER_CACHE", environment["FASTCODER_CACHE"])
    normal, folder = Normal({str(sample_folder()): "SAMPLE"}), sample_folder()
    table = {}
    for place in WITH_CONTEXT:
        options = ["--context", "--show-prompt", "--drafter", "none", "--model", str(small_model)]
        code = adapter.run_command(["complete", f"{folder / place}", "--workspace", str(folder), *options])
        out, err = map(normal.text, capfd.readouterr())
        lines = [line for line in err.splitlines() if not line.endswith("…")]
        table[place] = {"exit": code, "out": out.splitlines(), "err": lines}
    goldens.check("prompts_context", table)


def test_edit_models(goldens: Goldens) -> None:
    """One question in every format of edit models, in lines; `tests/edits` compares them with published templates."""
    text = "def a(x):\n    y = x\n    return y\n"
    changes = (
        Change("src/b.py", 7, "old one\nsame\n", "new one\nsame\n", "above\n", "below\n"),
        Change("src/a.py", 0, "def a(y):\n", "def a(x):\n", below="    y = x\n", accepted=True),
    )
    question = EditQuestion(1, "file:///a.py", "src/a.py", "python", 1, text, text.index("= x"), changes)
    prompts = {}
    for form in FORMATS:
        prompt = form.prompt(question, EditLimits(), [Extra("src/c.py", "def c(): ...\n")])
        assert prompt is not None
        prompts[form.name] = {"prompt": prompt.text.split("\n"), "old": prompt.old, "stops": list(prompt.stops)}
    goldens.check("prompts_edits", prompts)
