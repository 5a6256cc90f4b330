"""`fastcoder-lsp report`: months of use on one page, from the counts on this machine."""

import argparse
import json
import sqlite3
from pathlib import Path

from fastcoder_lsp.config import usage_folder
from fastcoder_lsp.core.files import private_folder
from fastcoder_lsp.errors import ResourceError
from fastcoder_lsp.usage import UsageStore


def add_parser(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command."""
    parser = commands.add_parser(
        "report",
        help="show months of use: what was shown, accepted and kept, and what is slow",
        description="Draw a page from the counts that your editors' servers keep on this machine: numbers by day and "
        "language, no text and no paths. The setting `usage.enabled` turns counting off.",
        epilog="Example: fastcoder-lsp report --open",
    )
    parser.add_argument("--out", type=Path, metavar="FILE", help="where the page goes (default: the cache folder)")
    parser.add_argument("--open", action="store_true", help="open it in the browser")
    parser.add_argument("--json", action="store_true", help="print the counts instead, as JSON")
    parser.add_argument("--delete", action="store_true", help="delete all counts")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Run the command."""
    folder = usage_folder()
    store = UsageStore(folder)
    if arguments.delete:
        try:
            there = store.delete()
            (folder / "report.html").unlink(missing_ok=True)
        except OSError as error:
            raise ResourceError(f"the counts in {folder} cannot be deleted: {error.strerror}") from error
        print("All counts are deleted." if there else "There are no counts.")
        return 0
    from fastcoder_lsp.cli.report_page import page, summed

    try:
        usage = summed(store.read())
    except (OSError, sqlite3.Error) as error:
        busy = getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_BUSY
        hint = "An editor writes them: run the command again." if busy else "Delete them: fastcoder-lsp report --delete"
        raise ResourceError(f"the counts in {folder} cannot be read: {error}", hint) from error
    if arguments.json:
        print(json.dumps(usage.to_json(), indent=1))
        return 0
    if usage.first is None:
        print("Nothing was counted yet. Use an editor with the setting `usage.enabled`, which is on by default.")
        return 0
    out: Path = arguments.out or private_folder(folder) / "report.html"
    try:
        out.write_text(page(usage), encoding="utf-8")
    except OSError as error:
        raise ResourceError(f"{out} cannot be written: {error.strerror}", "Name another file with --out.") from error
    whole = usage.all
    share = "" if whole.accepted_share is None else f" ({100 * whole.accepted_share:.0f} %)"
    kept = "" if whole.kept_share is None else f", {100 * whole.kept_share:.0f} % of them kept after a minute"
    print(f"{usage.first} to {usage.last}: {whole.shown:,} shown, {whole.accepted:,} accepted{share}{kept}")
    print(f"{whole.characters:,} characters were not typed")
    print(out)
    if arguments.open:
        import webbrowser

        webbrowser.open(out.absolute().as_uri())
    return 0
