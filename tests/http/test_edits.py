"""Prompts for edit models, as Zed and cursortab.nvim send them: recognised, answered raw, drafted by the old text."""

import http.client
import json
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import pytest

from fastcoder_lsp.completion import reasons
from fastcoder_lsp.completion.status import Status
from fastcoder_lsp.core import Draft, DraftContext, Progress, Reason, Rewrite, Tokens
from fastcoder_lsp.documents import Slots
from fastcoder_lsp.draft.base import NoDrafter
from fastcoder_lsp.draft.rewrite import RewriteDrafter
from fastcoder_lsp.edits.formats import EditLimits, EditPrompt, encode_raw, format_named
from fastcoder_lsp.edits.values import EditQuestion
from fastcoder_lsp.engine.one_slot import OneSlot
from fastcoder_lsp.http.forms import OpenAIForm, read_openai
from fastcoder_lsp.runtime.edit_model import EditModel, EditRuntime
from fastcoder_lsp.runtime.parts import Model, Runtime
from tests.completion.toys import QUICK, Letters, ToyPrompts, toy_model, toy_runtime
from tests.edits import recorded
from tests.fake_engine import END, FakeEngine, marked
from tests.http.toy_server import PREFIX, ToyServer
from tests.opened import WAIT_S, opening

TEXT = "def a(x):\n    y = x\n    return y\n"
ASKED = EditQuestion(1, "file:///a.py", "a.py", "python", 1, TEXT, TEXT.index("= x"), ())
CURSORTAB = {"temperature": 0, "top_k": 50, "n": 1, "echo": False, "stream": True}
STREAM = {"Accept": "text/event-stream"}


class Marked(Letters):
    """Bytes, and control tokens with numbers that no text has."""

    def __init__(self) -> None:
        super().__init__()
        names = ("<|file_sep|>", "<|endoftext|>", "<[fim-suffix]>", "<[fim-prefix]>", "<[fim-middle]>", "<|marker_1|>")
        self.control = {name: number for number, name in enumerate(names, 2)}
        self.end_ids = frozenset({END, *self.control.values()})
        self.start_ids = ()

    def piece(self, token: int) -> bytes:
        return b"" if token in self.end_ids else super().piece(token)


class Answering(FakeEngine):
    """Says the answer to each of some prompts, then ends."""

    def __init__(self, answers: Mapping[str, str], context: int = 60_000) -> None:
        super().__init__(256, context, chunk=4096)
        self.answers = {tuple(encode_raw(text, Marked())): encode_raw(said, Marked()) for text, said in answers.items()}

    def choose(self, tokens: Tokens, among: Sequence[int]) -> int:
        asked, said = next(
            (asked, said) for asked, said in self.answers.items() if tuple(tokens[: len(asked)]) == asked
        )
        return said[len(tokens) - len(asked)] if len(tokens) - len(asked) < len(said) else END


class Watching(NoDrafter):
    """Keeps the drafts that it is offered."""

    def __init__(self) -> None:
        super().__init__()
        self.offered: list[Rewrite] = []

    def propose(self, context: DraftContext, nodes: int) -> Draft:
        assert context.rewrite is not None
        self.offered.append(context.rewrite)
        return super().propose(context, nodes)


class EditServer(ToyServer):
    """The server with an edit model that knows its answers."""

    def __init__(self, answers: Mapping[str, str], context: int = 60_000) -> None:
        self.model, self.drafter = Answering(answers, context), Watching()
        super().__init__("")

    def _load(self, _: Progress) -> Model:
        return toy_model(self.model, Marked())

    def _runtime(self, model: Model) -> Runtime:
        return toy_runtime(model, ToyPrompts(marked), "front", drafter=self.drafter, max_tokens=20)


class ServerWithEditModel(ToyServer):
    """The server with a code model, and beside it what `edit_model` says at first: nothing but its progress."""

    def __init__(self, answers: Mapping[str, str]) -> None:
        tokenizer = Marked()
        engines = OneSlot(Answering(answers))
        form = format_named("sweep-v1")
        model = EditModel(engines, tokenizer, QUICK, form, lambda: RewriteDrafter(tokenizer.piece, costs=QUICK))
        self.ready = EditRuntime(model, Slots(engines, "front"), model.make_drafter())
        self.edit_model: EditRuntime | Reason | Status = Status("loading", 0, "weights")
        super().__init__("code = 1\n")

    def _runtime(self, model: Model) -> Runtime:
        return replace(super()._runtime(model), edit_model=lambda: self.edit_model)


