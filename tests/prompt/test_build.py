"""Prompts: each family's form, the truth about the document, and stability while a person types."""

from dataclasses import dataclass

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fastcoder_lsp.core import Snapshot, at_once
from fastcoder_lsp.prompt import Prompt, PromptBuilder, PromptOptions, Template, template_of
from fastcoder_lsp.tokenizer import Tokenizer
from tests.prompt.toy_tokenizers import SAMPLE, byte_level, json_of_family, of_family

CURSOR = "▮"
QWEN = of_family("Qwen2.5-Coder")
TYPED = (
    "def shared(left, right):\n    count = 0\n    for a, b in zip(left, right):\n        count += a == b\n"
    "    return count\n"
)


def snapshot(text: str, uri: str = "file:///a.py") -> Snapshot:
    return Snapshot(uri, uri.removeprefix("file://"), "python", 0, text)


def build(builder: PromptBuilder, code: str) -> Prompt:
    before, _, after = code.partition(CURSOR)
    return at_once(builder.build(snapshot(before + after), len(before)))


@dataclass(frozen=True)
class Told:
    """A fill-in-the-middle prompt taken apart again, in the order prefix, suffix, middle."""

    context: str
    prefix: str
    suffix: str
    middle: str


def told(tokenizer: Tokenizer, template: Template, prompt: Prompt) -> Told:
    tokens = list(prompt.tokens)
    marks = [tokens.index(tokenizer.control[mark]) for mark in (template.prefix, template.suffix, template.middle)]
    a, b, c = marks
    parts = (tokens[:a], tokens[a + 1 : b], tokens[b + 1 : c], tokens[c + 1 :])
    return Told(*(tokenizer.decode(part) for part in parts))


@pytest.mark.parametrize(
    ("family", "expect"),
    [
        ("Qwen2.5-Coder", ["<|fim_prefix|>", "a\n", "<|fim_suffix|>", "\nc", "<|fim_middle|>", "b ="]),
        ("CodeGemma", ["<|fim_prefix|>", "a\n", "<|fim_suffix|>", "\nc", "<|fim_middle|>", "b ="]),
        ("StarCoder2", ["<fim_prefix>", "a\n", "<fim_suffix>", "\nc", "<fim_middle>", "b ="]),
        ("StarCoder, Granite Code", ["<fim_prefix>", "a\n", "<fim_suffix>", "\nc", "<fim_middle>", "b ="]),
        ("SantaCoder", ["<fim-prefix>", "a\n", "<fim-suffix>", "\nc", "<fim-middle>", "b ="]),
        ("DeepSeek-Coder", ["<｜fim▁begin｜>", "a\n", "<｜fim▁hole｜>", "\nc", "<｜fim▁end｜>", "b ="]),
        ("CodeLlama", ["▁<PRE>", " a\n", "▁<SUF>", "\nc", "▁<MID>", "b ="]),
        ("Mellum", ["<fim_suffix>", "\nc", "<fim_prefix>", "a\n", "<fim_middle>", "b ="]),
        ("Seed-Coder", ["<[fim-suffix]>", "\nc", "<[fim-prefix]>", "a\n", "<[fim-middle]>", "b ="]),
        ("Codestral", ["[SUFFIX]", "\nc", "[PREFIX]", " a\n", "b ="]),
    ],
)
def test_families(family: str, expect: list[str]) -> None:
    tokenizer = of_family(family)
    assert template_of(tokenizer).name == family
    wanted = list(tokenizer.start_ids)
    for part in expect:
        wanted += [tokenizer.control[part]] if part in tokenizer.control else tokenizer.encode(part)
    prompt = build(PromptBuilder(tokenizer), f"a\nb = {CURSOR}\nc")
    assert list(prompt.tokens) == wanted
    assert prompt.healing == b" "
    assert prompt.template == family


@pytest.mark.parametrize(
    ("model", "family"),
    [
        ({"model_type": "llama"}, "Mellum"),
        ({"model_type": "mellum", "attention_bias": False}, "Mellum"),
        ({"model_type": "llama", "attention_bias": True}, "StarCoder, Granite Code"),
        ({"model_type": "gpt_bigcode"}, "StarCoder, Granite Code"),
        ({}, "StarCoder, Granite Code"),
    ],
)
def test_families_with_the_same_marks_are_told_apart(model: dict[str, object], family: str) -> None:
    assert template_of(Tokenizer(json_of_family("Mellum"), config=model)).name == family


