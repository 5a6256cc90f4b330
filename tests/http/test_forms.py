"""Each form of request, as its clients write it, over real HTTP; prompts with a family's marks, taken apart."""

import json
from typing import Any

import pytest

from fastcoder_lsp.core import Completion, Extra
from fastcoder_lsp.http import forms
from fastcoder_lsp.http.forms import CompletionForm, OllamaForm, OpenAIForm, read_completion, read_form, read_openai
from fastcoder_lsp.http.infill import MOST_EXTRAS, InfillRequest, answer_of, within_bounds
from fastcoder_lsp.http.prompts import PromptParts, parse_prompt
from fastcoder_lsp.http.responses import RequestError
from tests.fake_engine import FakeEngine
from tests.http.toy_server import PREFIX, Says, Start, ToyServer

SAYS = "return sum(items)"
FIELDS = ["content", "timings/prompt_n", "timings/predicted_ms", "timings/predicted_n", "truncated"]


def infill(**more: Any) -> dict[str, Any]:
    return {
        "id_slot": 0,
        "input_prefix": "def total(items):\n",
        "input_suffix": "\n",
        "input_extra": [],
        "prompt": "    ",
        "n_predict": 128,
        "stop": [],
        "n_indent": 4,
        "top_k": 40,
        "top_p": 0.9,
        "samplers": ["top_k", "top_p", "infill"],
        "stream": False,
        "cache_prompt": True,
        "t_max_prompt_ms": 500,
        "t_max_predict_ms": 1000,
        **more,
    }


def test_infill_answers_with_the_fields_that_are_wanted(server: ToyServer) -> None:
    code, reply = server.call("/infill", infill(response_fields=FIELDS))
    assert (code, reply["content"]) == (200, SAYS)
    assert set(reply) == set(FIELDS)
    assert server.call("/infill", infill(response_fields=[""])) == (200, {})
    code, reply = server.call("/infill", infill(response_fields=[]))
    assert (code, reply["content"], reply["stop"]) == (200, SAYS, True)
    _, whole = server.call("/infill", infill())
    assert whole["content"] == SAYS
    assert whole["stop"] is True
    assert {"prompt_ms", "predicted_per_second"} <= set(whole["timings"])


def test_all_forms_say_the_same(server: ToyServer) -> None:
    marked = f"<|fim_prefix|>{PREFIX}<|fim_suffix|>\n<|fim_middle|>"
    for body in ({"prompt": PREFIX, "suffix": "\n"}, {"prompt": [marked], "n": 1}):
        code, reply = server.call("/v1/completions", {"model": "any", **body})
        assert (code, reply["choices"][0]["text"], reply["choices"][0]["finish_reason"]) == (200, SAYS, "stop")
    assert server.call("/completion", {"prompt": marked})[1]["content"] == SAYS
    assert server.call("/infill", infill())[1]["content"] == SAYS
    assert server.asked, "the model was asked"
    assert set(server.asked) == {PREFIX}


def events(text: str) -> list[Any]:
    lines = [line.removeprefix("data: ") for line in text.split("\n\n") if line]
    return [line if line == "[DONE]" else json.loads(line) for line in lines]


def test_streams(server: ToyServer) -> None:
    *pieces, done = events(server.call("/v1/completions", {"prompt": PREFIX, "suffix": "\n", "stream": True})[1])
    assert done == "[DONE]"
    assert "".join(piece["choices"][0]["text"] for piece in pieces) == SAYS
    assert [piece["choices"][0]["finish_reason"] for piece in pieces] == [None, "stop"]
    told = events(server.call("/infill", infill(stream=True))[1])
    assert "".join(piece["content"] for piece in told) == SAYS
    assert [piece["stop"] for piece in told] == [False, True]


@pytest.mark.parametrize(
    ("more", "ends"), [({}, ("a = 1\n    b = 2", "stop")), ({"max_tokens": 9}, ("a = 1", "length"))]
)
def test_a_repeated_request_ends_as_the_first(start: Start, more: dict[str, int], ends: tuple[str, str]) -> None:
    """The second answer comes from the cache."""
    server = start("a = 1\n    b = 2\n")
    body = {"prompt": PREFIX, "suffix": "\n", **more}
    choices = [server.call("/v1/completions", body)[1]["choices"][0] for _ in range(2)]
    assert [(choice["text"], choice["finish_reason"]) for choice in choices] == [ends, ends]


