"""`bench peers`: what servers tell is read, shares are right, and the plugins' rules are those that are published."""

import asyncio
import stat
import sys
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from benchmarks.datasets.histories import RecordedEdit
from benchmarks.peer_engines import LlamaCppServer, OllamaServer, Peer, PeerAnswer
from benchmarks.peer_typist import PLUGINS
from benchmarks.peers import Options, run
from benchmarks.typist import Subset
from fastcoder_lsp.bench.model import BenchModel
from fastcoder_lsp.decode.loop import DecodeRequest
from fastcoder_lsp.errors import UsageError
from tests.bench.keystroke.made_up import write_history

PROGRAM = """#!{python}
import http.server, json, os, pathlib, sys
words = sys.argv[1:]
if "--version" in words:
    sys.exit(print("version: 11434 (515e855)", file=sys.stderr))
if "other" in words:
    sys.exit("error: the vocabularies are not compatible")
if "idle" in words:
    print("E failed to initialize speculative decoding context", flush=True)
if words[0] == "create":
    sys.exit(0 if pathlib.Path(words[3]).read_text().startswith("FROM ") else 1)
ANSWERS = {{
    "/health": {{}},
    "/infill": {{"content": "first"}},
    "/completion": {{"tokens": [5, 6, 7, 2], "timings": {{"predicted_n": 4, "predicted_ms": 30.0, "prompt_n": 3,
        "prompt_ms": 9.0, "draft_n": 8, "draft_n_accepted": 2}}}},
    "/api/version": {{"version": "0.9"}},
    "/api/generate": {{"response": "abc", "eval_count": 3, "eval_duration": 60000000, "prompt_eval_count": 2,
        "prompt_eval_duration": 4000000}},
}}
class Peer(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        body = json.dumps(ANSWERS[self.path]).encode()
        self.send_response(200)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
    def do_POST(self):
        asked = json.loads(self.rfile.read(int(self.headers["content-length"])))
        greedy = asked.get("temperature", asked.get("options", {{}}).get("temperature")) == 0
        if self.path != "/infill" and not greedy:
            self.path = "/not greedy"
        self.do_GET()
port = int(words[words.index("--port") + 1]) if "--port" in words else int(os.environ["OLLAMA_HOST"].split(":")[1])
http.server.ThreadingHTTPServer(("127.0.0.1", port), Peer).serve_forever()
"""
"""llama-server and ollama in one, as their documentation says that they answer."""


@pytest.fixture
def program(tmp_path: Path) -> Path:
    file = tmp_path / "peer"
    file.write_text(PROGRAM.format(python=sys.executable))
    file.chmod(file.stat().st_mode | stat.S_IXUSR)
    return file


@pytest.fixture
def model(tmp_path: Path) -> BenchModel:
    (tmp_path / "origin.json").write_text("{}")
    tokenizer = SimpleNamespace(encode=lambda text: list(text.encode()))
    return cast("BenchModel", SimpleNamespace(tokenizer=tokenizer, files=SimpleNamespace(folder=tmp_path)))


REQUEST = cast(
    "DecodeRequest",
    SimpleNamespace(prompt=(97, 98, 99), max_tokens=4, end_ids=frozenset({2}), piece=lambda token: bytes([token])),
)


@pytest.mark.parametrize(
    ("kind", "version", "wanted"),
    [
        ("llama.cpp", "llama.cpp 11434 (515e855)", PeerAnswer((5, 6, 7), 3, 1, 30.0, 3, 9.0)),
        ("Ollama", "Ollama 0.9", PeerAnswer((97, 98, 99), 3, None, 60.0, 2, 4.0)),
    ],
)
def test_an_answer_is_read(
    kind: str, version: str, wanted: PeerAnswer, program: Path, model: BenchModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("benchmarks.peer_engines.gguf_path", lambda _: program)
    made: Peer = LlamaCppServer(program, program, 2, 64) if kind == "llama.cpp" else OllamaServer(program, model, 2, 64)
    try:
        assert made.answer(REQUEST) == wanted
        assert made.version == version
        assert (made.start_s or 0) > 0
        assert made.memory_bytes() > 1 << 20
    finally:
        made.close()


@pytest.mark.parametrize(("plugin", "field"), [("llama.vim", "response_fields"), ("llama.vscode", "n_cmpl")])
def test_a_run_is_typed_through_a_plugin(plugin: str, field: str) -> None:
    """Two answers suffice: the rest of the line is wrong at first, and known while it is typed along."""
    step = RecordedEdit("a.py", 0, 0, "value = other(first)\n", typed=True)
    asked = list[Mapping[str, Any]]()

    async def post(body: Mapping[str, Any]) -> Any:
        asked.append(body)
        rest = step.text.strip().removeprefix(body["prompt"])
        answer = {"content": rest if body["prompt"].startswith("val") else ""}
        return [answer] * body["n_cmpl"] if "n_cmpl" in body else answer

    async def typed() -> Any:
        typist = PLUGINS[plugin](post, {"a.py": "x = 1\n"}, speed=5.0, seed=0)
        for _ in typist.keys(Subset((step,), frozenset({0}), 1, 20)):
            for _ in range(20):
                await asyncio.sleep(0)
        return typist

    typist = asyncio.run(typed())
    assert typist.text() == step.text + "x = 1\n"
    assert (typist.typed, typist.saved, typist.accepts, len(typist.waits)) == (3, 17, 1, 1)
    assert all(field in body and body["samplers"] == ["top_k", "top_p", "infill"] for body in asked)
    assert typist.requests == len(asked)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"replay": "nosuch"}, "nosuch"),
        ({"replay": "small", "keys": 5}, "no run of small has so few keys"),
        ({"llama_server": "nosuch"}, "nosuch is not a program"),
        ({"limit": 0, "keys": 0}, "leaves nothing to compare"),
    ],
)
def test_an_impossible_call_is_refused_before_loading(given: dict[str, Any], said: str, tmp_path: Path) -> None:
    write_history(tmp_path)
    paths: dict[str, Any] = {
        name: tmp_path / value if isinstance(value, str) else value for name, value in given.items()
    }
    with pytest.raises(UsageError, match=said):
        run(Options(model="no model", **paths))
