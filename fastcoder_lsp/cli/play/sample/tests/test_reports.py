"""Tests of the reports."""

from datetime import date
from decimal import Decimal

from expenses.models import Budget, Category, Expense
from expenses.reports import by_category, over_budget, total

LUNCH = Expense(date(2026, 3, 2), Category.FOOD, Decimal("12.50"))
DINNER = Expense(date(2026, 3, 2), Category.FOOD, Decimal("31.00"), note="with friends")
TRAIN = Expense(date(2026, 3, 5), Category.TRAVEL, Decimal("9.80"))


def test_total_adds_all_amounts() -> None:
    assert total([LUNCH, DINNER, TRAIN]) == Decimal("53.30")


def test_by_category_sums_each_category() -> None:
    assert by_category([LUNCH, DINNER, TRAIN]) == {
        Category.FOOD: Decimal("43.50"),
        Category.TRAVEL: Decimal("9.80"),
    }


def test_over_budget_leaves_out_categories_within_their_limit() -> None:
    budget = Budget({Category.FOOD: Decimal(40), Category.TRAVEL: Decimal(20)})
    assert over_budget([LUNCH, DINNER, TRAIN], budget) == {Category.FOOD: Decimal("3.50")}
