"""What the ledger holds."""

from dataclasses import dataclass, field
from datetime import date
from decimal import Decimal
from enum import Enum


class Category(Enum):
    """What money was spent on."""

    FOOD = "food"
    RENT = "rent"
    TRAVEL = "travel"
    HEALTH = "health"
    OTHER = "other"


@dataclass(frozen=True)
class Expense:
    """One purchase."""

    day: date
    category: Category
    amount: Decimal
    note: str = ""
    tags: frozenset[str] = field(default_factory=frozenset)

    def __post_init__(self) -> None:
        if self.amount < 0:
            raise ValueError(f"negative amount: {self.amount}")


@dataclass
class Budget:
    """How much may be spent in a month, by category."""

    limits: dict[Category, Decimal]

    def limit(self, category: Category) -> Decimal:
        """The limit of a category; zero where none is set."""
        return self.limits.get(category, Decimal(0))

    def total(self) -> Decimal:
        """The sum of all limits."""
        return sum(self.limits.values(), Decimal(0))
