"""The published clients of OpenAI's, Mistral's and Ollama's APIs, against real server processes.

scripts/test-clients runs it in a venv that has these clients: python check_clients.py PYTHON, whose modules the servers
are.
"""

import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import litellm
import ollama
import openai

SAYS = "return sum(items)"
BEFORE, AFTER = "def total(items):\n    ", "\n"


def check_openai(base: str) -> None:
    client = openai.OpenAI(base_url=f"{base}/v1", api_key="any", max_retries=0)
    asked: dict[str, Any] = {"model": "fastcoder", "prompt": BEFORE, "suffix": AFTER}
    whole = client.completions.create(**asked, max_tokens=64, n=2, temperature=0.2, seed=1)
    assert [choice.text for choice in whole.choices] == [SAYS, SAYS]
    assert whole.usage is not None
    assert whole.usage.total_tokens == whole.usage.prompt_tokens + whole.usage.completion_tokens
    events = list(client.completions.create(**asked, stream=True, stream_options={"include_usage": True}))
    assert "".join(choice.text for event in events for choice in event.choices) == SAYS
    assert events[-1].usage is not None
    assert client.completions.create(**asked, max_tokens=1).choices[0].text == SAYS[:1]
    (model,) = client.models.list().data
    assert client.models.retrieve(model.id) == model
    for name, wrong in (("logprobs", {"logprobs": 2}), ("max_tokens", {"max_tokens": -7}), ("stop", {"stop": [3]})):
        assert name in str(refusal(openai.BadRequestError, partial(client.completions.create, **asked, **wrong)))


def check_drawn_choices(base: str) -> None:
    client = openai.OpenAI(base_url=f"{base}/v1", api_key="any", max_retries=0)
    asked: dict[str, Any] = {"model": "fastcoder", "prompt": BEFORE, "suffix": AFTER, "max_tokens": 64, "n": 4}

    def draw(**more: Any) -> list[str]:
        return [choice.text for choice in client.completions.create(**asked, **more).choices]

    for seed in (1, 2**53 + 1, 2**63 - 4):
        texts = draw(temperature=0.8, seed=seed)
        assert len(set(texts)) == 4
        assert texts == draw(temperature=0.8, seed=seed)
    assert draw(temperature=0.8) != draw(temperature=0.8)
    assert len(set(draw(temperature=0))) == 1
    too_large = refusal(openai.BadRequestError, partial(draw, temperature=0.8, seed=2**63))
    assert "seed" in str(too_large)


def check_litellm(base: str) -> None:
    asked: dict[str, Any] = {"model": "text-completion-openai/fastcoder", "prompt": BEFORE, "suffix": AFTER}
    asked |= {"api_base": f"{base}/v1", "api_key": "any", "max_retries": 0}
    assert litellm.text_completion(**asked).choices[0].text == SAYS
    streamed = litellm.text_completion(**asked, stream=True)
    assert "".join(event.choices[0].text or "" for event in streamed) == SAYS


def check_ollama(base: str) -> None:
    client = ollama.Client(base)
    told = client.generate("fastcoder", BEFORE, suffix=AFTER, options={"num_predict": 64})
    assert (told.response, told.done, told.done_reason) == (SAYS, True, "stop")
    events = list(client.generate("fastcoder", BEFORE, suffix=AFTER, stream=True))
    assert "".join(event.response for event in events) == SAYS
    assert events[-1].done
    (model,) = client.list().models
    assert ".Suffix" in (client.show(model.model or "").template or "")
    refused = refusal(ollama.ResponseError, partial(client.generate, "fastcoder", BEFORE, format="json"))
    assert refused.status_code == 400
    assert "format" in refused.error


def refusal(kind: type[Any], call: Callable[[], object]) -> Any:
    """The error of this kind that a call ends in."""
    try:
        call()
    except kind as error:
        return error
    raise AssertionError("it is not refused")


@contextmanager
def serving(module: str, *arguments: str) -> Iterator[str]:
    """The address of a server process."""
    command = [sys.argv[1], "-P", "-m", module, *arguments]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout is not None
            yield f"http://127.0.0.1:{int(server.stdout.readline())}"
        finally:
            server.kill()


def main() -> None:
    litellm.telemetry = False
    with serving("tests.http.toy_process", SAYS + "\n") as says, serving("tests.http.drawing_process") as draws:
        for check, base in (
            (check_openai, says),
            (check_litellm, says),
            (check_ollama, says),
            (check_drawn_choices, draws),
        ):
            check(base)
            sys.stderr.write(f"{check.__name__}: passed\n")


if __name__ == "__main__":
    main()
