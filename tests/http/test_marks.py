"""Prompts with a family's marks, taken apart; and what the answer is once a client can only insert."""

import pytest

from fastcoder_lsp.core import Completion, Extra
from fastcoder_lsp.http.forms import OpenAIForm, PromptParts, parse_prompt, read_openai
from fastcoder_lsp.http.infill import MOST_EXTRAS, InfillRequest, answer_of

QWEN = "<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>"
MELLUM = PromptParts("a", "b", (Extra("x.py", "x = 1\n"),))


@pytest.mark.parametrize(
    ("prompt", "parts"),
    [
        ("def f():", PromptParts("def f():")),
        ("{}a{}b{}".format(*QWEN), PromptParts("a", "b")),
        ("{}a{}b{}typed".format(*QWEN), PromptParts("atyped", "b")),
        ("<fim_prefix>a<fim_suffix>b<fim_middle>", PromptParts("a", "b")),
        ("<｜fim▁begin｜>a<｜fim▁hole｜>b<｜fim▁end｜>", PromptParts("a", "b")),
        ("<filename>x.py\nx = 1\n<filename>a.py\n<fim_suffix>b<fim_prefix>a<fim_middle>", MELLUM),
        ("<[fim-suffix]>b<[fim-prefix]>a<[fim-middle]>typed", PromptParts("atyped", "b")),
        ("<s>[SUFFIX]b[PREFIX]a", PromptParts("a", "b")),
        ("see [SUFFIX]b[PREFIX]a", PromptParts("see [SUFFIX]b[PREFIX]a")),
        ("{0}a{2}b{1}".format(*QWEN), PromptParts("{0}a{2}b{1}".format(*QWEN))),
        (
            "<|repo_name|>r\n<|file_sep|>x.py\nx = 1\n<|file_sep|>here.py\n{}a{}b{}".format(*QWEN),
            PromptParts("a", "b", (Extra("x.py", "x = 1\n"),)),
        ),
    ],
)
def test_marks(prompt: str, parts: PromptParts) -> None:
    assert parse_prompt(prompt) == parts


def test_of_very_many_files_the_last_ones() -> None:
    """No question has more, and each is looked at on the event loop."""
    head = "".join(f"<|file_sep|>{number}.py\nx = {number}\n" for number in range(MOST_EXTRAS + 2))
    extras = parse_prompt("{}{}a{}b{}".format(head, *QWEN)).extras
    assert [one.name for one in extras] == [f"{number}.py" for number in range(2, MOST_EXTRAS + 2)]


def test_with_a_suffix_marks_are_text() -> None:
    """Whoever names the suffix apart has written no marks: they stand in the user's code."""
    prompt = 'MARKS = "{}a{}b{}"'.format(*QWEN)
    ask = read_openai(OpenAIForm(prompt=prompt, suffix="\r\n"))
    assert (ask.before, ask.after) == (prompt, "\n")


@pytest.mark.parametrize(
    ("after", "text", "replaces", "inserted"),
    [(")\n", "x)", 1, "x"), (")]\n", "x)]", 2, "x"), ("\n", "x", 0, "x"), (")\n", "x", 0, "x")],
)
def test_closers_stay_away_that_an_editor_would_replace(after: str, text: str, replaces: int, inserted: str) -> None:
    """They stand behind the cursor already."""
    assert answer_of(InfillRequest("f(", after), Completion(text, 2, 2 + replaces)).text == inserted
