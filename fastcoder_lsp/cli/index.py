"""`fastcoder-lsp index status|build|verify|search|clear`: inspects and maintains a workspace's datastore."""

import argparse
import sys
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from fastcoder_lsp.cli.options import at_least, chosen_settings
from fastcoder_lsp.cli.terminal import on_disk
from fastcoder_lsp.config import Settings, cache_folder
from fastcoder_lsp.config.resolve import shown
from fastcoder_lsp.core.controls import counted, raw_stream
from fastcoder_lsp.errors import FastcoderError, UsageError
from fastcoder_lsp.model.store import size_text
from fastcoder_lsp.workspace.folders import store_folder
from fastcoder_lsp.workspace.rules import ReadingRules, resolved

if TYPE_CHECKING:
    from fastcoder_lsp.index.store import Store
    from fastcoder_lsp.tokenizer import Tokenizer


LONGEST_NAME = 4096


def add_parser(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command and its actions."""
    parser = commands.add_parser(
        "index",
        help="look at, build, search and clear a workspace's index",
        description="Drafters search an index of the workspace's code. The server keeps it up to date. Use these "
        "commands to look at it, or to build it beforehand.",
        epilog="Example: fastcoder-lsp index build ~/src/project",
    )
    actions = parser.add_subparsers(title="actions", metavar="ACTION", required=True)
    _action(
        actions, "status", _status, "show the contents of the index", "Print the size and state of a folder's index."
    )
    _action(
        actions,
        "build",
        _build,
        "build the index, or bring it up to date",
        "Read the files of a folder that changed since the last time, by the server's rules, and index them.",
    )
    _action(
        actions,
        "verify",
        _verify,
        "check the index on the disk",
        "Check every stored byte of a folder's index, and its order. Exits with 1 if anything is wrong.",
    )
    search = _action(
        actions,
        "search",
        _search,
        "find a text in the index",
        "Find a text in the indexed files. Prints FILE:LINE and the text that follows, and the number of tokens at its "
        "end that drafters match. Exits with 1 if nothing is found.",
        "search 'def main(' --folder ~/src/project",
        folder=False,
    )
    search.add_argument("text", metavar="TEXT", help="the text to find")
    search.add_argument("--folder", type=Path, default=Path(), help="the workspace folder (default: the current one)")
    search.add_argument(
        "--limit", type=at_least(1), default=20, metavar="N", help="how many places to print (default: 20)"
    )
    _action(actions, "clear", _clear, "delete the index", "Delete the index of a folder, for all models.")


def _action(
    actions: "argparse._SubParsersAction[argparse.ArgumentParser]",
    name: str,
    run: Callable[[argparse.Namespace], int],
    short: str,
    long: str,
    example: str = "",
    *,
    folder: bool = True,
) -> argparse.ArgumentParser:
    text = example or f"{name} ~/src/project"
    parser: argparse.ArgumentParser = actions.add_parser(
        name, help=short, description=long, epilog=f"Example: fastcoder-lsp index {text}"
    )
    if folder:
        parser.add_argument(
            "folder", type=Path, nargs="?", default=Path(), help="the workspace folder (default: the current one)"
        )
    parser.add_argument("--model", help="the model whose tokenizer to use, as for `complete`")
    parser.set_defaults(run=run)
    return parser


def _status(arguments: argparse.Namespace) -> int:
    store, _ = _open(arguments)
    status = store.status()
    segments = ", ".join(f"{size:,}" for size in status.segments) or "none"
    print(f"folder    {status.source or _folder(arguments)}")
    print(f"stored    {status.folder}")
    print(f"files     {status.files:,}")
    print(f"tokens    {status.tokens:,}")
    print(f"segments  {len(status.segments)} ({segments} tokens)")
    print(f"bytes     {status.bytes:,} ({status.bytes / max(1, status.tokens):.2f} a token)")
    root = _folder(arguments)
    left_out = _left_out(root, _settings(arguments, root))
    print(f"state     {left_out or 'complete' if status.complete else 'not all files have been read'}")
    return 0


def _left_out(root: Path, settings: Settings) -> str:
    """A sentence about the files beyond `read.max_files`; empty where there are none."""
    rules = ReadingRules([root], settings)
    deque(rules.files(), 0)
    return rules.left_out()


def _build(arguments: argparse.Namespace) -> int:
    from fastcoder_lsp.index.store import Store

    root = _folder(arguments)
    settings = _settings(arguments, root)
    tokenizer = _tokenizer(settings)
    place = store_folder(cache_folder(), root, tokenizer.identity, settings)
    with on_disk(f"the index of {root}", place):
        store = Store.open(place, tokenizer.identity, str(root), lambda text: print(text, file=sys.stderr))
        try:
            if not store.writable:
                raise FastcoderError(
                    f"a server keeps the index of {root} up to date already", "There is nothing to do."
                )
            _bring_up_to_date(store, root, settings, tokenizer)
            status = store.status()
        finally:
            store.close()
    size = size_text(status.bytes)
    print(f"{root}: {counted(status.files, 'file')}, {counted(status.tokens, 'token')}, {size}")
    if left_out := _left_out(root, settings):
        print(left_out)
    return 0


def _bring_up_to_date(store: "Store", root: Path, settings: "Settings", tokenizer: "Tokenizer") -> None:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

    from fastcoder_lsp.index.chunks import ChunkedEncoder
    from fastcoder_lsp.workspace.intake import Intake

    intake = Intake({root: settings}, {root: store})
    columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn()
    with Progress(*columns, console=Console(file=raw_stream(sys.stderr)), transient=True) as bar:
        task = bar.add_task("listing files", total=None)
        paths = list(intake.files())
        bar.update(task, description="indexing", total=len(paths))
        intake.remove_others(paths)
        encoder = ChunkedEncoder(tokenizer)
        for _ in intake.store_all(paths, encoder, lambda done, _total: bar.update(task, completed=done), lambda: False):
            # Changed while being read: the folder's watcher, or the next build, sees it.
            pass
        bar.update(task, description="merging")
        store.seal()
        while store.merge():
            pass
        store.mark_complete()


def _verify(arguments: argparse.Namespace) -> int:
    from fastcoder_lsp.index.segment import DamagedError
    from fastcoder_lsp.index.stored import check_order, load

    root = _folder(arguments)
    settings = _settings(arguments, root)
    tokenizer = _tokenizer(settings)
    place = _place(root, tokenizer, settings)
    try:
        with on_disk(f"the index of {root}", place):
            _, parts = load(place, tokenizer.identity, {})
        problems = [problem for part in parts for problem in check_order(part)]
    except DamagedError as damage:
        problems = [str(damage)]
    for problem in problems:
        print(problem)
    if problems:
        print("The server rebuilds it. Or run: fastcoder-lsp index build", file=sys.stderr)
        return 1
    size = counted(sum(part.size for part in parts), "token")
    print(f"{root}: {counted(len(parts), 'segment')}, {size}, nothing wrong")
    return 0


def _search(arguments: argparse.Namespace) -> int:
    from fastcoder_lsp.index.searcher import search_text

    if not arguments.text:
        raise UsageError("there is nothing to search for", "Example: fastcoder-lsp index search 'def main('")
    store, tokenizer = _open(arguments)
    answer = search_text(store.pin(), arguments.text, tokenizer.encode, tokenizer.decode, max(1, arguments.limit))
    drafted = f"{answer.length} of {counted(answer.tokens, 'token')} at {counted(answer.count, 'place')}"
    print(f"Drafters match {drafted}; the whole text is at:", file=sys.stderr)
    for found in answer.found:
        print(f"{shown(found.key, LONGEST_NAME)}:{found.line}: {found.follows!r}")  # a name may hold control characters
    if not answer.found:
        print("nowhere", file=sys.stderr)
        return 1
    return 0


def _clear(arguments: argparse.Namespace) -> int:
    import shutil

    from fastcoder_lsp.index.store import WriterLock

    root = _folder(arguments)
    folder = store_folder(cache_folder(), root, "any").parent
    with on_disk(f"the index of {root}", folder):
        for place in sorted(path for path in folder.glob("*") if path.is_dir()):
            lock = WriterLock(place)
            if not lock.take():
                raise FastcoderError(
                    f"a server is using the index of {root}", "Close the editors that have the folder open first."
                )
            lock.release()
            shutil.rmtree(place)
    print(f"the index of {root} is deleted")
    return 0


def _folder(arguments: argparse.Namespace) -> Path:
    folder = resolved(arguments.folder)
    if not folder.is_dir():
        raise UsageError(f"{folder} is not a folder", "Name the workspace's folder.")
    return folder


def _tokenizer(settings: "Settings") -> "Tokenizer":
    from fastcoder_lsp import model
    from fastcoder_lsp.tokenizer import Tokenizer

    return Tokenizer.load(model.find(settings.model).folder)


def _settings(arguments: argparse.Namespace, root: Path) -> "Settings":
    return chosen_settings("index", {"model": arguments.model}, folder=root)[1]


def _place(root: Path, tokenizer: "Tokenizer", settings: "Settings") -> Path:
    """The folder's index; without one by its own settings, the latest that an editor made. Raises FastcoderError."""
    from fastcoder_lsp.index.stored import FILE_NAME

    place = store_folder(cache_folder(), root, tokenizer.identity, settings)
    if (place / FILE_NAME).is_file():
        return place
    others = place.parent.glob(f"{tokenizer.identity[:16]}*/{FILE_NAME}")
    latest = max(others, key=lambda path: path.stat().st_mtime_ns, default=None)
    if latest is None:
        raise FastcoderError(f"there is no index of {root} yet", f"Build it: fastcoder-lsp index build {root}")
    return latest.parent


def _open(arguments: argparse.Namespace) -> "tuple[Store, Tokenizer]":
    """The folder's store, read-only."""
    from fastcoder_lsp.index.store import Store

    root = _folder(arguments)
    settings = _settings(arguments, root)
    tokenizer = _tokenizer(settings)
    place = _place(root, tokenizer, settings)
    return Store.open(place, tokenizer.identity, str(root), reader=True), tokenizer
