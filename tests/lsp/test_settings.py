"""Settings over the wire: where they come from, which is stronger, and what a repository may not set."""

from pathlib import Path
from typing import Any

import pytest

from tests.lsp.raw_client import Json, RawClient, initialized, running

PULLS: Json = {"textDocument": {"inlineCompletion": {}}, "workspace": {"configuration": True}}


async def suggests(client: RawClient, language: str) -> bool:
    uri = f"untitled:{language}"
    client.open(uri, "x = ", language)
    return bool(await client.inline(uri, 0, 4))


async def suggests_in(client: RawClient, file: Path, language: str = "python") -> bool:
    client.open(file.as_uri(), "x = ", language)
    return bool(await client.inline(file.as_uri(), 0, 4))


async def test_each_place_is_stronger_than_the_one_before(tmp_path: Path) -> None:
    (tmp_path / "fastcoder.toml").write_text('[languages]\ninclude = ["toml"]\n')
    file = tmp_path / "a"
    async with initialized(rootUri=tmp_path.as_uri()) as client:
        assert await suggests_in(client, file, "toml")
        assert not await suggests_in(client, file, "python")
    async with running() as client:
        options = {"languages": {"include": ["init"]}}
        await client.initialize(rootUri=tmp_path.as_uri(), initializationOptions=options)
        assert await suggests_in(client, file, "init")
        assert not await suggests_in(client, file, "toml")
    async with running() as client:
        client.settings = {"languages": {"include": ["pulled"]}}
        await client.initialize(rootUri=tmp_path.as_uri(), initializationOptions=options, capabilities=PULLS)
        await client.until(lambda: client.asked)
        assert await suggests_in(client, file, "pulled")
        assert not await suggests_in(client, file, "init")
        client.notify(
            "workspace/didChangeConfiguration", {"settings": {"fastcoder": {"languages.include": ["pushed"]}}}
        )
        assert await suggests_in(client, file, "pushed")
        assert not await suggests_in(client, file, "pulled")


async def test_null_in_did_change_configuration_means_ask_again() -> None:
    """As VS Code does it."""
    async with running() as client:
        client.settings = {"enabled": True}
        await client.initialize(capabilities=PULLS)
        assert await suggests(client, "python")
        client.settings = {"enabled": False}
        client.notify("workspace/didChangeConfiguration", {"settings": None})
        await client.until(lambda: client.statuses()[-1] == "off")
        assert not await suggests(client, "python")


async def test_folders_have_settings_of_their_own(tmp_path: Path) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    for folder in (one, two):
        folder.mkdir()
    (one / "fastcoder.toml").write_text('languages.exclude = ["python"]\n')

    def settings(scope: str | None) -> Json:
        return {"languages": {"exclude": ["rust"]}} if scope == two.as_uri() else {}

    async with running() as client:
        client.settings = settings
        folders = [{"uri": folder.as_uri(), "name": folder.name} for folder in (one, two)]
        await client.initialize(workspaceFolders=folders, capabilities=PULLS)
        await client.until(lambda: client.asked)
        assert not await suggests_in(client, one / "a.py")
        assert await suggests_in(client, two / "a.py")
        assert await suggests_in(client, one / "a.rs", "rust")
        assert not await suggests_in(client, two / "a.rs", "rust")
        client.notify("workspace/didChangeWorkspaceFolders", {"event": {"added": [], "removed": folders[:1]}})
        assert await suggests_in(client, one / "a.py")
        client.notify("workspace/didChangeWorkspaceFolders", {"event": {"added": folders[:1], "removed": []}})
        assert not await suggests_in(client, one / "a.py")


async def test_a_saved_or_changed_settings_file_holds_at_once(tmp_path: Path) -> None:
    settings, code = tmp_path / "fastcoder.toml", tmp_path / "a.py"
    async with running() as client:
        capabilities = {"workspace": {"didChangeWatchedFiles": {"dynamicRegistration": True}}}
        await client.initialize(rootUri=tmp_path.as_uri(), capabilities=capabilities)
        await client.until(lambda: client.asked)
        assert await suggests_in(client, code)
        settings.write_text("enabled = false\n")
        client.notify("textDocument/didSave", {"textDocument": {"uri": settings.as_uri()}})
        assert not await suggests_in(client, code)
        settings.unlink()
        client.notify("workspace/didChangeWatchedFiles", {"changes": [{"uri": settings.as_uri(), "type": 3}]})
        assert await suggests_in(client, code)


EVIL: Json = {"model": "/evil/model", "log.file": "/evil/log", "engine": "cpu-fp32", "threads": 64}


