"""An update under a server that runs is told once: by the package's own file, as package managers write it."""

import os
import shutil
import sys
from pathlib import Path

import fastcoder_lsp
from fastcoder_lsp.lsp.updates import InstalledVersion
from tests.lsp.raw_client import running


def install(file: Path, version: str) -> None:
    """As installers do: another file in the same place."""
    new = file.with_name("new")
    new.write_text(f'"""The package."""\n\n__version__ = "{version}"\n')
    new.replace(file)


def test_another_version_is_told_once(tmp_path: Path) -> None:
    file = tmp_path / "__init__.py"
    install(file, "1.0")
    installed = InstalledVersion(file, "1.0")
    assert installed.news() is None
    install(file, "1.0")  # the same once more
    assert installed.news() is None
    file.unlink()
    assert installed.news() is None
    install(file, "1.1")
    told = installed.news()
    assert told is not None
    assert "1.1 is installed" in told
    assert "1.0 is running" in told
    assert installed.news() is None
    install(file, "1.2.dev1")
    assert "1.2.dev1" in (installed.news() or "")
    file.write_text("no version")
    assert installed.news() is None


async def test_who_opens_a_file_is_told(tmp_path: Path) -> None:
    """The real server, whose package is exchanged under it."""
    copy = tmp_path / "fastcoder_lsp"
    shutil.copytree(
        Path(fastcoder_lsp.__file__).parent, copy, ignore=shutil.ignore_patterns("*.nb[ic]", "bench", "train")
    )
    serve = (sys.executable, "-P", "-m", "fastcoder_lsp.cli.main", "serve")
    environment = {**os.environ, "PYTHONPATH": str(tmp_path), "FASTCODER_CACHE": str(tmp_path / "cache")}
    async with running(command=serve, environment=environment) as client:
        await client.initialize(initializationOptions={"enabled": False})
        client.open("file:///a.py", "x = 1\n")
        await client.call("fastcoder/stats", {})
        install(copy / "__init__.py", "9.9.9")
        for name in ("b", "c"):
            client.open(f"file:///{name}.py", "x = 1\n")
        await client.call("fastcoder/stats", {})
        [told] = client.notices()
        assert "version 9.9.9 is installed" in told
