"""Bounds of values from other processes; msgspec rejects larger ones when it decodes a message."""

from typing import Annotated, Final, TypeAlias

from msgspec import Meta

MOST_NAMES: Final = 5_000  # most entries of a list: changed files, folders, cells of a notebook
MOST_EXTRAS: Final = 256  # most chunks of other files with one question
MOST_DEFINITIONS: Final = 64  # most definitions with one question
MOST_YANKS: Final = 8  # most pieces of copied code with one question
MOST_CHANGES: Final = 64  # most changes of the user's with one question
MOST_TOLD: Final = 10_000  # longest text for users, in characters

Natural: TypeAlias = Annotated[int, Meta(ge=0, le=2**53)]
Whole: TypeAlias = Annotated[int, Meta(ge=-(2**53), le=2**53)]
Seed: TypeAlias = Annotated[int, Meta(ge=0, le=2**63 - 1)]
Moment: TypeAlias = Annotated[float, Meta(ge=-1e15, le=1e15)]  # a clock's time; neither infinite nor NaN
BudgetMs: TypeAlias = Annotated[float, Meta(ge=0)]  # a budget in milliseconds; may be infinite
Name: TypeAlias = Annotated[str, Meta(max_length=65_536)]
Short: TypeAlias = Annotated[str, Meta(max_length=MOST_TOLD)]