async def refused(client: RawClient) -> None:
    """The one allowed model was asked for, and the user was told of each setting that was not taken."""
    assert await suggests(client, "python")
    told = "\n".join(client.notices())
    assert all(name in told for name in EVIL)
    assert "error" not in client.statuses()


async def test_a_repositorys_file_names_no_model_and_no_path(tmp_path: Path) -> None:
    (tmp_path / "fastcoder.toml").write_text("".join(f'"{name}" = {value!r}\n' for name, value in EVIL.items()))
    async with initialized(rootUri=tmp_path.as_uri()) as client:
        await refused(client)


async def test_what_an_editor_read_from_a_repository_names_no_model_neither() -> None:
    """Emacs reads `.dir-locals.el`, VS Code `.vscode/settings.json`, and the server cannot see it."""
    async with running() as client:
        client.settings = EVIL
        await client.initialize(capabilities=PULLS)
        await client.until(client.notices)
        await refused(client)
    async with initialized() as client:
        client.notify("workspace/didChangeConfiguration", {"settings": {"fastcoder": EVIL}})
        await refused(client)


@pytest.mark.parametrize("way", ["initializationOptions", "pulled", "pushed"])
async def test_the_users_own_settings_name_a_model(way: str) -> None:
    """In `initializationOptions`; by the other ways where the client keeps the machine's settings from a repository."""
    settings = {"model": "the/users"}
    async with running() as client:
        client.settings = settings if way == "pulled" else None
        options = settings if way == "initializationOptions" else {"client": {"protectsMachineSettings": True}}
        await client.initialize(capabilities=PULLS, initializationOptions=options)
        await client.until(lambda: client.asked)
        if way == "pushed":
            client.notify("workspace/didChangeConfiguration", {"settings": {"fastcoder": settings}})
        assert not await suggests(client, "python")
        [notice] = client.notices()
        assert "the/users" in notice
        assert "fastcoder-lsp model pull" in notice
        assert client.statuses()[-1] == "error"


async def test_wrong_values_are_reported_once_and_defaulted(tmp_path: Path) -> None:
    (tmp_path / "fastcoder.toml").write_text("popup = 5\nno_such = 1\n")
    async with running() as client:
        options = {"popup.budget_ms": "quick", "languages": {"exclude": ["sql"]}, "client": {"commandSuffix": 7}}
        await client.initialize(rootUri=tmp_path.as_uri(), initializationOptions=options)
        for _ in range(3):
            client.notify("workspace/didChangeConfiguration", {"settings": {"fastcoder": {"popup.budget_ms": 0}}})
        assert not await suggests(client, "sql")
        assert await suggests(client, "python")
        [started, pushed] = client.notices()
        assert started.count("\n") == 3
        assert all(f" {name}: " in started for name in ("popup", "no_such", "popup.budget_ms"))
        assert pushed.count("\n") == 1
        assert " popup.budget_ms: " in pushed


@pytest.mark.ci
@pytest.mark.parametrize("options", [None, [], "text", 5, {"fastcoder": []}, {"client": "x"}, {"fastcoder": None}])
async def test_odd_initialization_options_cost_nothing(options: Any) -> None:
    async with initialized(initializationOptions=options) as client:
        assert await suggests(client, "python")


@pytest.mark.ci
@pytest.mark.parametrize("answer", [None, 5, [], "x"])
async def test_odd_answers_to_workspace_configuration_cost_nothing(answer: Any) -> None:
    async with running() as client:
        client.settings = answer
        await client.initialize(capabilities=PULLS)
        await client.until(lambda: client.asked)
        assert await suggests(client, "python")


@pytest.mark.parametrize("content", [b"\xff", b"a = [", b"a" * 200_000, b"a=1\n" * 2])
async def test_a_broken_settings_file_is_reported(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "fastcoder.toml").write_bytes(content)
    async with initialized(rootUri=tmp_path.as_uri()) as client:
        assert await suggests_in(client, tmp_path / "a.py")
        [notice] = client.notices()
        assert "fastcoder.toml" in notice


async def test_settings_of_other_servers_are_none_of_ours() -> None:
    """A client that pushes everything it has, or is configured for Copilot, is not told of each name."""
    copilot = {"editorInfo": {"name": "neovim", "version": "0.11"}, "editorPluginInfo": {"name": "x", "version": "1"}}
    async with initialized(initializationOptions=copilot) as client:
        everything = {"settings": {"python": {"path": "x"}, "editor.tabSize": 4, "languages": {"exclude": ["sql"]}}}
        client.notify("workspace/didChangeConfiguration", everything)
        assert not await suggests(client, "sql")
        assert client.notices() == []
