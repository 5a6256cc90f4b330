"""The sample workspace of `play`, and what the scripted session types into it.

Owns the copy that the user plays in. Never touches the original, nor any file of the user's.
"""

from dataclasses import dataclass
from importlib.resources import as_file, files
from pathlib import Path

from fastcoder_lsp.errors import ResourceError

FILES = (
    "expenses/reports.py",
    "web/src/chart.ts",
    "expenses/storage.py",
    "expenses/models.py",
    "web/src/api.ts",
    "web/src/types.ts",
    "tests/test_reports.py",
)
"""What is open in the editor, in this order: first where something is missing."""

STARTS = {
    "expenses/reports.py": '    """The sum of each day."""\n',
    "web/src/chart.ts": "  const totals = new Map<Category, number>();\n",
    "expenses/storage.py": '    """The line of the file for an expense; the inverse of `parse_row`."""\n',
    "web/src/api.ts": "export async function deleteExpense(id: string): Promise<void> {\n",
}
"""file → the text behind which its body is missing, so the cursor stands there."""


@dataclass(frozen=True, slots=True)
class TourStep:
    """Behind `after`, `drops` characters are removed and `typed` is typed.

    Then `letters` of what is suggested are typed, too, and the rest is accepted.
    """

    file: str
    after: str
    typed: str
    letters: int = 0
    drops: int = 0


STEPS = (
    TourStep("expenses/reports.py", STARTS["expenses/reports.py"], "    totals: dict[date, Decimal] = ", letters=4),
    TourStep("expenses/reports.py", '    """The `count` largest expenses, largest first."""\n', "    return sorted("),
    TourStep("web/src/chart.ts", STARTS["web/src/chart.ts"], "  for (const expense of expenses) {\n    "),
    TourStep("web/src/api.ts", STARTS["web/src/api.ts"], "  const response = await fetch(", letters=3),
)


def copy_sample(folder: Path) -> Path:
    """The sample workspace as it is shipped, in `folder`; only what differs there is written."""
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
