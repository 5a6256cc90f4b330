"""Reading and writing the ledger as CSV."""

import csv
from collections.abc import Iterable
from datetime import date
from decimal import Decimal
from pathlib import Path

from expenses.models import Category, Expense

COLUMNS = ["day", "category", "amount", "note", "tags"]


def read_ledger(path: Path) -> list[Expense]:
    """All expenses of a file, oldest first."""
    with path.open(newline="", encoding="utf-8") as stream:
        expenses = [parse_row(row) for row in csv.DictReader(stream)]
    return sorted(expenses, key=lambda expense: expense.day)


def parse_row(row: dict[str, str]) -> Expense:
    """One line of the file."""
    return Expense(
        day=date.fromisoformat(row["day"]),
        category=Category(row["category"]),
        amount=Decimal(row["amount"]),
        note=row.get("note", ""),
        tags=frozenset(row.get("tags", "").split()),
    )


def format_row(expense: Expense) -> dict[str, str]:
    """The line of the file for an expense; the inverse of `parse_row`."""



def write_ledger(path: Path, expenses: Iterable[Expense]) -> None:
    """Write all expenses to a file."""
    with path.open("w", newline="", encoding="utf-8") as stream:
        writer = csv.DictWriter(stream, fieldnames=COLUMNS)
        writer.writeheader()
        for expense in expenses:
            writer.writerow(format_row(expense))
