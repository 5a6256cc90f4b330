"""The fields and replies of each API, as its clients send and read them."""

import json
from typing import Any

import pytest

from fastcoder_lsp.http.forms import CompletionForm, InfillForm, OllamaForm, OpenAIForm
from fastcoder_lsp.http.guard import AccessRules
from fastcoder_lsp.http.infill import MOST_TEXT, near_cursor
from tests.http.toy_server import PREFIX, Start, ToyServer

SAYS = "return sum(items)"
ASK = {"prompt": PREFIX, "suffix": "\n"}
INFILL = {"input_prefix": PREFIX, "input_suffix": "\n"}
ROUTES: list[tuple[str, dict[str, Any]]] = [
    ("/infill", INFILL),
    ("/completion", {"prompt": f"<|fim_prefix|>{PREFIX}<|fim_suffix|>\n<|fim_middle|>"}),
    ("/v1/completions", ASK),
    ("/v1/fim/completions", ASK),
    ("/api/generate", {**ASK, "stream": False}),
]


def text_of(path: str, reply: Any) -> str:
    if path.startswith("/v1/"):
        choice = reply["choices"][0]
        return str(choice["text"] if "text" in choice else choice["message"]["content"])
    return str(reply["response"] if path.startswith("/api/") else reply["content"])


def events(text: str) -> list[Any]:
    lines = [line.removeprefix("data: ") for line in text.split("\n") if line]
    return [line if line == "[DONE]" else json.loads(line) for line in lines]


@pytest.mark.parametrize(("path", "body"), ROUTES)
@pytest.mark.parametrize("name", ["n_predict", "max_tokens", "max_completion_tokens"])
def test_every_route_knows_every_name_of_the_length(
    server: ToyServer, path: str, body: dict[str, Any], name: str
) -> None:
    for number, says in ((8, "return s"), (8.0, "return s"), (-1, SAYS), (10**30, SAYS), (None, SAYS)):
        code, reply = server.call(path, body | {name: number})
        assert (code, text_of(path, reply)) == (200, says)


def test_ollamas_options_are_bounds_too(server: ToyServer) -> None:
    for options, more, says in (
        ({"num_predict": 8.0}, {"max_tokens": 12}, "return s"),
        ({"num_predict": -1}, {"n_predict": 8}, "return s"),
        ({"stop": "("}, {"stop": [" sum"]}, "return"),
        ({}, {"format": "", "json_schema": {}, "stop": "("}, "return sum"),
    ):
        reply = server.call("/api/generate", {**ASK, **more, "options": options, "stream": False})[1]
        assert reply["response"] == says


@pytest.mark.parametrize(("path", "body"), ROUTES)
def test_nulls_and_unknown_fields_are_accepted(server: ToyServer, path: str, body: dict[str, Any]) -> None:
    names = {name for kind in (InfillForm, CompletionForm, OpenAIForm, OllamaForm) for name in kind.__struct_fields__}
    nulls: dict[str, Any] = {name: None for name in names if not (name == "stream" and path.startswith("/api/"))}
    unknown = {
        "json_schema": {},
        "frequency_penalty": "x",
        "user": [],
        "logit_bias": {},
        "keep_alive": "5m",
    }
    code, reply = server.call(path, nulls | body | unknown)
    assert (code, text_of(path, reply)) == (200, SAYS)


@pytest.mark.parametrize(("path", "body"), ROUTES)
@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        ("max_tokens", "16"),
        ("max_tokens", 16.5),
        ("max_tokens", -5),
        ("stop", 3),
        ("stream", "yes"),
        ("filename", 7),
        ("prompt", {}),
        ("prompt", [1, 2]),
        ("prompt", [[1, 2]]),
        ("json_schema", {"type": "object"}),
    ],
)
def test_a_wrong_value_is_refused_by_name(
    server: ToyServer, path: str, body: dict[str, Any], name: str, wrong: object
) -> None:
    changed = {"options": {"num_predict": wrong}} if path == "/api/generate" and name == "max_tokens" else {name: wrong}
    code, reply = server.call(path, body | changed)
    message = reply["error"] if path == "/api/generate" else reply["error"]["message"]
    assert code == 400
    named = "options.num_predict" if "options" in changed else name
    assert named in message.partition(":")[0]


@pytest.mark.parametrize(
    ("prompt", "says"),
    [(["a = 1\n"], "expected `str | null`"), ([], "expected `str | null`"), (5, "token ids are not supported")],
)
def test_only_numbers_are_called_token_ids(server: ToyServer, prompt: object, says: str) -> None:
    code, reply = server.call("/infill", {"prompt": prompt})
    assert (code, says in reply["error"]["message"]) == (400, True)


