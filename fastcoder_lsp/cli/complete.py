"""`fastcoder-lsp complete FILE:LINE:COL`: one completion through the service that the editors use."""

import argparse
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING

from fastcoder_lsp.cli.options import chosen_settings, require_writable
from fastcoder_lsp.cli.start import whole_path
from fastcoder_lsp.cli.terminal import Loading, keep_log_quiet
from fastcoder_lsp.config import Settings
from fastcoder_lsp.core import Completion, CompletionRequest, Reason, Snapshot
from fastcoder_lsp.core.controls import counted
from fastcoder_lsp.core.files import write_whole
from fastcoder_lsp.errors import ModelMissingError, UsageError
from fastcoder_lsp.workspace.folders import workspace_of
from fastcoder_lsp.workspace.rules import ReadingRules, resolved

if TYPE_CHECKING:
    from fastcoder_lsp.prompt.retrieval import LatestPrompt


MAX_BYTES = 100_000_000
"""Larger files are not read: no setting allows suggestions in them."""
_DIGITS = 4000  # of a line's or column's number: more than `int` takes in one piece


def add_parser(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command."""
    parser = commands.add_parser(
        "complete",
        help="print one completion at a place in a file",
        description="Print the suggestion at a place in a file. LINE and COL count from 1, COL in characters; one past "
        "the last character is the end of the line.",
        epilog="Example: fastcoder-lsp complete src/app.py:12:5 --json",
    )
    parser.add_argument("place", metavar="FILE:LINE:COL", help="where to complete")
    parser.add_argument("--json", action="store_true", help="print text, range, counts and times as JSON")
    parser.add_argument(
        "--trace",
        action="store_true",
        help="print where each token came from: its drafter, and the length of the match",
    )
    parser.add_argument(
        "--trace-html", type=Path, metavar="FILE", help="draw the trace into FILE, with the draft tree of every step"
    )
    parser.add_argument(
        "--context",
        action="store_true",
        help="add code of other files to the prompt, even if `context.enabled` is false",
    )
    parser.add_argument(
        "--secrets", action="store_true", help="complete inside text that looks like a secret (`where.secrets`)"
    )
    parser.add_argument(
        "--show-prompt", action="store_true", help="print the prompt, which other code is in it, and why"
    )
    parser.add_argument("--model", help="a hub id, a folder or a .gguf file (default: the setting, else auto)")
    parser.add_argument("--engine", help="the engine that runs the model (default: the setting, else auto)")
    parser.add_argument("--drafter", help="the drafter, which guesses tokens ahead of the model (default: the setting)")
    parser.add_argument(
        "--draft-model",
        action="append",
        metavar="NAME",
        help="a smaller model for drafters that use one; repeat the option for several",
    )
    parser.add_argument(
        "--workspace",
        type=Path,
        metavar="FOLDER",
        help="the folder whose code drafts and context come from (default: the repository of the file)",
    )
    parser.add_argument(
        "--own-process",
        action="store_true",
        help="load the model, even if the process that editors share has it; implied by --trace, --trace-html and "
        "--show-prompt",
    )
    parser.add_argument("--max-tokens", type=int, help="length limit of the completion, in tokens")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Complete and print; 0 with or without a suggestion, 2 where it is refused. The reason for none goes to stderr."""
    keep_log_quiet()
    named, line, column = parse_place(arguments.place)
    require_writable(arguments.trace_html)
    path = whole_path(named, arguments.here)
    text = read_text(path)
    offset = offset_of(text, line, column)

    from fastcoder_lsp.workspace.languages import language_of

    options = {
        "model": arguments.model,
        "engine": arguments.engine,
        "drafter": arguments.drafter,
        "draft.models": arguments.draft_model,
        "completion.max_tokens": arguments.max_tokens,
        "context.enabled": arguments.context or None,
        "where.secrets": arguments.secrets or None,
    }
    language, root = language_of(path), workspace(arguments.workspace, path)
    settings, own = chosen_settings("complete", options, folder=root, language=language)
    if settings.drafter != Settings().drafter:
        from fastcoder_lsp.draft.registry import read_name  # brings a compiler along

        read_name(settings.drafter)
    folders = {root: own} if root is not None else {}
    snapshot = Snapshot(path.as_uri(), str(path), language, 0, text)
    request = CompletionRequest(snapshot, offset, invoked=True, max_tokens=own.completion_max_tokens)
    refused = refusal(request, path, folders, own)
    prompts: list[LatestPrompt] = []
    notices: list[str] = []
    if refused is not None:
        from fastcoder_lsp.completion.question import nothing

        completion, source = nothing(request, refused.code, refused), ""
    else:
        _require_models(settings)
        inside = arguments.own_process or arguments.show_prompt or arguments.trace or arguments.trace_html is not None
        with Loading("loading the model") as loading:  # imports take time, too
            found = None if inside else _elsewhere(settings, request, loading, folders)
            if found is None:
                found = _here(arguments, settings, request, loading, folders, prompts, notices)
            completion, source = found
    for notice in notices:
        print(notice, file=sys.stderr)
    if arguments.json:
        from fastcoder_lsp.decode.trace import as_plain

        trace = {"trace": as_plain(completion.trace)} if arguments.trace else {}
        print(json.dumps(as_json(completion, source, text) | trace, ensure_ascii=False))
    else:
        _show(completion, (text, offset), prompts if arguments.show_prompt else (), traced=arguments.trace)
    if arguments.trace_html is not None:
        from fastcoder_lsp.prompt.retrieval import account

        along = [line.strip() for shown in prompts for line in account(shown, text, offset)]
        write_page(arguments.trace_html, arguments.place, completion, text, offset, along)
    return 0 if refused is None else UsageError.exit_code


def _require_models(settings: Settings) -> None:
    """Raise FastcoderError at once where a model that the settings name is not on this machine."""
    from fastcoder_lsp.model import require
    from fastcoder_lsp.model.find import AUTO

    named = () if settings.remote_url else (settings.model, *settings.draft_models)
    with _model_can_be_pulled():
        for name in named:
            if name != AUTO:
                require(name)


@contextmanager
def _model_can_be_pulled() -> Iterator[None]:
    """Name a cache folder that cannot be made in place of a missing model: `model pull`, its hint, would fail too."""
    try:
        yield
    except ModelMissingError:
        from fastcoder_lsp.model.store import ModelStore

        ModelStore.at(None).open()
        raise


def _elsewhere(
    settings: Settings, request: CompletionRequest, loading: Loading, folders: "Mapping[Path, Settings]"
) -> tuple[Completion, str] | None:
    """The completion by the remote server that the settings name, or by the shared process if it runs; else None."""
    from fastcoder_lsp.cli.serve import open_host
    from fastcoder_lsp.host.spawn import is_running

    if not settings.remote_url and not (settings.host_enabled and is_running(settings)):
        return None
    from fastcoder_lsp.cli.elsewhere import complete_elsewhere

    completion = complete_elsewhere(settings, request, loading, folders, open_host)
    if completion is None:
        return None
    if settings.remote_url:
        return completion, settings.remote_url
    from fastcoder_lsp.model import find

    return completion, find(settings.model).source


def _here(
    arguments: argparse.Namespace,
    settings: Settings,
    request: CompletionRequest,
    loading: Loading,
    folders: "Mapping[Path, Settings]",
    prompts: "list[LatestPrompt]",
    notices: list[str],
) -> tuple[Completion, str]:
    """The completion by a model in this process; `prompts` and `notices` receive what it says beside."""
    from fastcoder_lsp.cli.once import complete_once

    traced = arguments.trace or arguments.trace_html is not None
    with _model_can_be_pulled():
        return complete_once(
            settings, request, loading, folders, shown=prompts.append, notice=notices.append, traced=traced
        )


def _show(completion: Completion, at: tuple[str, int], prompts: "Sequence[LatestPrompt]", *, traced: bool) -> None:
    """Print the suggestion, or why there is none; its trace and prompts after it. `at`: the text and the cursor."""
    print(completion.text)
    if completion.reason is not None:
        print(f"No suggestion: {completion.reason.text} {completion.reason.hint}".rstrip(), file=sys.stderr)
    if traced:
        print("\n" + "\n".join(trace_lines(completion)))
    for shown in prompts:
        from fastcoder_lsp.prompt.retrieval import account

        print("\n" + "\n".join(account(shown, *at)) + "\n\n" + shown.text)


def refusal(
    request: CompletionRequest, path: Path, folders: "Mapping[Path, Settings]", settings: "Settings"
) -> Reason | None:
    """Why editors get no suggestion here, by the settings of the folder or by the file; None if they do."""
    from fastcoder_lsp.completion.reasons import off, secret_line
    from fastcoder_lsp.lsp.reasons import of_rule
    from fastcoder_lsp.workspace.typed_secrets import types_secret

    if not settings.enabled:
        return off()
    text, language = request.snapshot.text, request.snapshot.language
    size, longest = len(text), max(map(len, text.split("\n")))
    rules = ReadingRules(tuple(folders), settings)
    rule = rules.may_complete(path, language) or rules.size_reason(size, longest)
    if rule is not None:
        return of_rule(rule, settings, size, longest)
    if not settings.where_secrets and types_secret(text[: request.offset], language):
        return replace(secret_line(), hint="If it is not a secret, add --secrets.")
    return None


def workspace(named: Path | None, file: Path) -> Path | None:
    """The folder that drafts come from; None if `file` is in no workspace."""
    if named is not None and named.exists() and not named.is_dir():
        raise UsageError(f"{named} is a file, not a folder", "Name the workspace's folder.")
    if named is not None and not named.exists():
        raise UsageError(f"{named}: no such folder", "Name the workspace's folder.")
    return named.absolute() if named is not None else workspace_of(file, _home())


def _home() -> Path:
    """The user's home folder; if unknown, the root folder, which is no workspace either."""
    try:
        return Path.home()
    except RuntimeError:
        return Path("/")


def parse_place(place: str) -> tuple[Path, int, int]:
    """Split FILE:LINE:COL; the file's name may contain colons."""
    name, line, column = place.rsplit(":", 2) if place.count(":") >= 2 else (place, "", "")
    row, at = _number(line), _number(column)
    if not (name and row and at):
        raise UsageError(f"'{place}' is not of the form FILE:LINE:COL", "Example: src/app.py:12:5 (both count from 1)")
    return Path(name), row, at


def _number(digits: str) -> int:
    """0 for anything else; a number of any length, though `int` refuses the longest, is beyond the file's end."""
    return min(int(digits.lstrip("0")[:_DIGITS] or "0"), sys.maxsize) if digits.isdecimal() else 0


def read_text(path: Path) -> str:
    r"""A regular file's text with `\n` line ends."""
    from fastcoder_lsp.workspace.regular import NotRegularError, read_real

    try:
        text = read_real(resolved(path), MAX_BYTES).decode("utf-8")
        return text.replace("\r\n", "\n").replace("\r", "\n")
    except NotRegularError as error:
        raise UsageError(f"{path} is {error.strerror}", "Name a file.") from error
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}", "Name a file that you may read.") from error
    except UnicodeDecodeError as error:
        raise UsageError(f"{path} is not UTF-8 text", "Convert it to UTF-8, or name another file.") from error