def test_a_model_without_marks_continues_the_text() -> None:
    tokenizer = byte_level(True, ("<|endoftext|>",))
    prompt = build(PromptBuilder(tokenizer), f"a\nb = c{CURSOR}\nd")
    assert tokenizer.decode(prompt.tokens) == "a\nb ="
    assert prompt.healing == b" c"


def test_empty_document() -> None:
    for tokenizer in (QWEN, byte_level(True, ("<|endoftext|>",))):
        assert build(PromptBuilder(tokenizer), CURSOR).tokens


@pytest.mark.parametrize(
    ("code", "typed", "healing"),
    [
        (f"x\nself.foo_ba{CURSOR}\n", "self.foo", b"_ba"),
        (f"x\n    {CURSOR}\n", "", b"    "),
        (f"x\n   retur{CURSOR}\n", "  ", b" retur"),
        (f"x\nfoo({CURSOR})\n", "foo", b"("),
        (f"x = 1\n{CURSOR}\n", "", b""),
        (f"x\nn = '漢{CURSOR}\n", "n = '", "漢".encode()),
    ],
)
def test_healing(code: str, typed: str, healing: bytes) -> None:
    prompt = build(PromptBuilder(QWEN), code)
    assert (prompt.typed, prompt.healing) == (typed, healing)


TEXT = st.lists(
    st.sampled_from(["a", "b_", "(", ")", " ", "    ", "\n", "\n", ":", "<|fim_suffix|>", "é", "}", '"', "x = 1\n"]),
    max_size=3,
).map("".join)
EDIT = st.tuples(st.integers(0, 10**6), st.integers(0, 3), TEXT)


@given(st.lists(st.tuples(EDIT, st.booleans()), max_size=20), st.booleans())
@settings(max_examples=60, deadline=None)
def test_prompts_tell_the_truth(edits: list[tuple[tuple[int, int, str], bool]], anchored: bool) -> None:
    builder = PromptBuilder(QWEN, PromptOptions(limit=120, typed_lines=3, typed_tokens=20, anchored=anchored))
    text, cursor = "def f(x):\n    return x\n\n" * 3, 10
    for (jump, deleted, inserted), moved in edits:
        cursor = jump % (len(text) + 1) if moved else cursor
        text = text[:cursor] + inserted + text[cursor + deleted :]
        cursor += len(inserted)
        prompt = at_once(builder.build(snapshot(text), cursor))
        parts = told(QWEN, builder.template, prompt)
        assert sum(token in QWEN.end_ids for token in prompt.tokens) == 3
        before = parts.prefix + parts.middle + prompt.healing.decode()
        assert text[:cursor].endswith(before)
        skipped = text[cursor:].partition(parts.suffix)[0] if parts.suffix.strip() else ""
        assert not skipped.strip(")]}>\"'`;, \t\n"), "only closers stand between the cursor and the suffix"
        assert prompt.typed == parts.middle


