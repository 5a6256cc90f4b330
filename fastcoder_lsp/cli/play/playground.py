"""The files of `play` with their cursors, in a copy of the sample workspace, and the steps of the scripted session."""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.resources import as_file, files
from pathlib import Path

from fastcoder_lsp.cli.complete import read_text
from fastcoder_lsp.cli.play.session import OpenFile
from fastcoder_lsp.config import cache_folder
from fastcoder_lsp.errors import ResourceError
from fastcoder_lsp.workspace.languages import language_of

LEAST_LINE = 12  # shorter lines are not worth typing again
CODE_SIGNS = frozenset("=({[")  # a line with none of them is more likely prose than code
FILES = (
    "expenses/reports.py",
    "web/src/chart.ts",
    "expenses/storage.py",
    "expenses/models.py",
    "web/src/api.ts",
    "web/src/types.ts",
    "tests/test_reports.py",
)
"""The open files, in this order: first the one where a body is missing."""

STARTS = {
    "expenses/reports.py": '    """The sum of each day."""\n',
    "web/src/chart.ts": "  const totals = new Map<Category, number>();\n",
    "expenses/storage.py": '    """The line of the file for an expense; the inverse of `parse_row`."""\n',
    "web/src/api.ts": "export async function deleteExpense(id: string): Promise<void> {\n",
}
"""file → the text above the line where its body is missing; the cursor stands there, indented."""


@dataclass(frozen=True, slots=True)
class TourStep:
    """After `after`, remove `drops` characters, type `typed` and `letters` of the suggestion, and accept the rest."""

    file: str
    after: str
    typed: str
    letters: int = 0
    drops: int = 0


STEPS = (
    TourStep(
        "expenses/reports.py", STARTS["expenses/reports.py"] + "    ", "totals: dict[date, Decimal] = ", letters=4
    ),
    TourStep("expenses/reports.py", '    """The `count` largest expenses, largest first."""\n', "    return sorted("),
    TourStep("web/src/chart.ts", STARTS["web/src/chart.ts"] + "  ", "for (const expense of expenses) {\n    "),
    TourStep("web/src/api.ts", STARTS["web/src/api.ts"] + "  ", "const response = await fetch(", letters=3),
)


@dataclass(frozen=True, slots=True)
class EditStep:
    """`old` becomes `new` in a file, so that a next edit follows: `what`, in words. It needs no model."""

    file: str
    old: str
    new: str
    what: str


EDIT_STEPS = (
    EditStep(
        "expenses/reports.py",
        "in_month(expenses: Iterable",
        "in_month(ledger: Iterable",
        "renamed a parameter: its use follows",
    ),
    EditStep(
        "expenses/storage.py",
        "def format_row(",
        "def show(path: Path) -> None:\n    print(format_table(by_category(read_ledger(path))))\n\n\ndef format_row(",
        "used two names of another file: their import follows",
    ),
)


def copy_sample(folder: Path) -> Path:
    """Write the sample workspace into `folder`; only files that differ are written."""
    with as_file(files(__package__) / "sample") as original:
        for source in sorted(original.rglob("*")):
            target = folder / source.relative_to(original)
            if source.is_file() and "__pycache__" not in source.parts:
                _write_where_different(source, target)
    return folder.resolve()


def _write_where_different(source: Path, target: Path) -> None:
    content = source.read_bytes()
    try:
        if not target.is_file() or target.read_bytes() != content:
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(content)
    except OSError as error:
        raise ResourceError(
            f"cannot write the sample workspace to {target.parent}: {error.strerror}",
            "Make room there, or set FASTCODER_CACHE to another folder.",
        ) from error


@dataclass(frozen=True, slots=True)
class Playground:
    """The workspace `root`, its open files, and the steps of the scripted session."""

    root: Path
    files: list[OpenFile]
    steps: tuple[TourStep, ...]
    edits: tuple[EditStep, ...] = ()


def sample_playground() -> Playground:
    """The sample workspace, copied into the cache folder."""
    root = copy_sample(cache_folder() / "play")
    return Playground(root, [_open(root / name, name, STARTS.get(name, "")) for name in FILES], STEPS, EDIT_STEPS)


def user_playground(path: Path) -> Playground:
    """The user's file, in its repository, else in its folder."""
    path = path.absolute()
    file = _open(path, path.name, "")
    root = next((folder for folder in path.parents if os.path.lexists(folder / ".git")), path.parent)
    return Playground(root, [file], tuple(_type_again(file)))


def _open(path: Path, name: str, start: str) -> OpenFile:
    """The file with its cursor after `start`, indented as the editor's own Enter does it."""
    text, above = read_text(path), start.removesuffix("\n").rpartition("\n")[2]
    indented = " " * (len(above) - len(above.lstrip())) + "  " * above.endswith("{")
    cursor = text.index(start) + len(start)
    return OpenFile(name, path, language_of(path), text[:cursor] + indented + text[cursor:], cursor + len(indented))


def _type_again(file: OpenFile) -> Iterator[TourStep]:
    """Two lines of the file, each retyped by half; the lower one first, so that the upper one's place stays valid."""
    starts = [0, *(index + 1 for index, character in enumerate(file.text) if character == "\n")]
    lines = list(zip(starts, file.text.split("\n"), strict=True))
    long = [(start, line) for start, line in lines if len(line.strip()) >= LEAST_LINE]
    worth = [(start, line) for start, line in long if CODE_SIGNS & set(line)] or long or lines[-1:]
    for start, line in dict.fromkeys([worth[len(worth) * 3 // 4], worth[len(worth) // 2]]):
        indent = len(line) - len(line.lstrip())
        half = indent + (len(line) - indent) // 2
        yield TourStep(file.name, file.text[: start + indent], line[indent:half], drops=len(line) - indent)
