"""Settings over the wire: where they come from, which is stronger, and what a repository may not set."""

import asyncio
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.lsp.raw_client import WAIT_S, Json, RawClient, initialized, running

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


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The user's own settings file, which does not exist yet."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    file = tmp_path / "config" / "fastcoder" / "fastcoder.toml"
    file.parent.mkdir(parents=True)
    return file


async def test_the_users_own_file_is_weaker_than_a_folders(own: Path, tmp_path: Path) -> None:
    save_again(own, 'languages.exclude = ["sql"]\nwhere.comments = "never"\nread.max_line_length = 90\n')
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "fastcoder.toml").write_text('where.comments = "always"\nread.max_line_length = 200\n')
    async with initialized(rootUri=folder.as_uri()) as client:
        assert await suggests_in(client, folder / "a.py")
        assert not await suggests_in(client, folder / "a.sql", "sql")
        client.open((folder / "b.py").as_uri(), "# say ", "python")
        assert not await client.inline((folder / "b.py").as_uri(), 0, 6), "a folder loosens no rule of the user's"
        client.open((folder / "c.py").as_uri(), "x = " + "y" * 100, "python")
        assert not await client.inline((folder / "c.py").as_uri(), 0, 4)
        [notice] = client.notices()
        assert notice.count("may only make it stricter than") == 2, "and the user is told so"


async def test_the_users_own_file_names_a_model(own: Path) -> None:
    save_again(own, 'model = "the/users"\n')
    async with initialized() as client:
        assert not await suggests(client, "python")
        [notice] = client.notices()
        assert "the/users" in notice


def save_again(file: Path, text: str, mode: int = 0o600) -> None:
    """Delete a file, and write it anew."""
    file.unlink(missing_ok=True)
    file.write_text(text)
    file.chmod(mode)


def turn_into_pipe(file: Path) -> None:
    file.unlink()
    os.mkfifo(file)


async def until_suggested(client: RawClient, uri: str, *, wanted: bool) -> None:
    """Ask until there is a suggestion in an open document, or none."""

    async def asked() -> None:
        while bool(await client.inline(uri, 0, 4)) != wanted:
            pass

    await asyncio.wait_for(asked(), WAIT_S)


def replaced(file: Path, text: str) -> None:
    """Save as editors do: a new file takes the name."""
    (file.parent / "new").write_text(text)
    (file.parent / "new").replace(file)


def linked(file: Path, text: str) -> None:
    """Save through a link, as where the file is kept with others."""
    (file.parent / "elsewhere.toml").write_text(text)
    file.unlink(missing_ok=True)
    file.symlink_to(file.parent / "elsewhere.toml")


@pytest.mark.parametrize("whose", ["own", "folder"])
@pytest.mark.parametrize("save", [Path.write_text, replaced, linked])
async def test_a_file_is_read_again_while_the_server_runs(own: Path, tmp_path: Path, whose: str, save: Any) -> None:
    """Without a word from the client: broken it keeps its last valid values, and the error is said at once."""
    folder = tmp_path / "folder"
    folder.mkdir()
    file = own if whose == "own" else folder / "fastcoder.toml"
    off, broken = 'languages.exclude = ["python"]\n', "\nenabled = flase\n"
    code = folder / "a.py"
    async with initialized(rootUri=folder.as_uri()) as client:
        assert await suggests_in(client, code)
        save(file, off)
        await until_suggested(client, code.as_uri(), wanted=False)
        save(file, broken)
        await client.until(client.notices)
        assert f"{file}:2: The file is not valid TOML" in client.notices()[0]
        assert not await suggests_in(client, code)
        save(file, off + "no_such = 1\n")
        await client.until(lambda: len(client.notices()) == 2)
        assert f"{file}:2: no_such: unknown setting" in client.notices()[1]
        save(file, broken)
        await client.until(lambda: len(client.notices()) == 3)
        file.unlink()
        await until_suggested(client, code.as_uri(), wanted=True)


