#!/usr/bin/env python3
"""Fetch the sources of public packages, as repositories for `fastcoder-lsp bench quality --suites api,lines`.

    scripts/fetch_repositories.py FOLDER            then: export FASTCODER_DATA=FOLDER

Each goes to FOLDER/repositories/NAME-VERSION. They come through pip (as wheels: nothing of theirs is run) and npm (as
packed); each has its own licence inside. What is there already is not fetched again.
"""

import argparse
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

PYPI = (
    *("httpx==0.28.1", "starlette==0.41.3", "rich==13.9.4", "scrapy==2.12.0"),
    *("mkdocs==1.6.1", "trio==0.27.0", "pytest==8.3.4", "textual==1.0.0"),
)
NPM = ("rxjs@7.8.2", "mobx@6.13.5", "msw@2.7.0", "@reduxjs/toolkit@2.5.0", "zod@3.25.76", "@tanstack/query-core@5.64.1")
CODE = (".py", ".ts", ".tsx")
LARGEST = 300_000
_LEFT_OUT = (".d.ts", "_pb2.py", ".min.js")


def main() -> int:
    """Fetch everything; 1 where a tool or the network is not there."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="where the data goes; made if it does not exist")
    target: Path = parser.parse_args().folder / "repositories"
    pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary", ":all:"]
    try:
        for name in PYPI:
            fetch(target / name.replace("==", "-"), [*pip, name])
        for name in NPM:
            fetch(target / name.replace("@", "-").strip("-").replace("/", "-"), ["npm", "pack", "--silent", name])
    except (subprocess.CalledProcessError, FileNotFoundError) as error:
        print(f"fetch_repositories: {error}\nnpm and pip must be there, and a network.", file=sys.stderr)
        return 1
    print(f"Done. Now: export FASTCODER_DATA={target.parent.absolute()}")
    return 0


def fetch(target: Path, command: list[str]) -> None:
    """Run `command` in a folder of its own, and keep the code and the licences of the archive that it leaves there."""
    if target.exists():
        return
    with tempfile.TemporaryDirectory() as scratch:
        subprocess.run(command, cwd=scratch, check=True, stdout=sys.stderr)
        for name, content in members(next(Path(scratch).iterdir())):
            path = PurePosixPath(name)
            if not path.is_absolute() and ".." not in path.parts:
                place = target / path
                place.parent.mkdir(parents=True, exist_ok=True)
                place.write_bytes(content)


def members(archive: Path) -> Iterator[tuple[str, bytes]]:
    """(name, content) of the code and the licences in a wheel or a packed npm package."""
    if archive.suffix == ".whl":
        with zipfile.ZipFile(archive) as wheel:
            for info in wheel.infolist():
                if wanted(info.filename, info.file_size):
                    yield info.filename, wheel.read(info)
        return
    with tarfile.open(archive) as tar:
        for entry in tar:
            content = tar.extractfile(entry) if entry.isfile() and wanted(entry.name, entry.size) else None
            if content is not None:
                yield entry.name.partition("/")[2], content.read()


def wanted(name: str, size: int) -> bool:
    """Whether a file of an archive is code that somebody wrote, or a licence."""
    code = name.endswith(CODE) and not name.endswith(_LEFT_OUT)
    return size <= LARGEST and (code or PurePosixPath(name).name.upper().startswith("LICENSE"))


if __name__ == "__main__":
    sys.exit(main())