@pytest.fixture
def serve() -> Iterator[Callable[..., EditServer]]:
    yield from opening(EditServer, EditServer.close)


def built(name: str) -> EditPrompt:
    found = format_named(name).prompt(ASKED, EditLimits())
    assert found is not None
    return found


def streamed(text: str) -> str:
    """The text of a stream in OpenAI's form, as cursortab reads it."""
    lines = text.splitlines()
    assert all(len(line.encode()) < 65_536 for line in lines)
    *values, done = [line.removeprefix("data: ") for line in lines if line]
    assert done == "[DONE]"
    return "".join(json.loads(value)["choices"][0]["text"] for value in values)


@pytest.mark.parametrize(
    ("name", "answer", "stop"),
    [
        ("sweep-v1", "\ndef a(x):\n    y = x + 1\n<|file_sep|>z", ["<|file_sep|>", "</s>"]),
        ("sweep-cursortab", "    y = x  \n\n\n", ["<|file_sep|>", "<|endoftext|>"]),
        ("zeta-2", "NO_EDITS\n>>>>>>> UPDATED\n", []),
        ("zeta-2", "def b(x):\n>>>>>>> UPDATED\n", [">>>>>>> UPDATED"]),
        ("zeta-2.1", "<|marker_1|>def b(x):\n<|marker_2|><|endoftext|>z", []),
    ],
)
def test_an_answer_is_the_models_own(serve: Callable[..., EditServer], name: str, answer: str, stop: list[str]) -> None:
    prompt = built(name)
    server = serve({prompt.text: answer})
    ends = [answer.find(end) for end in (*stop, "<|file_sep|>", "<|endoftext|>") if end in answer]
    expected = answer[: min(ends, default=len(answer))]
    body: dict[str, Any] = {"model": name, "prompt": prompt.text, "max_tokens": 512, "stop": stop}
    code, reply = server.call("/v1/completions", body)
    assert (code, reply["choices"][0]["text"], reply["choices"][0]["finish_reason"]) == (200, expected, "stop")
    assert reply["id"]
    assert streamed(server.call("/v1/completions", body | CURSORTAB, headers=STREAM)[1]) == expected
    assert server.call("/completion", {"prompt": prompt.text, "n_predict": 512, "stop": stop})[1]["content"] == expected
    assert {bytes(one.old) for one in server.drafter.offered} == {bytes(encode_raw(prompt.old, Marked()))}
    control = Marked().control
    assert {one.ends for one in server.drafter.offered} == {tuple(control[end] for end in stop if end in control)}


def test_an_edit_model_answers_its_prompts_beside_a_code_model() -> None:
    prompt, answer = built("sweep-v1"), "\ndef a(x):\n    y = x + 1\n"
    server = ServerWithEditModel({prompt.text: answer})
    body = {"prompt": prompt.text, "max_tokens": 512, "stop": ["<|file_sep|>"]}

    def completed() -> str:
        return str(server.call("/infill", {"input_prefix": PREFIX, "input_suffix": ""})[1]["content"])

    try:
        with ThreadPoolExecutor(1) as pool:
            asked = pool.submit(server.call, "/v1/completions", body)
            assert completed() == "code = 1"
            assert not asked.done()
            server.edit_model = server.ready
            assert asked.result(WAIT_S)[1]["choices"][0]["text"] == answer
        assert completed() == "code = 1"
        server.edit_model = reasons.edit_model_failed(Status("error", message="too large"))
        code, reply = server.call("/v1/completions", body | {"max_tokens": 511})
        assert (code, reply["error"]["message"]) == (500, "No edits: too large")
        assert server.call("/health")[0] == 200
        assert completed() == "code = 1"
    finally:
        server.close()


