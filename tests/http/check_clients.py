"""The published clients of OpenAI's, Mistral's and Ollama's APIs, against a real server process.

scripts/test-clients runs it in a venv that has these clients: python check_clients.py SERVER-COMMAND…
"""

import subprocess
import sys
from collections.abc import Callable
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


def main() -> None:
    litellm.telemetry = False
    with subprocess.Popen(
        [*sys.argv[1:], SAYS + "\n"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as server:
        try:
            assert server.stdout is not None
            base = f"http://127.0.0.1:{int(server.stdout.readline())}"
            for check in (check_openai, check_litellm, check_ollama):
                check(base)
                sys.stderr.write(f"{check.__name__}: passed\n")
        finally:
            server.kill()


if __name__ == "__main__":
    main()
