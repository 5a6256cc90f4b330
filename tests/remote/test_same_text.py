"""One place has one text: by an editor, in each form over HTTP, and by a front that asks a server in the model's place.

The engine says what truly follows in real code, with what a model adds: it goes on behind the end that is shown.
"""

import json
import os
import random
import shutil
import subprocess
import urllib.request
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fastcoder_lsp.completion.question import Policy
from fastcoder_lsp.completion.service import CompletionService
from fastcoder_lsp.config import Settings
from fastcoder_lsp.core import CompletionRequest, Progress, Snapshot
from fastcoder_lsp.decode.stop import stop_rule
from fastcoder_lsp.http.infill import InfillRequest, answer_of
from fastcoder_lsp.postprocess import TextAround, finish
from fastcoder_lsp.prompt.context import GivenExtras
from fastcoder_lsp.remote.client import Timeouts
from fastcoder_lsp.runtime.load import load_model, make_runtime
from fastcoder_lsp.runtime.parts import Model, Runtime, WorkspaceView
from fastcoder_lsp.workspace.secret_lines import without_secrets
from tests.examples import examples
from tests.http.toy_server import LETTERS, ToyServer
from tests.opened import until
from tests.remote.front import Front, Fronts
from tests.remote.scripted_server import LlamaServer, Serve

PLACES = examples(200)
PATIENT_S = 600.0
"""However busy the machine is."""
TEXTS = tuple(
    text
    for path in sorted(Path(__file__).parents[2].glob("fastcoder_lsp/[cdlpw]*/*.py"))
    if (text := path.read_text()).isascii() and len(text) > 2000
)
Place = tuple[str, str]
"""The text before the cursor, and after it."""


