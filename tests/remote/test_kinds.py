"""Each kind of server is found out and asked in its own form, by `fastcoder-lsp serve` as well."""

import os
import sys
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.http.toy_server import ToyServer
from tests.lsp.raw_client import running
from tests.remote.front import Fronts
from tests.remote.scripted_server import LlamaServer, OpenAIServer, Serve

BEFORE = "def total(items):\n    "
AFTER = "\n\n\nprint(total([1]))\n"
SAYS = "return sum(items)\n\n\ndef other():\n"
SHOWN = "return sum(items)"


def test_this_programs_own_server(front: Fronts) -> None:
    server = ToyServer("return sum(items)\n")
    try:
        completion = front(f"http://127.0.0.1:{server.port}").ask(BEFORE, AFTER)
    finally:
        server.close()
    assert (completion.text, completion.model, completion.engine) == (SHOWN, "toy-model", "fastcoder-lsp")


@pytest.mark.parametrize(("kind", "closer"), [("llama.cpp", ")"), ("fastcoder", "")])
def test_a_text_gets_its_closers_once(serve: Serve, front: Fronts, kind: str, closer: str) -> None:
    """Our own server leaves out a closer that its model was not sure of."""
    server = serve(LlamaServer(lambda _: ").__init__(size"))
    shown = front(server.url, remote_kind=kind).ask("class A(B):\n    def __init__(self, size):\n        super(", "\n")
    assert shown.text == f").__init__(size{closer}"


def test_llama_cpps(serve: Serve, front: Fronts) -> None:
    server = serve(LlamaServer(lambda _: SAYS))
    completion = front(server.url).ask(BEFORE, AFTER)
    assert (completion.text, completion.model, completion.engine) == (SHOWN, "toy-gguf", "llama.cpp")
    (asked,) = server.asked("/infill")
    assert asked.body["input_prefix"] == "def total(items):\n"
    assert (asked.body["prompt"], asked.body["input_suffix"]) == ("    ", AFTER)
    assert (asked.body["temperature"], asked.body["cache_prompt"]) == (0.0, True)


def test_a_server_is_told_where_a_line_is_the_end(serve: Serve, front: Fronts) -> None:
    server = serve(LlamaServer(lambda _: "1\n"))
    asking = front(server.url)
    asking.ask("x = call(", "y)\n")
    asking.ask(BEFORE, AFTER)
    assert [request.body.get("stop") for request in server.asked("/infill")] == [["\n"], None]


def test_openais_with_a_suffix(serve: Serve, front: Fronts) -> None:
    server = serve(OpenAIServer(lambda _prompt, suffix: SAYS if suffix == AFTER else "wrong\n", "codestral"))
    assert front(f"{server.url}/v1/").ask(BEFORE, AFTER).text == SHOWN
    assert server.asked("/v1/completions")[-1].body["prompt"] == BEFORE


QWEN = "<|fim_prefix|>def total(items):\n<|fim_suffix|>{after}<|fim_middle|>    "


@pytest.mark.parametrize(
    ("suffix", "model", "prompt"),
    [
        ("refused", "Qwen/Qwen2.5-Coder-7B", QWEN),
        ("ignored", "Qwen/Qwen2.5-Coder-7B", QWEN),
        ("ignored", "JetBrains/Mellum-4b-base", "<fim_suffix>{after}<fim_prefix>def total(items):\n<fim_middle>    "),
        ("ignored", "mistralai/Codestral-22B-v0.1", "[SUFFIX]{after}[PREFIX]def total(items):\n    "),
    ],
)
def test_openais_without_a_suffix(serve: Serve, front: Fronts, suffix: str, model: str, prompt: str) -> None:
    server = serve(OpenAIServer(lambda *_: SAYS, model, suffix))
    assert front(server.url).ask(BEFORE, AFTER).text == SHOWN
    asked = server.asked("/v1/completions")[-1].body
    assert asked["prompt"] == prompt.format(after=AFTER)
    assert "suffix" not in asked


def test_an_unknown_family(serve: Serve, front: Fronts) -> None:
    server = serve(OpenAIServer(lambda *_: SAYS, "house-model", "refused"))
    assert front(server.url).code(BEFORE) == "remote-rejected"
    assert all(request.body["max_tokens"] == 1 for request in server.asked("/v1/completions"))
    told = front(server.url, remote_template="deepseek")
    assert told.ask(BEFORE, AFTER).text == SHOWN
    assert server.asked("/v1/completions")[-1].body["prompt"].startswith("<｜fim▁begin｜>def total")


SERVE = (sys.executable, "-P", "-m", "fastcoder_lsp.cli.main", "serve")
TEXT = "def total(items):\n    \n"
HEAVY = ("torch", "numba", "llvmlite")


async def test_an_editor_gets_a_servers_text(serve: Serve, tmp_path: Path) -> None:
    server = serve(LlamaServer(lambda _: "return sum(items)\n\n\nx = 1\n"))
    uri = (tmp_path / "a.py").as_uri()
    options = {"remote": {"url": server.url, "fallback": False}}
    environment = {**os.environ, "FASTCODER_CACHE": str(tmp_path / "cache")}
    async with running(command=SERVE, environment=environment) as client:
        await client.initialize(initializationOptions=options)
        client.open(uri, TEXT)
        (item,) = await client.inline(uri, 1, 4)
        assert item["insertText"] == "return sum(items)"
        told = [message["params"] for message in client.told if message["method"] == "fastcoder/status"]
        assert told[-1]["asks"] == "127.0.0.1"
        maps = psutil.Process(client.process.pid).memory_maps()
        assert not [one.path for one in maps if any(f"/{name}/" in one.path for name in HEAVY)]
        assert await client.leave() == 0


async def test_a_repository_sends_nothing_anywhere(serve: Serve, tmp_path: Path) -> None:
    server = serve(LlamaServer(lambda _: "stolen\n"))
    (tmp_path / "fastcoder.toml").write_text(f'[remote]\nurl = "{server.url}"\nallow = "127.0.0.1"\n')
    uri = (tmp_path / "a.py").as_uri()
    folders: list[dict[str, Any]] = [{"uri": tmp_path.as_uri(), "name": "repository"}]
    environment = {**os.environ, "FASTCODER_CACHE": str(tmp_path / "cache")}
    options = {"host": {"enabled": False}, "model": str(tmp_path / "absent")}
    async with running(command=SERVE, environment=environment) as client:
        await client.initialize(workspaceFolders=folders, initializationOptions=options)
        client.open(uri, TEXT)
        assert await client.inline(uri, 1, 4) == []
        await client.until(lambda: any("remote.url" in text for text in client.notices()))
        assert await client.leave() == 0
    assert server.requests == []
