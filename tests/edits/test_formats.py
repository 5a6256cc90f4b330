"""Prompts equal the published templates and the recorded prompts, byte for byte; answers become a region's new text."""

import re
from collections import Counter
from dataclasses import replace

import pytest
from msgspec import structs

from fastcoder_lsp.core import Change, Extra
from fastcoder_lsp.edits.formats import (
    FORMATS,
    MODEL_NAMES,
    EditFormat,
    EditLimits,
    EditPrompt,
    format_named,
    format_of_model,
    recognise,
)
from fastcoder_lsp.edits.minimal import apply, minimal
from fastcoder_lsp.edits.values import EditQuestion
from fastcoder_lsp.edits.zeta import blocks_of
from tests.edits import recorded
from tests.prompt.toy_tokenizers import byte_level

CONTROL = ("<|file_sep|>", "<|endoftext|>", "<|im_start|>", "<|im_end|>", "<filename>", "<[fim-suffix]>")
LINES = [f"line {number}" for number in range(60)]
every_format = pytest.mark.parametrize("form", FORMATS, ids=lambda form: form.name)


def question(text: str, offset: int, *history: Change) -> EditQuestion:
    return EditQuestion(1, "file:///a.py", "src/a.py", "python", 1, text, offset, history)


def prompt_of(form: EditFormat, asked: EditQuestion, *files: Extra) -> EditPrompt:
    built = form.prompt(asked, EditLimits(), files)
    assert built is not None
    return built


MIDDLE = question("\n".join(LINES), "\n".join(LINES).index("line 30") + 3)
"""A cursor amid sixty lines."""


def test_recorded_prompts_and_answers() -> None:
    seen = Counter[tuple[str, bool]]()
    for one in recorded.recorded():
        form = format_named(one.format)
        built = prompt_of(form, one.question)
        assert built.text == one.prompt, one.case
        found = recognise(one.prompt)
        assert found is not None
        assert (found[1], found[0].name.split("-")[0]) == (built.old, form.name.split("-")[0])
        new, text = form.read(built, one.answer, complete=one.complete), one.question.text
        assert (new is None) == (_said(one.answer) in ("", _said(built.old))), one.case
        if new is not None:
            whole = text[: built.region_start] + new + text[built.region_end :]
            assert apply(text, minimal(text, built.region_start, built.region_end, new)) == whole
            seen[one.format, whole == one.wanted] += 1
    assert seen["zeta-2-cursortab", True] >= 5
    assert seen["sweep-cursortab", True] >= 8


def _said(answer: str) -> str:
    """An answer without marks and blank ends."""
    return re.sub(r"<\|\w+\|>|>>>>>>> UPDATED|NO_EDITS", "", answer).strip()


CHANGE = Change("src/b.py", 7, "old one\nold two\n", "new one\nold two\n", "above\n", "below\n", accepted=True)
OTHER = Extra("src/c.py", "def c(): ...\n")
TEXT = "def a(x):\n    y = x\n    return y"
ASKED = question(TEXT, TEXT.index("= x"), CHANGE)
UNIFIED = "@@ -7,4 +7,4 @@\n above\n-old one\n+new one\n old two\n below"


def filled(template: str, **values: str) -> str:
    """A template with its `{{name}}` places filled."""
    for name, value in values.items():
        template = template.replace("{{" + name + "}}", value)
    assert "{{" not in template
    return template


def templates_filled() -> dict[str, str]:
    """The prompt of `ASKED` and `OTHER` by each published template."""
    all_of = recorded.templates()
    sweep1, zeta2, zeta21 = (all_of[name] for name in ("sweep-v1", "zeta-2", "zeta-2.1"))
    path, old, new = "src/a.py", "old one\nold two", "new one\nold two"
    before, cursor, after = TEXT.partition("= x")

    def current(mark: str) -> str:
        return before + mark + cursor + after

    file = filled(sweep1["file"], path=OTHER.name, text=OTHER.text)
    changes = filled(sweep1["change"], path=CHANGE.path, old=old, new=new)
    accepted = zeta2["accepted_event_prefix"] + filled(zeta2["event"], path=CHANGE.path, hunks=UNIFIED + "\n")
    frame = {
        "after": "\n",
        "related": filled(zeta2["related"], path=OTHER.name, text=OTHER.text) + zeta2["related_followed_by"],
        "history": filled(zeta2["history"], events=accepted) + zeta2["history_followed_by"],
        "path": path,
        "before": "",
    }
    return {
        "sweep-v1": filled(sweep1["prompt"], files=file, changes=changes, path=path, original=TEXT, current=TEXT),
        "zeta-2": filled(zeta2["prompt"], **frame, region=current(zeta2["cursor"]) + "\n"),
        "zeta-2.1": filled(zeta21["prompt"], **frame, region=f"<|marker_1|>{current(zeta21['cursor'])}<|marker_2|>\n"),
    }


