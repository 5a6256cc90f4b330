"""Kinds of arguments: numbers within bounds, so that a wrong one is refused before any work begins."""

import argparse
import math
from collections.abc import Callable


def at_least(least: int, most: int | None = None) -> Callable[[str], int]:
    """A kind of argument: a whole number from `least` to `most`, both allowed."""

    def number(text: str) -> int:
        value = int(text)
        if value < least:
            raise argparse.ArgumentTypeError(f"{value} is less than {least}")
        if most is not None and value > most:
            raise argparse.ArgumentTypeError(f"{value} is more than {most}")
        return value

    number.__name__ = "whole number"  # so that argparse says what else is none
    return number


def above_zero(text: str) -> float:
    """A kind of argument: a finite number above zero."""
    value = float(text)
    if not 0 < value < math.inf:
        raise argparse.ArgumentTypeError(f"{text} is not above 0")
    return value


def weight(text: str) -> float:
    """A kind of argument: a finite number that is not negative."""
    value = float(text)
    if not 0 <= value < math.inf:
        raise argparse.ArgumentTypeError(f"{text} is less than 0")
    return value


def share(text: str) -> float:
    """A kind of argument: a number from 0 to 1."""
    value = float(text)
    if not 0 <= value <= 1:
        raise argparse.ArgumentTypeError(f"{text} is not between 0 and 1")
    return value