def test_stop_words_choices_and_lengths(server: ToyServer) -> None:
    asked = {"prompt": PREFIX, "suffix": "\n", "n": 2, "seed": 7, "stop": ["items", "sum"], "temperature": 1.0}
    _, reply = server.call("/v1/completions", asked)
    assert [choice["text"] for choice in reply["choices"]] == ["return ", "return "]
    _, told = server.call("/infill", infill(stop=["(", "items"]))
    assert (told["content"], told["stop_type"], told["stopping_word"]) == ("return sum", "word", "(")


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1/completions", {"prompt": PREFIX, "logprobs": 1}),
        ("/v1/completions", {"prompt": PREFIX, "logprobs": 0}),
        ("/v1/completions", {"prompt": []}),
        ("/v1/completions", {"prompt": [1, 2]}),
        ("/v1/completions", {"prompt": PREFIX, "echo": True}),
        ("/v1/completions", {"prompt": PREFIX, "n": 0}),
        ("/completion", {"prompt": PREFIX, "grammar": "root ::= x"}),
        ("/completion", {"prompt": PREFIX, "n_probs": 3}),
        ("/completion", {}),
        ("/infill", {"input_prefix": 3}),
    ],
)
def test_what_cannot_be_had_is_refused_in_words(server: ToyServer, path: str, body: Any) -> None:
    code, reply = server.call(path, body)
    assert code == 400
    assert reply["error"]["type"] == "invalid_request_error"
    assert reply["error"]["message"]


def test_chunks_that_no_prompt_can_hold_are_passed_over() -> None:
    """So that the model's thread does not read them in vain; the latest of the others stay, in their order."""
    given = [Extra(f"{number}.py", "x = 1\n" * 1000) for number in range(100)]
    given.insert(98, Extra("whole.json", "1" * 3_000_000))
    kept = within_bounds(given)
    assert 10 < len(kept) < 100
    assert [one.name for one in kept] == [f"{number}.py" for number in range(100 - len(kept), 100)]
    assert len(within_bounds((Extra("n", "y"),) * 5000)) < 1000


def test_a_name_that_the_shared_process_refuses_is_skipped() -> None:
    """Names in marks of a prompt are as long as their lines are."""
    head = f"<|file_sep|>{'名' * 30_000}\nx = 1\n<|file_sep|>a.py\ny = 1\n"
    (ask,) = read_completion(CompletionForm(prompt=f"{head}<|fim_prefix|>a<|fim_suffix|>b<|fim_middle|>"))
    assert within_bounds(ask.extras) == (Extra("a.py", "y = 1\n"),)