def places(number: int, longest: int = 7000, seed: int = 11) -> Iterator[Place]:
    """Places in real files, half of them at the end of a line, each with what follows taken out for a while.

    No file comes twice before each has come once: a real model's prompt depends on what was asked of a text before.
    """
    dice, files = random.Random(seed), list[str]()
    while number:
        files = files or dice.sample(TEXTS, len(TEXTS))
        text = files.pop()[:longest]
        at = dice.randrange(len(text) // 4, len(text) - 200)
        at = at if number % 2 else text.index("\n", at)
        end = text.find("\n", at + dice.randrange(1, 120))
        # What looks like a secret is not sent, so that there a server sees less.
        if end > at and text[at - 40 : at].strip() and without_secrets(text, "python") == text:
            number -= 1
            yield text[:at], text[end:]


def follows(before: str) -> str:
    """What stands behind this text in the file that it is of."""
    tail = before[-200:]
    whole = next(text for text in TEXTS if tail in text)
    return whole[whole.index(tail) + len(tail) :][:180]


def by_editor(asking: CompletionService, before: str, after: str, uri: str) -> str:
    """The text that an editor gets, as clients that only insert would have it."""
    snapshot = Snapshot(uri, uri.removeprefix("file://"), "python", 1, before + after)
    completion = asking.submit(CompletionRequest(snapshot, len(before)), Policy(ahead=False)).result(PATIENT_S)
    return answer_of(InfillRequest(before, after), completion).text


def by_infill(server: ToyServer, before: str, after: str) -> str:
    line = before.rfind("\n") + 1
    body = {"input_prefix": before[:line], "prompt": before[line:], "input_suffix": after, "language": "python"}
    code, reply = server.call("/infill", body)
    assert code == 200
    return str(reply["content"])


def by_openai(server: ToyServer, before: str, after: str) -> str:
    body = {"prompt": before, "suffix": after, "language": "python", "temperature": 0}
    code, reply = server.call("/v1/completions", body)
    assert code == 200
    return str(reply["choices"][0]["text"])


def by_marks(server: ToyServer, before: str, after: str) -> str:
    prompt = f"<|fim_prefix|>{before}<|fim_suffix|>{after}<|fim_middle|>"
    code, reply = server.call("/completion", {"prompt": prompt, "language": "python"})
    assert code == 200
    return str(reply["content"])


def agree(server: ToyServer, asking: CompletionService, local: CompletionService, chosen: Iterable[Place]) -> set[str]:
    """The texts of some places, all ways giving the same ones."""
    texts = set[str]()
    for count, (before, after) in enumerate(chosen):
        uri = f"file:///w/{count}.py"
        text = by_editor(local, before, after, uri)
        for way in (by_infill, by_openai, by_marks):
            assert way(server, before, after) == text, (way, before[-80:], after[:40])
        assert by_editor(asking, before, after, uri) == text, (before[-80:], after[:40])
        texts.add(text)
    return texts


def test_a_scripted_model(front: Fronts) -> None:
    server = ToyServer(follows)
    other = ToyServer(follows)
    local = CompletionService(other.open)
    # As many as the server says by itself: an answer of another greatest length is another one.
    asking = front(f"http://127.0.0.1:{server.port}", completion_max_tokens=LETTERS)
    try:
        texts = agree(server, asking.service, local, places(PLACES))
        assert len(texts) > PLACES // 2, "it says something, and hardly ever the same"
    finally:
        local.shutdown()
        server.close()
        other.close()


def test_llama_cpps_scripted(serve: Serve, front: Fronts) -> None:
    """All of the places: streamed to the front, and the server asked directly, which knows no end."""
    server = serve(LlamaServer(follows))
    asking = front(server.url, completion_max_tokens=LETTERS)
    assert compared(server.url, asking, PLACES) > PLACES // 2


def compared(url: str, asking: Front, number: int) -> int:
    """How many texts there were, all of them what the server says when it is asked at once for all of it."""
    texts = set[str]()
    for count, (before, after) in enumerate(places(number)):
        uri = f"file:///w/{count}.py"
        text = by_editor(asking.service, before, after, uri)
        line = before.rfind("\n") + 1
        cut_after = after[:3000]
        if len(cut_after) < len(after):
            cut_after = cut_after[: cut_after.rindex("\n") + 1]
        body: dict[str, Any] = {"input_prefix": before[:line], "prompt": before[line:], "input_suffix": cut_after}
        body |= {"n_predict": LETTERS, "temperature": 0.0, "stream": False, "cache_prompt": True}
        raw, ended = directly(url, body)
        end = stop_rule(before, after, "python").cut(raw)
        if end is None and not ended:
            continue  # cut by its length: what is shown of that is the front's own choice
        shown = finish(raw if end is None else raw[:end], TextAround(before, after, "python"))
        completion = InfillRequest(before, after)
        expected = answer_of(completion, asking_for(before, after, shown)).text
        assert text == expected, (before[-80:], after[:40])
        texts.add(text)
    return len(texts)


def asking_for(before: str, after: str, text: str) -> Any:
    """`text` as a completion that replaces what it writes over."""
    from fastcoder_lsp.core import Completion
    from fastcoder_lsp.postprocess import covered

    over = covered(text, TextAround(before, after, "python")) if text else 0
    return Completion(text, len(before), len(before) + over)


def directly(url: str, body: dict[str, Any]) -> tuple[str, bool]:
    """What the server says without a front, and whether it came to an end of its own."""
    asked = urllib.request.Request(f"{url}/infill", json.dumps(body).encode(), {"content-type": "application/json"})
    with urllib.request.urlopen(asked, timeout=PATIENT_S) as reply:
        value = json.load(reply)
    return value["content"], value["stop_type"] != "limit"


SETTINGS = replace(Settings(), drafter="lookup")


class RealServer(ToyServer):
    """The real model behind the real server."""

    def _load(self, progress: Progress) -> Model:
        return load_model(SETTINGS, progress, datastore=False)

    def _runtime(self, model: Model) -> Runtime:
        return make_runtime(model, SETTINGS, WorkspaceView(context=GivenExtras()), str(next(self._numbers)))


@pytest.mark.model
@pytest.mark.ci
def test_the_real_model(front: Fronts) -> None:
    server = RealServer("", answer_s=PATIENT_S)
    local = CompletionService(server.open)
    try:
        asking = front(f"http://127.0.0.1:{server.port}", timeouts=Timeouts(read_s=PATIENT_S))
        texts = agree(server, asking.service, local, places(4, 2500))
        assert len(texts) > 1
    finally:
        local.shutdown(10.0)
        server.close()


@pytest.mark.long
def test_llama_server(front: Fronts) -> None:
    """All of them, where FASTCODER_LLAMA_SERVER and FASTCODER_LLAMA_GGUF name llama.cpp's own server and a model."""
    program = os.environ.get("FASTCODER_LLAMA_SERVER") or shutil.which("llama-server")
    gguf = os.environ.get("FASTCODER_LLAMA_GGUF")
    if not program or not gguf:
        pytest.skip("llama-server is absent: FASTCODER_LLAMA_SERVER and FASTCODER_LLAMA_GGUF name none")
    port = "18012"
    process = subprocess.Popen([program, "-m", gguf, "--port", port, "-c", "8192", "--parallel", "1"])
    url = f"http://127.0.0.1:{port}"
    try:
        until(lambda: process.poll() is not None or _healthy(url))
        patient = Timeouts(read_s=PATIENT_S)  # two cores read a long prompt for half a minute
        assert compared(url, front(url, timeouts=patient, completion_max_tokens=LETTERS), PLACES) > PLACES // 2
    finally:
        process.terminate()
        process.wait(20)


def _healthy(url: str) -> bool:
    try:
        with urllib.request.urlopen(f"{url}/health", timeout=5) as reply:
            return bool(reply.status == 200)
    except OSError:
        return False
