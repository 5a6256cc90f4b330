"""Sums and tables over the ledger."""

from collections import defaultdict
from collections.abc import Iterable
from datetime import date
from decimal import Decimal

from expenses.models import Budget, Category, Expense


def total(expenses: Iterable[Expense]) -> Decimal:
    """The sum of all amounts."""
    return sum((expense.amount for expense in expenses), Decimal(0))


def in_month(expenses: Iterable[Expense], year: int, month: int) -> list[Expense]:
    """The expenses of one month."""
    return [expense for expense in expenses if (expense.day.year, expense.day.month) == (year, month)]


def by_category(expenses: Iterable[Expense]) -> dict[Category, Decimal]:
    """The sum of each category."""
    totals: dict[Category, Decimal] = defaultdict(Decimal)
    for expense in expenses:
        totals[expense.category] += expense.amount
    return dict(totals)


def by_day(expenses: Iterable[Expense]) -> dict[date, Decimal]:
    """The sum of each day."""



def largest(expenses: Iterable[Expense], count: int = 5) -> list[Expense]:
    """The `count` largest expenses, largest first."""



def over_budget(expenses: Iterable[Expense], budget: Budget) -> dict[Category, Decimal]:
    """How far each category is above its limit; categories within it are left out."""
    over: dict[Category, Decimal] = {}
    for category, spent in by_category(expenses).items():
        excess = spent - budget.limit(category)
        if excess > 0:
            over[category] = excess
    return over


def format_table(totals: dict[Category, Decimal]) -> str:
    """A table for the terminal: category, amount, share of the whole."""
    whole = sum(totals.values(), Decimal(0)) or Decimal(1)
    lines = []
    for category, amount in sorted(totals.items(), key=lambda item: item[1], reverse=True):
        lines.append(f"{category.value:<10}{amount:>10.2f}{amount / whole:>8.0%}")
    return "\n".join(lines)