@given(st.integers(0, len(SAMPLE)), st.sampled_from([64, 300, 1400]))
@settings(max_examples=40, deadline=None)
def test_budgets(cursor: int, limit: int) -> None:
    options = PromptOptions(limit=limit, typed_tokens=limit // 9)
    for text in (SAMPLE, SAMPLE.replace("\n", ";")):
        prompt = at_once(PromptBuilder(QWEN, options).build(snapshot(text), cursor))
        assert len(prompt.tokens) <= limit * 1.1 + 60


def cost(last: Prompt, now: Prompt) -> int:
    """Tokens that a KV cache with the last prompt in it lacks."""
    same = 0
    for a, b in zip(last.tokens, now.tokens, strict=False):
        if a != b:
            break
        same += 1
    return len(now.tokens) - same


@pytest.mark.parametrize("family", ["Qwen2.5-Coder", "Mellum", "Seed-Coder", "Codestral"])
@pytest.mark.parametrize("closing", ["", ")]}", "\n}"])
def test_typing_appends(closing: str, family: str) -> None:
    """Each keystroke, Enter too, adds a token or two to the prompt before, also where an editor closes brackets."""
    builder = PromptBuilder(of_family(family))
    at = SAMPLE.index("\ndef ") + 1
    costs = []
    last = at_once(builder.build(snapshot(SAMPLE[:at] + "\n" + SAMPLE[at:]), at))
    for end in range(1, len(TYPED)):
        text = SAMPLE[:at] + TYPED[:end] + (closing if end % 7 > 3 else "") + "\n" + SAMPLE[at:]
        now = at_once(builder.build(snapshot(text), at + end))
        costs.append(cost(last, now))
        last = now
    assert max(costs) <= 12
    assert sum(costs) / len(costs) < 1.5


def test_edits_above_the_window_cost_nothing() -> None:
    builder = PromptBuilder(QWEN, PromptOptions(limit=300))
    at = len(SAMPLE) // 2
    before = at_once(builder.build(snapshot(SAMPLE), at))
    after = at_once(builder.build(snapshot("import os\n" * 5 + SAMPLE), at + 50))
    assert before == after


def test_edits_of_the_suffix_are_seen() -> None:
    builder = PromptBuilder(QWEN)
    first = build(builder, f"def f(x):\n    {CURSOR}\n    return x\n")
    second = build(builder, f"def f(x):\n    {CURSOR}\n    return y\n")
    assert told(QWEN, builder.template, second).suffix == "\n    return y\n"
    assert first != second


def test_lines_above_the_cursor_stand_after_the_middle_mark() -> None:
    builder = PromptBuilder(QWEN, PromptOptions(lines_above=3))
    parts = told(QWEN, builder.template, build(builder, "a\n" * 10 + f"b{CURSOR}\n"))
    assert (parts.prefix, parts.middle) == ("a\n" * 7, "a\n" * 3)
    parts = told(QWEN, builder.template, build(builder, f"a\na\nb{CURSOR}\nc\n"))
    assert (parts.prefix, parts.middle) == ("a\n", "a\n")


def test_the_anchor_moves_in_big_steps() -> None:
    builder = PromptBuilder(QWEN, PromptOptions(typed_lines=5))
    lines, moves = "", 0
    last = at_once(builder.build(snapshot("\n"), 0))
    for number in range(40):
        lines += f"value_{number} = {number}\n"
        now = at_once(builder.build(snapshot(lines + "\nend = 1\n"), len(lines)))
        moves += cost(last, now) > 12
        assert now.typed.count("\n") <= 5
        last = now
    assert moves <= 40 // 5 + 1


def test_settling_moves_the_anchor() -> None:
    builder = PromptBuilder(QWEN, PromptOptions(lines_above=0))
    build(builder, f"a = 1\n{CURSOR}\nz = 1\n")
    assert build(builder, f"a = 1\nb = 2\nc{CURSOR}\nz = 1\n").typed == "b = 2\n"
    settled = at_once(builder.move_anchor(snapshot("a = 1\nb = 2\nc\nz = 1\n"), len("a = 1\nb = 2\nc")))
    assert settled.typed == ""
    now = build(builder, f"a = 1\nb = 2\nc ={CURSOR}\nz = 1\n")
    assert now.tokens[: len(settled.tokens)] == settled.tokens


def test_documents_are_forgotten_renamed_and_bounded() -> None:
    builder = PromptBuilder(QWEN, PromptOptions(documents=3))
    code, end = "a = 1\nb =\nz", len("a = 1\nb =")
    at_once(builder.build(snapshot("\nz", "file:///x"), 0))
    builder.rename("file:///x", "file:///y")
    assert at_once(builder.build(snapshot(code, "file:///y"), end)).typed == "a = 1\nb"
    builder.forget("file:///y")
    assert at_once(builder.build(snapshot(code, "file:///y"), end)).typed == "b"
    for number in range(10):
        at_once(builder.build(snapshot(code, f"file:///{number}"), 0))
    assert len(builder._anchors) == 3


def test_cells_above_are_part_of_a_notebooks_text() -> None:
    builder = PromptBuilder(QWEN)
    cell = Snapshot("cell:2", None, "python", 0, "y = x", ("import os\n", "x = 1"))
    parts = told(QWEN, builder.template, at_once(builder.build(cell, 5)))
    assert parts.prefix + parts.middle == "import os\n\nx = 1\n\ny ="
