"""The index as a user meets it: the commands, and the server that keeps it live."""

import asyncio
import os
import shutil
import sys
import time
from pathlib import Path
from typing import Any, cast

import pytest

from fastcoder_lsp.cli import main as command_line
from fastcoder_lsp.cli.doctor.settings import FoundSettings, check_files
from fastcoder_lsp.config import SettingsLayer, resolve
from fastcoder_lsp.index.store import Store
from fastcoder_lsp.workspace.folders import store_folder
from fastcoder_lsp.workspace.intake import Intake
from tests.faults.small_model import write_model
from tests.index import naive
from tests.index.toy_encoder import ToyEncoder
from tests.lsp.raw_client import RawClient, running


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("FASTCODER_CACHE", str(tmp_path / "cache"))
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "good.py").write_text("def alpha_beta(one):\n    return one + 1\n\n\nalpha_beta(2)\n", encoding="utf-8")
    (folder / ".env").write_text("TOKEN = very_secret_value\n", encoding="utf-8")
    return folder


@pytest.fixture
def model(tmp_path: Path) -> list[str]:
    """A model whose every token is a byte: its tokenizer is loaded at once."""
    return ["--model", str(write_model(tmp_path / "model"))]


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    code = command_line.main(arguments)
    out, err = capsys.readouterr()
    return code, out, err