def test_another_length_or_stop_gives_another_answer(serve: Callable[..., EditServer]) -> None:
    prompt = built("zeta-2").text
    server = serve({prompt: "one two three"})

    def said(**more: Any) -> tuple[str, str]:
        choice = server.call("/v1/completions", {"prompt": prompt, **more})[1]["choices"][0]
        return choice["text"], choice["finish_reason"]

    assert said() == ("one two three", "stop")
    assert said(max_tokens=5) == ("one t", "length")
    assert said(max_tokens=0) == ("", "stop")
    assert server.call("/completion", {"prompt": prompt, "n_predict": 0})[1]["content"] == ""
    assert said(stop=" th") == ("one two", "stop")
    assert said() == ("one two three", "stop")


def test_after_its_time_an_answer_is_the_lines_so_far(serve: Callable[..., EditServer]) -> None:
    prompt, answer = built("zeta-2").text, "one\n" * 1000
    server = serve({prompt: answer})
    reply = server.call("/completion", {"prompt": prompt, "t_max_predict_ms": 0.01})[1]
    assert reply["content"] in {"one\n" * lines for lines in range(1, 1000)}
    assert reply["stop_type"] == "limit"
    assert server.call("/completion", {"prompt": prompt, "n_predict": 4096})[1]["content"] == answer


def test_a_prompt_that_is_too_long_keeps_its_end(serve: Callable[..., EditServer]) -> None:
    prompt = built("zeta-2").text
    server = serve({}, context=200)
    server.model.answers[tuple(encode_raw(prompt, Marked())[-100:])] = list(b"said")
    assert server.call("/completion", {"prompt": prompt})[1]["content"] == "said"


def test_recorded_requests_of_cursortab(serve: Callable[..., EditServer]) -> None:
    some = list(recorded.recorded())[::12]
    server = serve({one.prompt: one.answer for one in some})
    for one in some:
        body = {"prompt": one.prompt, "max_tokens": 2048, **CURSORTAB}
        assert streamed(server.call("/v1/completions", body, headers=STREAM)[1]) == one.answer


def test_long_answers_are_sent_in_pieces(serve: Callable[..., EditServer]) -> None:
    prompt, answer = built("zeta-2").text, "\x01" * 4096
    server = serve({prompt: answer})
    body = {"prompt": prompt, "max_tokens": 1_000_000, **CURSORTAB}
    assert streamed(server.call("/v1/completions", body)[1]) == answer


def test_other_prompts_are_completed_as_ever() -> None:
    for prompt in (
        "def f():",
        "<|fim_prefix|>a<|fim_suffix|>b<|fim_middle|>",
        "<[fim-suffix]>b<[fim-prefix]>a<[fim-middle]>",
    ):
        assert read_openai(OpenAIForm(prompt=prompt))[0].raw is None
    assert read_openai(OpenAIForm(prompt=built("zeta-2").text, suffix="x"))[0].raw is None
    assert read_openai(OpenAIForm(prompt=built("zeta-2").text, max_tokens=0))[0].raw is not None


def test_a_raw_answer_streams_line_by_line(serve: Callable[..., EditServer]) -> None:
    """A stop that begins in one step and ends in another never shows its beginning."""
    prompt, answer = built("zeta-2").text, "one\ntwo\nthree\n>>>>>>> UPDATED\nfour\n"
    server = serve({prompt: answer})
    body = {"prompt": prompt, "max_tokens": 512, "stop": ["\n>>>>>>> UPDATED"], "stream": True}
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=WAIT_S)
    seen, tokens = list[str](), threading.Semaphore(0)
    choose = server.model.choose

    def slowly(said: Tokens, among: Sequence[int]) -> int:
        assert tokens.acquire(timeout=WAIT_S)
        return choose(said, among)

    server.model.choose = slowly  # type: ignore[method-assign, assignment]
    connection.request("POST", "/completion", json.dumps(body))
    tokens.release(len("one\nt"))
    with connection.getresponse() as response:
        seen.append(json.loads(response.readline().removeprefix(b"data: "))["content"])
        tokens.release(1000)
        rest = [line for line in response.read().decode().split("\n") if line]
        seen += [json.loads(line.removeprefix("data: "))["content"] for line in rest]
    connection.close()
    assert seen[0] == "one\n"
    assert "".join(seen) == "one\ntwo\nthree"
