#!/usr/bin/env python3
"""Fetch the public sources of the benchmarks into one folder, in the form that `fastcoder-lsp bench` reads.

    scripts/fetch_data.py FOLDER            then: export FASTCODER_DATA=FOLDER

HumanEval infilling comes from openai/human-eval-infilling (MIT), RepoEval from RepoCoder in microsoft/CodeT (MIT; each
repository inside has its own licence). Nothing else is contacted. A file that is there already is not fetched again.
"""

import argparse
import io
import json
import sys
import tarfile
import urllib.error
import urllib.request
import zipfile
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Any

INFILLING = "https://github.com/openai/human-eval-infilling/raw/master/data/HumanEval-{}.jsonl.gz"
INFILLING_SETS = ("SingleLineInfilling", "MultiLineInfilling", "RandomSpanInfillingLight")
REPOEVAL = "https://github.com/microsoft/CodeT/raw/main/RepoCoder/"
REPOEVAL_TASKS = "function_level_completion_2k_context_codex.test.jsonl"


def main() -> int:
    """Fetch everything; 1 with a line of what to do where a source can't be reached."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="where the data goes; made if it does not exist")
    folder: Path = parser.parse_args().folder
    try:
        fetch_infilling(folder / "humaneval_infilling")
        fetch_repoeval(folder / "repoeval")
    except urllib.error.URLError as error:
        print(
            f"fetch_data: the source could not be reached: {error.reason}\nTry again with a network.", file=sys.stderr
        )
        return 1
    print(f"Done. Now: export FASTCODER_DATA={folder.absolute()}")
    return 0


def fetch_infilling(folder: Path) -> None:
    """The three sets of HumanEval infilling, as published."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in INFILLING_SETS:
        target = folder / f"HumanEval-{name}.jsonl.gz"
        if not target.exists():
            _replace(target, _download(INFILLING.format(name)))


def fetch_repoeval(folder: Path) -> None:
    """RepoEval's function level: the repositories' Python files, and where each body to complete stands."""
    if (folder / "tasks.jsonl").exists():
        return
    folder.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(io.BytesIO(_download(REPOEVAL + "repositories/function_level.zip"))) as archive:
        sources = {name: archive.read(name) for name in archive.namelist() if name.endswith((".py", "LICENSE"))}
    with zipfile.ZipFile(io.BytesIO(_download(REPOEVAL + "datasets/datasets.zip"))) as archive:
        member = next(name for name in archive.namelist() if PurePosixPath(name).name == REPOEVAL_TASKS)
        rows = [json.loads(line) for line in archive.read(member).splitlines()]
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as tar:
        for name, content in sorted(sources.items()):
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            tar.addfile(entry, io.BytesIO(content))
    _replace(folder / "repos.tar.gz", packed.getvalue())
    lines = [json.dumps(task) for task in tasks(rows, sources)]
    _replace(folder / "tasks.jsonl", ("\n".join(lines) + "\n").encode())


def tasks(rows: list[dict[str, Any]], sources: dict[str, bytes]) -> Iterator[dict[str, Any]]:
    """RepoCoder's rows as {id, repo, path, function, start, end}: the body is characters start:end of the file.

    A row whose body does not stand in its file exactly once from its line on is left out.
    """
    for number, row in enumerate(rows):
        metadata = row["metadata"]
        repository, *parts = metadata["fpath_tuple"]
        text = sources.get("/".join((repository, *parts)), b"").decode("utf-8", errors="replace")
        above = sum(len(line) for line in text.splitlines(keepends=True)[: metadata["line_no"]])
        start = text.find(metadata["ground_truth"], max(0, above - 200))
        if start >= 0:
            yield {
                "id": f"{repository}/{number}",
                "repo": repository,
                "path": "/".join(parts),
                "function": metadata.get("function_name", ""),
                "start": start,
                "end": start + len(metadata["ground_truth"]),
            }


def _download(address: str) -> bytes:
    print(f"fetching {address}", file=sys.stderr)
    with urllib.request.urlopen(address, timeout=60) as answer:  # noqa: S310 - the addresses above, all https
        content: bytes = answer.read()
    return content


def _replace(target: Path, content: bytes) -> None:
    """Write whole or not at all."""
    part = target.with_suffix(target.suffix + ".part")
    part.write_bytes(content)
    part.replace(target)


if __name__ == "__main__":
    sys.exit(main())