def offset_of(text: str, line: int, column: int) -> int:
    """The character offset of a 1-based line and column."""
    lines = text.split("\n")
    if line > len(lines):
        raise UsageError(f"there is no line {line}: the file has {len(lines)}", "Name a line of the file.")
    if column > len(lines[line - 1]) + 1:
        raise UsageError(
            f"there is no column {column} in line {line}: it has {counted(len(lines[line - 1]), 'character')}",
            "Name a column of that line; its end is the column after its last character.",
        )
    return sum(len(before) + 1 for before in lines[: line - 1]) + column - 1


def as_json(completion: Completion, source: str, text: str) -> dict[str, object]:
    """The completion as the command's JSON; the range in 1-based lines and columns, its end exclusive."""
    return {
        "text": completion.text,
        "range": {"start": _place_of(text, completion.start), "end": _place_of(text, completion.end)},
        "model": completion.model,
        "source": source,
        "engine": completion.engine,
        "steps": completion.counts.steps,
        "tokens": completion.counts.tokens,
        "accepted": completion.counts.accepted,
        "accepted_by_source": dict(completion.counts.by_source),
        "prefilled": completion.counts.prefilled,
        "reused": completion.counts.reused,
        "finish": completion.finish,
        "reason": asdict(completion.reason) if completion.reason is not None else None,
        "ms": {span: round(ms, 3) for span, ms in completion.ms.items()},
    }