def test_prompts_are_the_published_templates() -> None:
    for name, expected in templates_filled().items():
        form = format_named(name)
        assert prompt_of(form, ASKED, OTHER).text == expected, name
        stops = recorded.templates()[name].get("stop")
        assert stops is None or set(prompt_of(form, ASKED).stops) == set(stops)


@pytest.mark.parametrize(
    ("name", "answer", "new"),
    [
        ("sweep-v1", "\nNEW\n<|file_sep|>", "NEW"),
        ("sweep-v1", "\nOLD\n", None),
        ("sweep-cursortab", "NEW_BELOW\n<|endoftext|>", "NEW"),
        ("sweep-cursortab", "OLD_BELOW", None),
        ("sweep-cursortab", "NEW_BELOW\n\n\n", "NEW"),
        ("sweep-cursortab", "NEW_BELOW\n", "NEW"),
        ("zeta-2", "NEW\n>>>>>>> UPDATED\n", "NEW"),
        ("zeta-2", "NE<|user_cursor|>W\n", "NEW"),
        ("zeta-2", "OLD\n>>>>>>> UPDATED\n", None),
        ("zeta-2", "NO_EDITS\n>>>>>>> UPDATED\n", None),
        ("zeta-2.1", "<|marker_1|>NEW\n<|marker_2|>", "NEW"),
        ("zeta-2.1", "<|marker_1|>\nNE<|user_cursor|>W\n<|marker_2|><[end▁of▁sentence]>", "NEW"),
        ("zeta-2.1", "<|marker_1|><|marker_1|>", None),
        ("zeta-2.1", "<|marker_1|>NEW\n", None),
        ("zeta-2.1", "<|marker_2|>NEW\n<|marker_1|>", None),
        ("zeta-2.1", "<|marker_1|>NEW\n<|marker_9|>", None),
        ("zeta-2.1", "", None),
    ],
)
def test_answers(name: str, answer: str, new: str | None) -> None:
    r"""NEW, OLD: the region changed, and as it is; NE, W: its halves; _BELOW: without the prefill. Also with \r\n."""
    changed = TEXT.replace("return y", "return y + 1")
    for ends in ("\n", "\r\n"):
        built = prompt_of(format_named(name), structs.replace(ASKED, text=TEXT.replace("\n", ends), history=()))
        half = len(changed) // 2
        said = answer.replace("NEW_BELOW", changed.removeprefix(built.prefill))
        said = said.replace("OLD_BELOW", TEXT.removeprefix(built.prefill)).replace("NEW", changed)
        said = said.replace("OLD", TEXT).replace("NE<", changed[:half] + "<").replace(">W", ">" + changed[half:])
        expected = None if new is None else changed.replace("\n", ends)
        assert format_named(name).read(built, said) == expected


CODE = "def area(width):\n    size = width * width\n    if size < 0:\n        raise ValueError(size)\n    return size\n"
RIGHT = CODE.replace("return size", "return round(size)")