def test_index_build_search_verify_clear(project: Path, model: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    (project / "left_out.py").write_text("unwanted = 1\n", encoding="utf-8")
    (project / "fastcoder.toml").write_text('read.exclude = ["left_out.py", "*.toml"]\n', encoding="utf-8")
    code, _, err = run(capsys, "index", "status", str(project), *model)
    assert code == 1
    assert "fastcoder-lsp index build" in err
    assert run(capsys, "index", "build", str(project), *model)[:2] == (0, f"{project}: 1 file, 56 tokens, 1 kB\n")
    code, out, _ = run(capsys, "index", "status", str(project), *model)
    assert code == 0
    assert "complete" in out
    for text, line in (("alpha_beta", 1), ("a_beta(", 1), ("return one +", 2), ("alpha_beta(2)\n", 6)):
        code, out, _ = run(capsys, "index", "search", text, "--folder", str(project), *model)
        assert (code, out.split(" ")[0]) == (0, f"{project / 'good.py'}:{line}:"), text
    assert run(capsys, "index", "search", "very_secret_value", "--folder", str(project), *model)[:2] == (1, "")
    assert run(capsys, "index", "verify", str(project), *model)[0] == 0
    stored = next((project.parent / "cache" / "index").rglob("*.seg"))
    content = bytearray(stored.read_bytes())
    content[-30] ^= 1
    stored.write_bytes(content)
    code, out, err = run(capsys, "index", "verify", str(project), *model)
    assert (code, "damaged" in out, "index build" in err) == (1, True, True)
    assert run(capsys, "index", "build", str(project), *model)[0] == 0
    assert run(capsys, "index", "verify", str(project), *model)[0] == 0
    assert run(capsys, "index", "clear", str(project), *model)[0] == 0
    assert run(capsys, "index", "status", str(project), *model)[0] == 1


def test_index_says_that_files_beyond_the_limit_are_left_out(
    project: Path, model: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    for limit, says in ((1, "only the first 1 file"), (1000, "")):
        (project / "fastcoder.toml").write_text(f"read.max_files = {limit}\n", encoding="utf-8")
        _, built, _ = run(capsys, "index", "build", str(project), *model)
        _, status, _ = run(capsys, "index", "status", str(project), *model)
        assert ("read.max_files" in built, "read.max_files" in status) == (bool(says), bool(says))
        assert says in built


def test_corpus_build_list_remove(project: Path, model: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(capsys, "corpus", "build", str(project), "--name", "mine", *model)[:2] == (
        0,
        "mine: 1 file, 56 tokens, 1 kB\n",
    )
    assert run(capsys, "corpus", "list")[1].startswith("mine: 56 tokens in 1 file")
    assert len(list((project.parent / "cache" / "tables").glob("*.npz"))) == 1
    assert run(capsys, "corpus", "remove", "mine")[0] == 0
    assert run(capsys, "corpus", "list")[1].startswith("No corpora yet")
    assert run(capsys, "corpus", "remove", "mine")[0] == 2
    assert run(capsys, "corpus", "build", str(project / "nowhere"), *model)[0] == 2


@pytest.mark.parametrize("command", ["index", "corpus"])
def test_a_disk_that_takes_nothing_is_a_line_and_a_hint(
    command: str,
    project: Path,
    model: list[str],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    arguments = [command, "build", str(project), *model]
    total = shutil.disk_usage(project).total
    with monkeypatch.context() as patch:
        patch.setattr(shutil, "disk_usage", lambda path: shutil._ntuple_diskusage(total, total, 0))
        code, _, err = run(capsys, *arguments)
    assert (code, "Free some space" in err, "Traceback" in err) == (6, True, False)
    assert not [path for path in (project.parent / "cache").rglob("*") if path.suffix in (".seg", ".tmp")]
    monkeypatch.setenv("FASTCODER_CACHE", str(project / "good.py" / "cache"))
    code, _, err = run(capsys, *arguments)
    assert (code, "FASTCODER_CACHE" in err, "Traceback" in err) == (6, True, False)


CAPABILITIES = {"window": {"workDoneProgress": True}}
SERVER = (sys.executable, "-m", "tests.index.indexing_server")


async def ask(client: RawClient, root: Path, file: Path, text: str, **settings: Any) -> None:
    """Open a file and ask for a suggestion, which loads the model and with it the datastore."""
    folders = [{"uri": root.as_uri(), "name": "project"}]
    params = {"processId": None, "capabilities": CAPABILITIES, "workspaceFolders": folders}
    await client.call("initialize", params | {"initializationOptions": settings})
    client.notify("initialized", {})
    item = {"uri": file.as_uri(), "languageId": "python", "version": 1, "text": text}
    client.notify("textDocument/didOpen", {"textDocument": item})
    position = {"line": 0, "character": 0}
    await client.call(
        "textDocument/inlineCompletion",
        {"textDocument": {"uri": file.as_uri()}, "position": position, "context": {"triggerKind": 1}},
    )


@pytest.mark.ci
@pytest.mark.parametrize(("drafter", "enabled"), [("none", True), ("fastcoder", False), ("fastcoder", True)])
async def test_the_index_is_kept_for_drafters_that_read_it(drafter: str, enabled: bool, tmp_path: Path) -> None:
    root, cache = tmp_path / "project", tmp_path / "cache"
    root.mkdir()
    (root / "a.py").write_text("a = 1\n", encoding="utf-8")
    place = store_folder(cache, root, "toy")
    environment = {**os.environ, "FASTCODER_CACHE": str(cache)}
    async with running(drafter, command=SERVER, environment=environment) as client:
        await ask(client, root, root / "a.py", "a = 1\n", index={"enabled": enabled})
        if drafter == "none" or not enabled:
            await asyncio.sleep(0.5)
            assert not cache.exists() or not list(cache.rglob("*.seg"))
            return
        await until_held(place, {"a.py": "a = 1\n"}, root)
        (root / "b.py").write_text("b = 2\n", encoding="utf-8")
        changes = [{"uri": (root / "b.py").as_uri(), "type": 1}]
        client.notify("workspace/didChangeWatchedFiles", {"changes": changes})
        await until_held(place, {"a.py": "a = 1\n", "b.py": "b = 2\n"}, root)
        await client.call("shutdown")
        client.notify("exit")
        assert await asyncio.wait_for(client.process.wait(), 60) == 0
    assert naive.faults(place) == []


async def test_an_index_that_is_switched_off_is_let_go(tmp_path: Path) -> None:
    root, cache = tmp_path / "project", tmp_path / "cache"
    root.mkdir()
    (root / "a.py").write_text("a = 1\n", encoding="utf-8")
    place = store_folder(cache, root, "toy")
    async with running(
        "fastcoder", command=SERVER, environment={**os.environ, "FASTCODER_CACHE": str(cache)}
    ) as client:
        await ask(client, root, root / "a.py", "a = 1\n")
        await until_held(place, {"a.py": "a = 1\n"}, root)
        client.notify("workspace/didChangeConfiguration", {"settings": {"fastcoder": {"index": {"enabled": False}}}})
        client.change((root / "a.py").as_uri(), 2, [{"text": "b = 2\n"}])
        await client.inline((root / "a.py").as_uri(), 0, 0)
        end = time.monotonic() + 60
        while not writable(place):
            assert time.monotonic() < end
            await asyncio.sleep(0.1)
        assert await client.leave() == 0


def writable(place: Path) -> bool:
    """Whether this process could write the index now."""
    store = Store.open(place, "toy")
    try:
        return store.writable
    finally:
        store.close()


async def test_reading_the_workspace_shows_progress(tmp_path: Path) -> None:
    root = tmp_path / "project"
    root.mkdir()
    for number in range(30):
        (root / f"f{number}.py").write_text(f"x = {number}\n", encoding="utf-8")
    environment = {**os.environ, "FASTCODER_CACHE": str(tmp_path / "cache")}
    async with running("fastcoder", command=SERVER, environment=environment) as client:
        await ask(client, root, root / "f0.py", "x = 0\n")

        def values() -> list[dict[str, Any]]:
            told = [message["params"] for message in client.told if message["method"] == "$/progress"]
            return [one["value"] for one in told if one["token"].startswith("fastcoder/indexing/")]

        await client.until(lambda: any(value["kind"] == "end" for value in values()))
        assert (values()[0]["kind"], values()[0]["title"]) == ("begin", "fastcoder: reading the workspace")
        assert values()[-1]["message"] == "30 files"


async def until_held(place: Path, files: dict[str, str], root: Path) -> None:
    """Wait until another process can read these files from the index."""
    wanted = {str(root / name): ToyEncoder().encode(text) for name, text in files.items()}
    end = time.monotonic() + 60
    while True:
        store = Store.open(place, "toy", reader=True)
        held = {key: tokens.tolist() for key, tokens in store.pin().files().items()}
        if held == wanted:
            return
        assert time.monotonic() < end, held
        await asyncio.sleep(0.1)


def test_the_server_and_doctor_say_what_the_limit_leaves_out(project: Path) -> None:
    (project / "fastcoder.toml").write_text("read.max_files = 1\n", encoding="utf-8")
    found, said = FoundSettings.read(SettingsLayer("options", {}, trusted=True), project), list[str]()
    root = project.resolve()
    list(Intake({root: resolve(found.layers)[0]}, {root: cast("Store", None)}, said.append).files())
    assert [text.startswith("fastcoder reads only the first 1 file of ") for text in said] == [True]
    assert check_files(project, found).state == "note"
    (project / "fastcoder.toml").unlink()
    assert check_files(project, FoundSettings.read(found.layers[-1], project)).state == "ok"
