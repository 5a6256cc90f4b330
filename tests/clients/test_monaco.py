"""Monaco with vscode-languageclient 9 in a browser. scripts/test-clients fetches and bundles both."""

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.editors.conftest import ROOT, put_scripted_on_path

pytestmark = pytest.mark.ci

Json = dict[str, Any]
FOLDER = ROOT / ".scratch/clients/monaco"
BEFORE = "class A:\n    def f(self):\n        "
KEYS = "x = f"
SAYS = "(\n            1,\n        )"  # no typed letter is its first one: it fits after the last key alone
SETTINGS = {
    "by itself": {"budget": {"automatic_ms": 30_000}},
    "by key": {"budget": {"invoked_ms": 30_000}, "quiet": {"mode": "invoked"}},
    "menu": {"popup": {"enabled": True, "budget_ms": 20_000}},
}
CANCELLED = -32800


def scenario(name: str) -> Json:
    run = "editor.action.inlineSuggest.trigger" if name == "by key" else None
    ghost = "yes" if name != "menu" else None
    return {"ghost": ghost, "settings": SETTINGS[name], "text": BEFORE, "keys": KEYS, "run": run}


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Json]:
    """All scenarios, in one browser."""
    browsers = (shutil.which(name) for name in ("chromium", "chromium-browser", "google-chrome"))
    chromium, node = next(filter(None, browsers), None), shutil.which("node")
    if chromium is None or node is None or not (FOLDER / "out/page.js").exists():
        pytest.skip("Monaco absent: scripts/test-clients fetches it, and needs chromium")
    with pytest.MonkeyPatch.context() as patch:
        put_scripted_on_path(tmp_path_factory.mktemp("monaco"), patch, "--says", SAYS)
        driver = str(Path(__file__).parent / "monaco/drive.mjs")
        scenarios = json.dumps([scenario(name) for name in SETTINGS])
        command = [node, driver, str(FOLDER), chromium, scenarios]
        done = subprocess.run(command, capture_output=True, text=True, timeout=280, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    return dict(zip(SETTINGS, json.loads(done.stdout), strict=True))


def inline_answers(wire: list[Json]) -> list[tuple[int, int]]:
    """The trigger of each question that was answered, and the number of items."""
    found = {message["id"]: message["result"] for message in wire if "result" in message}
    asked = [message for message in wire if message.get("method") == "textDocument/inlineCompletion"]
    return [
        (message["params"]["context"]["triggerKind"], len((found[message["id"]] or {"items": ()})["items"]))
        for message in asked
        if message["id"] in found
    ]


@pytest.mark.parametrize("name", SETTINGS)
def test_monaco_inserts_the_suggestion(seen: dict[str, Json], name: str) -> None:
    assert seen[name]["text"] == BEFORE + KEYS + SAYS
    errors = [message["error"] for message in seen[name]["wire"] if "error" in message]
    assert [error for error in errors if error["code"] != CANCELLED] == []
    assert [error for error in seen[name]["errors"] if error != "Canceled: Canceled"] == []  # Monaco's own questions


def test_typing_and_the_key_are_told_apart(seen: dict[str, Json]) -> None:
    typed = inline_answers(seen["by itself"]["wire"])
    assert {kind for kind, _ in typed} == {1}
    assert any(items for _, items in typed)
    answers = inline_answers(seen["by key"]["wire"])
    assert {kind for kind, items in answers if items} == {0}
    assert {kind for kind, items in answers if not items} == {1}