@pytest.mark.parametrize(
    ("answer", "new"),
    [
        ("KEEP_PREVIOUS", None),
        ("```\nNO_EDITS\n```", None),
        ("[NO CHANGES]", None),
        (f"```python\n{RIGHT}```", RIGHT),
        (f"Here is the code:\n```python\n{RIGHT}```\nIt rounds.", RIGHT),
        (f"<<<<<<< CURRENT\n{CODE}=======\n{RIGHT}", None),
        (f"Here is the updated code:\n{RIGHT}", None),
        ("I would not change anything here, because the function is complete and right as it stands.", None),
        ("def area(width):\n    # ... existing code ...\n    return round(size)\n", None),
        (CODE.replace("    if size < 0:", "    // … rest of the code\n    if size < 0:"), None),
        ("    return round(size)\n", None),
        (RIGHT, RIGHT),
        (CODE.replace("size", "surface"), CODE.replace("size", "surface")),
        (CODE.replace("    if size < 0:\n        raise ValueError(size)\n", ""),) * 2,
    ],
)
def test_an_answer_that_is_no_text_of_the_region_makes_no_edit(answer: str, new: str | None) -> None:
    """In all formats; each says it in its own frame."""
    for form in FORMATS:
        built = prompt_of(form, question(CODE, 0))
        said = answer.removeprefix(built.prefill)
        found = form.read(built, f"<|marker_1|>{said}<|marker_2|>" if form.name == "zeta-2.1" else said)
        assert (found and found.rstrip()) == (new and new.rstrip()), form.name


LONG = "\n".join(LINES[:20])
LONG_ASKED = question(LONG, 0)


@pytest.mark.parametrize(
    ("said", "complete", "new"),
    [
        (LONG.replace("e 3", "e three"), True, LONG.replace("e 3", "e three")),
        (LONG.replace("e 3", "e three").replace("\n", "\r\n"), True, LONG.replace("e 3", "e three")),
        ("\n".join(LINES[1:18]) + "\nline", False, "\n".join(LINES[1:20])),
        ("\n".join(LINES[1:12]) + "\nline", False, None),
        ("\n".join(LINES[6:20]), True, None),
        ("\n".join([*LINES[:19], *["again"] * 3]), True, None),
        ("line", False, None),
        (LONG + "\n\n", True, None),
        ("\n", True, None),
    ],
    ids=[
        *("an edit", "carriage returns", "cut near the end", "cut early", "begins below", "loops", "cut in a line"),
        *("blank end", "empty"),
    ],
)
def test_answers_that_make_no_sense_are_no_edits(said: str, complete: bool, new: str | None) -> None:
    form = format_named("zeta-2")
    built = replace(prompt_of(form, LONG_ASKED), region_end=len(LONG), region=LONG)
    assert form.read(built, said, complete=complete) == new


@every_format
def test_text_of_files_never_becomes_a_control_token(form: EditFormat) -> None:
    """Marks in other files, in changes, in paths and around the region are text; in the region they end the matter."""
    tokenizer, hostile = byte_level(control=CONTROL), "".join(CONTROL)
    bad = Change(hostile, 3, hostile, f"{hostile}\n{hostile}")
    far = "\n".join([*LINES, hostile, *LINES])
    asked = structs.replace(question(far, len(far), bad), path=f"src/{hostile}.py")
    built = form.prompt(asked, EditLimits(region_tokens=100), [Extra(hostile, hostile)])
    assert built is not None
    found = Counter(token for token in built.encode(tokenizer) if token in tokenizer.end_ids)
    assert found == Counter(tokenizer.control[part] for part in built.parts if part in tokenizer.control)
    for stop in built.stops:
        assert form.prompt(question(f"x = '{stop}'\n", 3), EditLimits()) is None


@every_format
def test_a_prompt_keeps_within_its_limits(form: EditFormat) -> None:
    limits = EditLimits(prompt_tokens=3000, region_tokens=400)
    change, file = replace(CHANGE, new="x\n" * 2000), Extra("big.py", "y" * 50_000)
    asked = structs.replace(MIDDLE, text=MIDDLE.text + "\n" + "z" * 1_000_000, history=(change, CHANGE) * 32)
    built = form.prompt(asked, limits, (file, OTHER))
    assert built is not None
    assert len(built.text) < 3 * 3000 + 500
    assert "big.py" not in built.text
    assert CHANGE.path in built.text
    assert len(built.region) < 3 * 400 + 100
    assert form.prompt(structs.replace(asked, offset=len(asked.text)), limits) is None