@pytest.mark.skipif(sys.platform == "win32", reason="pipes and rights of Unix")
async def test_a_file_that_cannot_be_read_keeps_its_settings(own: Path) -> None:
    save_again(own, 'languages.exclude = ["python"]\n')
    async with initialized() as client:
        assert not await suggests(client, "python")
        turn_into_pipe(own)
        await client.until(client.notices)
        assert "cannot be read: not a regular file" in client.notices()[0]
        assert not await suggests(client, "python")
        save_again(own, 'languages.exclude = ["sql"]\n', 0o666)
        await client.until(lambda: len(client.notices()) == 2)
        assert f"Other users can write the file. Run: chmod o-w {own}. Until then" in client.notices()[1]
        save_again(own, 'languages.exclude = ["sql"]\n')
        await until_suggested(client, "untitled:python", wanted=True)
        assert not await suggests(client, "sql")


@pytest.mark.parametrize("broken", ["enabled = flase\n", "no_such = 1\nlog.level = 7\n"])
async def test_a_corrected_file_is_told_once(own: Path, tmp_path: Path, broken: str) -> None:
    """Who has read of an error wants to know that it is gone; who has read of none is told nothing."""
    folder = tmp_path / "folder"
    folder.mkdir()
    file = folder / "fastcoder.toml"
    async with initialized(rootUri=folder.as_uri()) as client:

        async def saved(text: str) -> list[str]:
            file.write_text(text)
            client.notify("textDocument/didSave", {"textDocument": {"uri": file.as_uri()}})
            await client.call("fastcoder/stats")
            return [notice for notice in client.notices() if "no error" in notice]

        assert await saved("popup.enabled = true\n") == []
        assert await saved(broken) == []
        file.unlink()  # as some editors do between two saves
        client.notify("textDocument/didSave", {"textDocument": {"uri": file.as_uri()}})
        for text in ("popup.enabled = true\n", "popup.enabled = false\n"):
            assert await saved(text) == [f"fastcoder: {file}: The file has no error any more. Its settings apply."]
        save_again(own, broken)
        await client.until(lambda: str(own) in client.notices()[-1])
        save_again(own, "")
        await client.until(
            lambda: client.notices()[-1] == f"fastcoder: {own}: The file has no error any more. Its settings apply."
        )
        assert await saved(broken + "\n") == await saved(broken)
        assert len(await saved("")) == 3, "each time after an error"


async def test_a_setting_that_needs_a_restart_is_named(own: Path) -> None:
    async with initialized() as client:
        save_again(own, "host.linger_s = 5\n")
        await client.until(client.notices)
        assert "`host.linger_s` applies to the next shared process" in client.notices()[0]


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


async def test_settings_that_an_editor_read_cannot_name_a_model() -> None:
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


async def test_a_wrong_value_that_is_left_is_told_again(tmp_path: Path) -> None:
    file = tmp_path / "fastcoder.toml"
    file.write_text("popup = 5\nno_such = 1\nnor_this = 1\n")
    async with initialized(rootUri=tmp_path.as_uri()) as client:
        file.write_text("popup = 5\n")
        await client.until(lambda: len(client.notices()) > 1)
        assert [notice.count(" popup: ") for notice in client.notices()] == [1, 1]
        assert "no_such" not in client.notices()[1]


async def test_a_misspelt_language_is_told_with_the_nearest(tmp_path: Path) -> None:
    (tmp_path / "fastcoder.toml").write_text(
        "[languages.pyton.quiet]\nlines = 1\n[languages.mylang.quiet]\nlines = 2\n"
    )
    async with initialized(
        rootUri=tmp_path.as_uri(), initializationOptions={"languages.include": ["Python"]}
    ) as client:
        await client.until(client.notices)
        [notice] = client.notices()
        assert notice.count("did you mean python?") == 2
        assert "mylang" not in notice


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
