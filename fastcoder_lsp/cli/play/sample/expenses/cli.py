"""The command line: `expenses report ledger.csv --month 2026-03`."""

import argparse
from pathlib import Path

from expenses.reports import by_category, format_table, in_month
from expenses.storage import read_ledger


def main() -> None:
    """Parse the arguments and print a report."""
    parser = argparse.ArgumentParser(description="Reports over a household ledger.")
    parser.add_argument("command", choices=["report"])
    parser.add_argument("ledger", type=Path)
    parser.add_argument("--month", help="only this month, as in 2026-03")
    arguments = parser.parse_args()

    expenses = read_ledger(arguments.ledger)
    if arguments.month:
        year, month = map(int, arguments.month.split("-"))
        expenses = in_month(expenses, year, month)
    print(format_table(by_category(expenses)))


if __name__ == "__main__":
    main()