@pytest.mark.parametrize(("number", "code"), [(2, 200), (2.0, 200), (1.5, 400), (0, 400), (17, 400), ("2", 400)])
def test_the_number_of_choices_is_whole(server: ToyServer, number: object, code: int) -> None:
    status, reply = server.call("/v1/completions", {**ASK, "n": number, "seed": 5.0})
    assert status == code
    assert len(reply["choices"]) == 2 if code == 200 else reply["error"]["message"].startswith("n: ")


def test_the_last_event_of_a_stream_counts_tokens_if_asked(server: ToyServer) -> None:
    told = events(server.call("/v1/completions", {**ASK, "stream": True, "stream_options": {"include_usage": True}})[1])
    *pieces, last, done = told
    assert done == "[DONE]"
    assert (last["choices"], last["usage"]["completion_tokens"]) == ([], len(SAYS))
    assert {piece["usage"] for piece in pieces} == {None}
    plain = events(server.call("/v1/completions", {**ASK, "stream": True})[1])
    assert not any("usage" in event for event in plain[:-1])


def test_usage_counts_the_tokens_of_the_texts(server: ToyServer) -> None:
    """A letter is a token here; an answer from the cache counts as much as the first one."""
    for _ in range(2):
        for more, tokens in (({}, len(SAYS)), ({"n": 3}, 3 * len(SAYS)), ({"stop": " sum"}, 6), ({"max_tokens": 8}, 8)):
            used = server.call("/v1/completions", ASK | more)[1]["usage"]
            assert used["completion_tokens"] == tokens
            assert used["total_tokens"] == used["prompt_tokens"] + tokens
            assert used["prompt_tokens"] > 0


def test_a_list_of_prompts_has_an_answer_for_each(start: Start) -> None:
    server = start(lambda before: f"said after {before[:1]}\n")
    prompts = ["a = 1\nb = ", "x = 1\ny = "]
    reply = server.call("/v1/completions", {"prompt": prompts, "n": 2})[1]
    texts = [(choice["index"], choice["text"]) for choice in reply["choices"]]
    assert texts == list(enumerate(["said after a"] * 2 + ["said after x"] * 2))
    told = events(server.call("/v1/completions", {"prompt": prompts, "stream": True})[1])[:-1]
    for index, text in enumerate(("said after a", "said after x")):
        parts = [choice["text"] for event in told for choice in event["choices"] if choice["index"] == index]
        assert "".join(parts) == text
    both = server.call("/completion", {"prompt": prompts})[1]
    assert [(one["index"], one["content"]) for one in both] == [(0, "said after a"), (1, "said after x")]


def test_mistrals_form_is_that_of_a_chat(server: ToyServer) -> None:
    body = {**ASK, "model": "codestral-latest", "min_tokens": 1, "stop": ["\n\n"]}
    reply = server.call("/v1/fim/completions", body)[1]
    assert (reply["object"], reply["model"]) == ("chat.completion", "codestral-latest")
    assert reply["choices"][0]["message"]["role"] == "assistant"
    assert reply["usage"]["completion_tokens"] == len(SAYS)
    *told, done = events(server.call("/v1/fim/completions", {**body, "stream": True})[1])
    assert done == "[DONE]"
    assert "".join(event["choices"][0]["delta"]["content"] for event in told) == SAYS
    assert [event["choices"][0]["finish_reason"] for event in told] == [None, "stop"]
    assert told[-1]["usage"] == reply["usage"]


def test_ollama_streams_lines_of_json_by_default(server: ToyServer) -> None:
    body = {
        **ASK,
        "model": "qwen:latest",
        "options": {"temperature": 0, "stop": ["("]},
        "keep_alive": "1h",
        "raw": True,
    }
    *told, last = events(server.call("/api/generate", body)[1])
    assert "".join(event["response"] for event in told) == "return sum"
    assert {(event["done"], event["model"]) for event in told} == {(False, "qwen:latest")}
    assert (last["done"], last["done_reason"], last["eval_count"]) == (True, "stop", len("return sum"))
    whole = server.call("/api/generate", {**body, "stream": False})[1]
    assert (whole["response"], whole["done"]) == ("return sum", True)
    assert server.call("/api/generate", {"model": "m", "stream": False})[1]["done_reason"] == "load"


@pytest.mark.parametrize("more", [{"format": "json"}, {"format": {"type": "object"}}, {"images": ["aGk="]}])
def test_ollamas_errors_are_texts(server: ToyServer, more: dict[str, Any]) -> None:
    code, reply = server.call("/api/generate", ASK | more)
    assert code == 400
    assert isinstance(reply["error"], str)


