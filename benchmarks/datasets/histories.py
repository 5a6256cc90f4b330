"""Recorded edit histories: the last commits of real projects as steps that a person could have made."""

import json
import tarfile
from collections.abc import Iterator, Mapping, MutableMapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any, TypeAlias

from benchmarks.datasets import require
from fastcoder_lsp.edits.history import EditHistory
from fastcoder_lsp.errors import UsageError
from fastcoder_lsp.workspace.languages import language_of
from fastcoder_lsp.workspace.secret_lines import judge_unfinished

NAMES = ("structlog", "svcs", "llama.vscode")
_BASE = ".base.tar.gz"


@dataclass(frozen=True, slots=True)
class RecordedEdit:
    """`delete` characters at character `offset` of `path` are replaced by `text`; `typed`: a person typed it."""

    path: str
    offset: int
    delete: int
    text: str
    typed: bool
    commit: str = ""  # that it belongs to


@dataclass(frozen=True, slots=True)
class Save:
    path: str


@dataclass(frozen=True, slots=True)
class Create:
    path: str
    text: str


@dataclass(frozen=True, slots=True)
class Remove:
    path: str


Step: TypeAlias = RecordedEdit | Save | Create | Remove


@dataclass(frozen=True, slots=True)
class TypedRun:
    """A run of whole lines that a person typed: `text` (it ends with a newline) goes to `offset` of `document`.

    `document` no longer has the text that the run replaced.
    """

    path: str
    language: str
    document: str
    offset: int
    text: str


def named(replay: Path | None) -> tuple[Path, str]:
    """The folder and the name of a history: of DIR/NAME, of its archive DIR/NAME.base.tar.gz, or of the first one."""
    if replay is None:
        return require("replay"), NAMES[0]
    return replay.parent, replay.name.removesuffix(_BASE)


def typed_runs(folder: Path, name: str) -> Iterator[TypedRun]:
    """The typed runs of history `name`, in order, each with the document it was typed into."""
    files = base(folder, name)
    for step in steps(folder, name):
        if isinstance(step, RecordedEdit) and step.typed:
            yield typed(files, step)
        apply(files, step)


def typed(files: Mapping[str, str], step: RecordedEdit) -> TypedRun:
    text = files[step.path]
    rest = text[: step.offset] + text[step.offset + step.delete :]
    return TypedRun(step.path, language_of(Path(step.path)), rest, step.offset, step.text)


def apply(files: MutableMapping[str, str], step: Step) -> None:
    """Take `step` in the tree `files` (path → text, as an editor holds it, saved or not)."""
    match step:
        case Create(path, text):
            files[path] = text
        case Remove(path):
            files.pop(path, None)
        case RecordedEdit(path, offset, delete, text):
            files[path] = files[path][:offset] + text + files[path][offset + delete :]
        case Save():
            pass


def steps(folder: Path, name: str) -> Iterator[Step]:
    """The steps of history `name`, in order; raises UsageError where there is no such history."""
    for line in _file(folder, name, ".steps.jsonl").read_text(encoding="utf-8").splitlines():
        yield _step(json.loads(line))


def base(folder: Path, name: str) -> dict[str, str]:
    """path → text of the tree before the first step; raises UsageError where there is no such history."""
    files = {}
    with tarfile.open(_file(folder, name, _BASE)) as archive:
        for member in archive:
            content = archive.extractfile(member) if member.isfile() else None
            if content is not None:
                files[member.name.partition("/")[2]] = content.read().decode("utf-8", errors="replace")
    return files


def _step(row: Mapping[str, Any]) -> Step:
    match row["kind"]:
        case "create":
            return Create(row["path"], row["text"])
        case "remove":
            return Remove(row["path"])
        case "save":
            return Save(row["path"])
        case "edit":
            return RecordedEdit(
                row["path"], row["offset"], row["delete"], row["text"], row["typed"], row.get("commit", "")
            )
        case kind:
            raise UsageError(f"a history step of unknown kind: {kind}")


def _file(folder: Path, name: str, ending: str) -> Path:
    if not (path := folder / f"{name}{ending}").exists():
        made = f"It is made of {name}.base.tar.gz and {name}.steps.jsonl in a folder."
        raise UsageError(f"there is no history {folder / name}", made)
    return path


def edit_history() -> EditHistory:
    """A history of changes that leaves secrets out as the server's does, for documents named by their paths."""

    def secret(path: str, above: str, lines: Sequence[str]) -> Sequence[bool]:
        return judge_unfinished(above, lines, language_of(PurePosixPath(path)))

    return EditHistory(lambda _: True, secret)
