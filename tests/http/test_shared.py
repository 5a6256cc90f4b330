"""The command over the process that editors share, with a real model: one model, the same texts, few tokens a key."""

import http.client
import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import fastcoder_lsp
from fastcoder_lsp.host.control import find_hosts, stop_host
from fastcoder_lsp.host.transport import Fronts
from fastcoder_lsp.model import ModelFiles

pytestmark = [
    pytest.mark.ci,
    pytest.mark.model,
    pytest.mark.skipif(sys.platform == "win32", reason="Windows has no SIGKILL"),
]

ANSWER_S = 120.0
BEFORE = '''\
class Stack:
    """Last in, first out."""

    def __init__(self):
        self.items = []

    def push(self, item):
        self.items.append(item)

    def pop(self):
'''
AFTER = "\n\n\nprint(1)\n"
CHUNK = {"filename": "turn.py", "text": "def rotate_by_quarter(image, turns):\n    return image.rotate(90 * turns)\n"}
TYPED = "        # the one on top, or the last of them"


@dataclass
class Machine:
    """A user's folders, with a copy of the package: what is installed must not change while processes of it run."""

    folder: Path
    stack: ExitStack

    def start(self, *options: str) -> "Server":
        environment = os.environ | {"XDG_RUNTIME_DIR": str(self.folder), "PYTHONPATH": f"{self.folder}/installed"}
        command = [sys.executable, "-P", "-m", "fastcoder_lsp.cli.main", "http", "--port", "0", *options]
        process = self.stack.enter_context(
            subprocess.Popen(
                [*command, "--model", "wheels:smollm2"], stderr=subprocess.PIPE, text=True, env=environment
            )
        )
        self.stack.callback(process.kill)
        assert process.stderr is not None
        port = re.search(r"127\.0\.0\.1:(\d+)", process.stderr.readline())
        assert port is not None
        said = process.stderr.readline()
        assert said == "fastcoder-lsp: ready\n", said
        return Server(process, int(port[1]))

    def host(self) -> Fronts:
        ends_s = time.monotonic() + ANSWER_S
        while time.monotonic() < ends_s:
            (host,) = find_hosts([self.folder / "fastcoder-lsp"])
            if host.report is not None:
                return host.report
        raise AssertionError("it does not answer")


@dataclass
class Server:
    """A command that listens."""

    process: "subprocess.Popen[str]"
    port: int

    def infill(self, prefix: str, prompt: str = "", suffix: str = "", **more: Any) -> dict[str, Any]:
        code, reply = self.ask({"input_prefix": prefix, "prompt": prompt, "input_suffix": suffix, **more})
        assert code == 200, reply
        return reply

    def ask(self, body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=ANSWER_S)
        try:
            connection.request("POST", "/infill", json.dumps(body | {"filename": "a.py"}))
            response = connection.getresponse()
            return response.status, json.loads(response.read())
        finally:
            connection.close()


@pytest.fixture
def machine() -> Iterator[Machine]:
    with tempfile.TemporaryDirectory() as name, ExitStack() as stack:
        folder, package = Path(name), Path(fastcoder_lsp.__file__).parent
        shutil.copytree(package, folder / "installed" / package.name, ignore=shutil.ignore_patterns("__pycache__"))
        yield Machine(folder, stack)
        for host in find_hosts([folder / "fastcoder-lsp"]):
            stop_host(host, 10)


def test_one_model_the_same_texts_and_few_tokens_a_key(machine: Machine, llama_model: ModelFiles) -> None:
    one, other = machine.start(), machine.start()
    fronts = machine.host().fronts
    assert {front.process_id for front in fronts} == {one.process.pid, other.process.pid}
    extra: dict[str, Any] = {"input_extra": [CHUNK]}
    told = other.infill("from turn import rotate", **extra)
    replies = [one.infill(BEFORE, TYPED[:key], AFTER, **extra) for key in range(len(TYPED) + 1)]
    computed = [reply["timings"]["prompt_n"] for reply in replies]
    assert computed[0] > 30, "the whole prompt"
    assert statistics.median(computed[1:]) <= 8
    assert len({reply["content"] for reply in replies}) > 2, "it says something, and not always the same"
    plain = one.infill("from turn import rotate")
    assert told["tokens_evaluated"] > plain["tokens_evaluated"] + 15, "the chunk is in the prompt"

    alone = machine.start("--alone")
    assert alone.infill("from turn import rotate", **extra)["content"] == told["content"]
    assert alone.infill(BEFORE, "", AFTER, **extra)["content"] == replies[0]["content"]
    assert {front.process_id for front in machine.host().fronts} == {one.process.pid, other.process.pid}