def test_clients_find_the_model_before_they_ask(server: ToyServer) -> None:
    model = server.call("/v1/models/toy-model")[1]
    assert model == server.call("/v1/models")[1]["data"][0]
    code, reply = server.call("/v1/models/other/model")
    assert code == 404
    assert "toy-model" in reply["error"]["message"]
    assert [one["name"] for one in server.call("/api/tags")[1]["models"]] == ["toy-model"]
    assert ".Suffix" in server.call("/api/show", {"model": "toy-model"})[1]["template"]
    assert server.call("/api/version")[1]["version"]


ORIGINS = AccessRules(origins=frozenset({"https://editor.example"}))


@pytest.mark.parametrize(
    ("headers", "code"),
    [
        ({"Host": "localhost:8012", "Origin": "http://localhost:8012", "Sec-Fetch-Site": "same-origin"}, 200),
        ({"Host": "localhost:8012", "Sec-Fetch-Site": "same-origin"}, 200),
        ({"Host": "localhost:8012", "Origin": "https://Editor.example", "Sec-Fetch-Site": "cross-site"}, 200),
        ({"Host": "localhost:8012", "Origin": "http://localhost:3000", "Sec-Fetch-Site": "same-site"}, 403),
        ({"Host": "localhost:8012", "Origin": "http://editor.example"}, 403),
        ({"Host": "localhost:8012", "Origin": "https://editor.example.evil.com"}, 403),
        ({"Host": "localhost:8012", "Sec-Fetch-Site": "same-site"}, 403),
        ({"Host": "evil.com", "Origin": "http://evil.com", "Sec-Fetch-Site": "same-origin"}, 403),
        ({"Host": "evil.com", "Origin": "https://editor.example"}, 403),
    ],
)
def test_only_allowed_origins_are_let_in(start: Start, headers: dict[str, str], code: int) -> None:
    server = start("x\n", door=ORIGINS)
    status, _, told = server.exchange("/v1/completions", ASK, headers=headers)
    assert status == code
    shares = code == 200 and "editor" in headers.get("Origin", "").lower()
    assert code == 403 or told.get("access-control-allow-origin") == ("https://editor.example" if shares else None)


def test_an_allowed_page_may_ask_whether_it_may_ask(start: Start) -> None:
    server = start("x\n", door=AccessRules("k" * 20, frozenset(), ORIGINS.origins))
    wanted = "authorization,content-type,x-stainless-lang"  # those of OpenAI's package
    asks = {"Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": wanted}
    for origin, code in (("https://editor.example", 204), ("https://evil.com", 403)):
        status, _, told = server.exchange("/infill", method="OPTIONS", headers={**asks, "Origin": origin})
        assert (status, told.get("access-control-allow-headers")) == (code, wanted if code == 204 else None)
    status, _, told = server.exchange("/infill", INFILL, headers={"Origin": "https://editor.example"})
    assert (status, told["access-control-allow-origin"]) == (401, "https://editor.example")
    assert server.call("/v1/models", headers={"Origin": "http://evil.com", "Host": "evil.com"})[0] == 403


@pytest.mark.parametrize(
    ("says", "tokens", "text"),
    [
        (SAYS, 1, "r"),
        (SAYS, 2, "re"),
        ("    x = 1\n", 2, "  "),
        ("y = x.z\n", 5, "y = x"),
        ("a = 1\n    b = 2\n", 9, "a = 1"),
    ],
)
def test_a_short_length_gives_its_tokens(start: Start, says: str, tokens: int, text: str) -> None:
    """Of more than one line, the whole ones."""
    server = start(says)
    for _ in range(2):
        reply = server.call("/v1/completions", {**ASK, "max_tokens": tokens})[1]
        assert (reply["choices"][0]["text"], reply["choices"][0]["finish_reason"]) == (text, "length")


def test_a_huge_document_is_read_near_the_cursor(server: ToyServer) -> None:
    line = "x = 1\n"
    most = MOST_TEXT // len(line)
    before, after = near_cursor(line * (3 * most), line * (3 * most))
    assert MOST_TEXT * 3 // 4 <= len(before) <= MOST_TEXT
    assert len(after) == MOST_TEXT
    typed, _ = near_cursor(line * (3 * most) + "yy", "")
    assert typed == before + "yy", "its beginning stays"
    code, reply = server.call("/infill", {"input_prefix": "\n" * 2_500_000 + PREFIX, "input_suffix": "\n" * 1_200_000})
    assert (code, reply["content"]) == (200, SAYS)
