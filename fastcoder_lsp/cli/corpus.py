"""`fastcoder-lsp corpus build|list|remove`: common code for drafts, beside the workspace's own."""

import argparse
import os
import sys
from collections.abc import Sequence
from contextlib import ExitStack, closing
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

from fastcoder_lsp.cli.options import at_least
from fastcoder_lsp.cli.terminal import on_disk
from fastcoder_lsp.config import cache_folder
from fastcoder_lsp.core.controls import counted, raw_stream
from fastcoder_lsp.errors import FastcoderError, UsageError
from fastcoder_lsp.model.store import size_text

if TYPE_CHECKING:
    from fastcoder_lsp.tokenizer import Tokenizer
    from fastcoder_lsp.workspace.corpus_files import Texts


def add_parser(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command and its actions."""
    parser = commands.add_parser(
        "corpus",
        help="build, list and remove corpora of common code",
        description="A corpus is an index of common code: drafts come from it and from the workspace's own code. "
        "There is always one of Python's standard library.",
        epilog="Example: fastcoder-lsp corpus build ~/src/django --name django",
    )
    actions = parser.add_subparsers(title="actions", metavar="ACTION", required=True)
    build = actions.add_parser(
        "build",
        help="build corpora from installed packages, or one from folders and archives",
        description="Without a PATH: build a corpus for each of Python, JavaScript and TypeScript, Rust, Go and Ruby, "
        "from the packages that are installed on this machine; nothing is downloaded. With one: build a corpus from "
        "the code in folders, .zip, .whl and .tar archives. Tests, secrets, minified and very large files are left "
        "out. Built again under the same name, a corpus is replaced.",
        epilog="Example: fastcoder-lsp corpus build ~/src/django requests.tar.gz --name web",
    )
    build.add_argument("paths", nargs="*", type=Path, metavar="PATH", help="a folder, an archive or a code file")
    build.add_argument("--name", help="the corpus's name (default: the first path's own name)")
    build.add_argument(
        "--megabytes",
        type=at_least(1),
        default=40,
        metavar="N",
        help="without a PATH: code of each language at most (default: %(default)s, some 10 million tokens); the index "
        "of a corpus takes about twice as much",
    )
    build.add_argument("--model", default="auto", help="the model whose tokenizer to use, as for `complete`")
    build.set_defaults(run=_build)
    listing = actions.add_parser(
        "list",
        help="list the corpora",
        description="Print the corpora on this machine, one a line.",
        epilog="Example: fastcoder-lsp corpus list",
    )
    listing.set_defaults(run=_list)
    remove = actions.add_parser(
        "remove",
        help="delete a corpus",
        description="Delete a corpus from this machine, for all models.",
        epilog="Example: fastcoder-lsp corpus remove web",
    )
    remove.add_argument("name", metavar="NAME", help="as `corpus list` prints it")
    remove.set_defaults(run=_remove)


def _build(arguments: argparse.Namespace) -> int:
    from fastcoder_lsp import model
    from fastcoder_lsp.index.corpus import checked_name
    from fastcoder_lsp.tokenizer import Tokenizer
    from fastcoder_lsp.workspace.corpus_files import require_sources, texts_of

    paths = [path.expanduser().absolute() for path in arguments.paths]
    name = checked_name(arguments.name or (paths[0].name.split(".")[0] if paths else "packages"))
    if arguments.name and not paths:
        raise UsageError("--name needs a PATH", "Corpora of installed packages are named after their languages.")
    require_sources(paths)
    tokenizer = Tokenizer.load(model.find(arguments.model).folder)
    if paths:
        _build_one(name, [str(path) for path in paths], texts_of(paths), tokenizer)
    else:
        _build_installed(arguments.megabytes * 1_000_000, tokenizer)
    _count_table(tokenizer)
    return 0


def _build_installed(cap: int, tokenizer: "Tokenizer") -> None:
    from fastcoder_lsp.workspace.installed_packages import FAMILIES, folders_of, package_texts

    built = 0
    for family in FAMILIES:
        folders = folders_of(family, Path.home(), os.environ)
        texts = package_texts(family, folders, cap)
        first = next(texts, None)
        if first is None:
            print(f"{family}: no installed packages were found")
            continue
        _build_one(f"{family}-packages", list(map(str, folders)), chain([first], texts), tokenizer)
        built += 1
    if not built:
        raise FastcoderError("no installed packages were found", "Name folders: fastcoder-lsp corpus build PATH")


def _build_one(name: str, sources: Sequence[str], texts: "Texts", tokenizer: "Tokenizer") -> None:
    """Build a corpus, and print its sizes."""
    from rich.console import Console
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    from fastcoder_lsp.index.corpus import Corpora

    columns = SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn()
    storing = on_disk(f"the corpus '{name}'", cache_folder())
    with storing, Progress(*columns, console=Console(file=raw_stream(sys.stderr)), transient=True) as bar:
        task = bar.add_task(f"{name}: reading")

        def on_shard(files: int, tokens: int) -> None:
            bar.update(task, description=f"{name}: {counted(files, 'file')}, {counted(tokens, 'token')}")

        info = Corpora(cache_folder()).build(name, sources, texts, tokenizer, on_shard)
    if info is None:
        raise FastcoderError(f"another process is building the corpus '{name}'", "Try again when it is done.")
    print(f"{info.name}: {counted(info.files, 'file')}, {counted(info.tokens, 'token')}, {size_text(info.bytes)}")


def _count_table(tokenizer: "Tokenizer") -> None:
    """Cacheback's table of the commonest n-grams of all common code, so that servers need not count them."""
    from fastcoder_lsp.draft.frozen_table import TableShape, table_of
    from fastcoder_lsp.index.corpus import Corpora
    from fastcoder_lsp.workspace.common_code import is_common

    corpora = Corpora(cache_folder())
    named = [one.name for one in corpora.infos() if one.identity == tokenizer.identity and is_common(one.name)]
    with on_disk("the table of common code", cache_folder()), ExitStack() as opened:
        stores = [opened.enter_context(closing(corpora.open(one, tokenizer.identity))) for one in named]
        table_of([store.pin() for store in stores], cache_folder(), tokenizer.identity, TableShape())


def _list(_arguments: argparse.Namespace) -> int:
    from fastcoder_lsp.index.corpus import Corpora

    infos = Corpora(cache_folder()).infos()
    for info in infos:
        size = f"{counted(info.tokens, 'token')} in {counted(info.files, 'file')}, {size_text(info.bytes)}"
        print(f"{info.name}: {size}, tokenizer {info.identity}, from {', '.join(info.sources)}")
    if not infos:
        print("No corpora yet. Build one with: fastcoder-lsp corpus build")
    return 0


def _remove(arguments: argparse.Namespace) -> int:
    from fastcoder_lsp.index.corpus import Corpora

    with on_disk("the list of corpora", cache_folder()):
        Corpora(cache_folder()).remove(arguments.name)
    print(f"removed {arguments.name}")
    return 0