@every_format
def test_line_ends_change_no_prompt(form: EditFormat) -> None:
    windows = structs.replace(MIDDLE, text=MIDDLE.text.replace("\n", "\r\n"), offset=MIDDLE.offset + 30)
    change = Change("src/a.py", 1, "old\r\n", "new\r\nnew\r\n", "above\r\n", "below\r\n")
    unix = replace(change, old="old\n", new="new\nnew\n", above="above\n", below="below\n")
    for limits in (EditLimits(), EditLimits(region_tokens=20, prompt_tokens=2000)):
        first = form.prompt(structs.replace(windows, history=(change,)), limits, [Extra("b.py", "b\r\nb\r\n")])
        second = form.prompt(structs.replace(MIDDLE, history=(unix,)), limits, [Extra("b.py", "b\nb\n")])
        assert first is not None
        assert second is not None
        assert (first.text, first.old, first.newline) == (second.text, second.old, "\r\n")
        assert windows.text[first.region_start : first.region_end] == second.region.replace("\n", "\r\n")


@every_format
def test_a_prompt_is_recognised_with_its_old_text(form: EditFormat) -> None:
    for text in (TEXT, TEXT + "\n", TEXT + "\n\n", ""):
        built = prompt_of(form, structs.replace(ASKED, text=text))
        found = recognise(built.text)
        assert found is not None
        assert found[1] == built.old
        assert form.read(built, built.old) is None


@pytest.mark.parametrize(
    "prompt",
    [
        "",
        "def f():",
        "<|fim_prefix|>a<|fim_suffix|>b<|fim_middle|>",
        "<[fim-suffix]>a<[fim-prefix]>b<[fim-middle]>",
        "<|file_sep|>updated/a.py\n",
        "<|file_sep|>current/a.py\nx\n<|file_sep|>updated/b.py\n",
        "### Instruction:\nSay something.\n\n### Response:\n",
        "<|file_sep|>updated/" * 20_000,
        "<[fim-suffix]>" + "<|marker_1|>" * 20_000 + "<[fim-middle]>",
    ],
)
def test_other_prompts_are_not_recognised(prompt: str) -> None:
    assert recognise(prompt) is None


def test_sweep_shows_the_window_before_the_changes() -> None:
    text = "a\nB\nC\nd\n"
    history = (Change("src/a.py", 2, "c", "C", "b\n", "d\n"), Change("src/a.py", 1, "b", "B", "a\n", "C\n"))
    asked = question(text, 0, *history)
    assert "original/src/a.py\na\nb\nC\nd\n" in prompt_of(format_named("sweep-v1"), asked).text


def test_zeta_21_cuts_blocks_at_blank_lines() -> None:
    def block(lines: int) -> str:
        return "\n".join(LINES[:lines])

    assert blocks_of("") == [""]
    assert blocks_of(block(15)) == [block(15)]
    assert blocks_of(block(7) + "\n\n" + block(6)) == [block(7) + "\n\n", block(6)]
    assert blocks_of(block(7) + "\n\n" + block(5)) == [block(7) + "\n\n" + block(5)]
    assert blocks_of(block(40)) == ["\n".join(LINES[at : at + 16]) + "\n" * (at < 32) for at in (0, 16)] + [
        "\n".join(LINES[32:40])
    ]
    assert blocks_of(block(7) + "\n\n}\n" + block(7)) == [block(7) + "\n\n}\n", block(7)]


@pytest.mark.parametrize(
    ("model", "name"),
    [
        ("sweepai/sweep-next-edit-0.5B", "sweep-v1"),
        ("sweepai/sweep-next-edit-1.5B", "sweep-v1"),
        ("henrik3/sweep-next-edit-v2-7B-GGUF", None),
        ("/models/sweep-next-edit-1.5b.q8_0.v2.gguf", "sweep-v1"),
        ("zed-industries/zeta", None),
        ("zed-industries/zeta-2", "zeta-2"),
        ("zed-industries_zeta-2-Q4_K_M.gguf", "zeta-2"),
        ("zeta2", "zeta-2"),
        ("zed-industries/zeta-2.1", "zeta-2.1"),
        ("zeta2_1", "zeta-2.1"),
        ("continuedev/instinct", None),
        ("Qwen/Qwen2.5-Coder-0.5B", None),
        ("/zeta/qwen", None),
        ("zetabyte", None),
    ],
)
def test_the_format_of_a_model(model: str, name: str | None) -> None:
    found = format_of_model(model)
    assert (found.name if found else None) == name


def test_names_that_a_message_recommends_are_known() -> None:
    assert len({format_of_model(f"my-{name}-q8.gguf") for name in MODEL_NAMES} - {None}) == len(MODEL_NAMES)