def trace_lines(completion: Completion) -> Iterator[str]:
    """The trace for the terminal: a line for each step, one for each of its tokens, and the sums."""
    from fastcoder_lsp.decode.trace import token_texts

    texts = token_texts(completion.trace)
    for number, (step, said) in enumerate(zip(completion.trace, texts, strict=True), 1):
        yield f"step {number}: {len(step.path)} of {counted(len(step.tree) - step.tree.pending, 'draft')} accepted"
        for token, text in zip(step.tokens, said, strict=True):
            origin = f"{token.source}, match of {token.match}" if token.source else "the model's own"
            yield f"  {json.dumps(text, ensure_ascii=False):24} {origin}"
    by_source = ", ".join(f"{source} {count}" for source, count in completion.counts.by_source.items()) or "none"
    made = f"{counted(completion.counts.tokens, 'token')} in {counted(completion.counts.steps, 'step')}"
    yield f"{made}; accepted drafts: {by_source}"


def write_page(
    path: Path, place: str, completion: Completion, text: str, offset: int, along: Sequence[str] = ()
) -> None:
    """Draw the trace into `path`, with the context files that were in the prompt."""
    from fastcoder_lsp.cli.trace_page import TracePage, page

    counts = completion.counts
    note = (
        f"{counted(counts.tokens, 'token')} in {counted(counts.steps, 'forward pass', 'forward passes')}, "
        f"{counts.accepted} of them drafted · "
        f"{completion.model} on {completion.engine}"
        f"{''.join(' · ' + line for line in along)}"
    )
    try:
        write_whole(path, page(TracePage(place, note, text[:offset], text[offset:], completion.trace)))
    except OSError as error:
        raise UsageError(f"{path} cannot be written: {error.strerror}", "Name another file.") from error


def _place_of(text: str, offset: int) -> dict[str, int]:
    return {"line": text.count("\n", 0, offset) + 1, "column": offset - (text.rfind("\n", 0, offset) + 1) + 1}