def test_other_texts_come_along_where_they_are_wanted(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a model that finds the letters after its own one as likely."""
    monkeypatch.setattr(Says, "ranked", FakeEngine.ranked)
    server = start("one\n")
    reply = server.call("/infill", infill(alternatives=3))[1]
    assert (reply["content"], set(reply["alternatives"])) == ("one", {"pne", "qne"})
    assert "alternatives" not in server.call("/infill", infill(input_prefix="x = 1\n"))[1]


def test_no_tokens_ask_nothing_of_the_model(start: Start) -> None:
    server = start("x\n")
    body = infill(n_predict=0, input_prefix="", prompt="", input_suffix="", response_fields=[""])
    assert server.call("/infill", body) == (200, {})
    assert server.engine.steps == 0


def test_how_long_an_answer_may_be_holds_for_that_answer(server: ToyServer) -> None:
    for tokens in (8, 128, 8, None, 9):
        more = {} if tokens is None else {"n_predict": tokens}
        _, reply = server.call("/infill", {"input_prefix": PREFIX, "input_suffix": "\n", **more})
        assert reply["content"] == (SAYS if tokens in (None, 128) else SAYS[:tokens])
    steps = server.engine.steps
    again = server.call("/infill", {"input_prefix": PREFIX, "input_suffix": "\n", "n_predict": 8})[1]
    assert again["content"] == SAYS[:8]
    assert server.engine.steps == steps


def test_what_clients_ask_beside(server: ToyServer) -> None:
    assert server.call("/health") == (200, {"status": "ok"})
    assert server.call("/v1/models")[1]["data"][0]["id"] == "toy-model"
    assert server.call("/props")[1]["default_generation_settings"]["n_ctx"] == 4096

    def requests() -> int:
        page = server.call("/metrics")[1]
        return int(next(line for line in page.splitlines() if line.startswith("fastcoder_requests_total ")).split()[1])

    before = requests()
    server.call("/infill", infill())
    assert requests() == before + 1


def test_a_text_goes_to_its_own_desk(start: Start) -> None:
    server = start("return sum(items)\n")
    texts = ["import os\nimport sys\n\n\ndef first(items):\n", "class Other:\n    pass\n\n\ndef second(items):\n"]
    for _ in range(3):
        for text in texts:
            assert server.call("/infill", infill(input_prefix=text))[1]["content"] == SAYS
    assert len(server.asked) == 2


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


def test_line_ends_are_one_character_everywhere() -> None:
    """Code that a prompt holds in marks has the same tokens as the same code in `input_extra`."""
    prompt = "<|file_sep|>x.py\r\nx = 1\r\n{}a\r\n{}b{}".format(*QWEN)
    for (asked,) in (read_completion(CompletionForm(prompt=prompt)), read_openai(OpenAIForm(prompt=prompt))):
        assert (asked.before, asked.after, asked.extras) == ("a\n", "b", (Extra("x.py", "x = 1\n"),))


def test_of_very_many_files_the_last_ones() -> None:
    """No question has more, and each is looked at on the event loop."""
    head = "".join(f"<|file_sep|>{number}.py\nx = {number}\n" for number in range(MOST_EXTRAS + 2))
    extras = parse_prompt("{}{}a{}b{}".format(head, *QWEN)).extras
    assert [one.name for one in extras] == [f"{number}.py" for number in range(2, MOST_EXTRAS + 2)]


def test_with_a_suffix_marks_are_text() -> None:
    """Whoever names the suffix apart has written no marks: they stand in the user's code."""
    prompt = 'MARKS = "{}a{}b{}"'.format(*QWEN)
    (ask,) = read_openai(OpenAIForm(prompt=prompt, suffix="\r\n"))
    assert (ask.before, ask.after) == (prompt, "\n")


@pytest.mark.parametrize(
    ("after", "text", "replaces", "inserted"),
    [(")\n", "x)", 1, "x"), (")]\n", "x)]", 2, "x"), ("\n", "x", 0, "x"), (")\n", "x", 0, "x")],
)
def test_closers_stay_away_that_an_editor_would_replace(after: str, text: str, replaces: int, inserted: str) -> None:
    assert answer_of(InfillRequest("f(", after), Completion(text, 2, 2 + replaces)).text == inserted


@pytest.mark.parametrize("name", ["images", "stop", "prompt", "unknown"])
@pytest.mark.parametrize("value", ["", 0, [], {"a": "b"}])
def test_millions_of_values_are_not_decoded(name: str, value: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fastcoder_lsp.http.forms.msgspec.json.decode", None)
    body = json.dumps({"model": "x", name: [value] * 200_000}).encode()
    with pytest.raises(RequestError, match="too many values"):
        read_form(body, OllamaForm)


@pytest.mark.parametrize(
    ("value", "number"),
    [
        ([], 0),
        ([1, 2, 3], 2),
        ({"a": "b", "c": [1, "d"]}, 6),
        (["\\", "\\,", '\\",\\"'], 5),
        ([',\\"', "\\\\", ',"",', '"\\\\"'], 7),
        ({'"': ',"', "\\": [[], [], []], "": ","}, 9),
    ],
)
def test_commas_inside_strings_are_no_values(value: object, number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    body = json.dumps(value).encode()
    monkeypatch.setattr(forms, "_MOST_VALUES", number)
    assert not forms._has_too_many_values(body)
    monkeypatch.setattr(forms, "_MOST_VALUES", number - 1)
    assert forms._has_too_many_values(body)


@pytest.mark.parametrize("text", ['a, "b", [\\]' * 50_000, "\\" * 50_001, ',"' * 300_000, "é,\n\x00" * 50_000])
def test_a_long_text_of_commas_and_quotes_is_read(text: str) -> None:
    for escaped in (True, False):
        body = json.dumps({"prompt": text, "suffix": text}, ensure_ascii=escaped).encode()
        assert read_form(body, OllamaForm).suffix == text
