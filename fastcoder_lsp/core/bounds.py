"""How large the values may be that another process says; msgspec refuses what is not so when it decodes a message.

These bounds say nothing about values that never leave the process.
"""

from typing import Annotated, Final, TypeAlias

from msgspec import Meta

MOST_NAMES: Final = 5_000
"""Of one list: files that changed, folders, cells of a notebook."""
MOST_EXTRAS: Final = 256
"""Chunks of other files that come with one question."""
MOST_DEFINITIONS: Final = 64
"""Places of definitions that come with one question."""
MOST_YANKS: Final = 8
"""Pieces of copied code that come with one question."""
MOST_TOLD: Final = 10_000
"""Characters of a text for people."""

Natural: TypeAlias = Annotated[int, Meta(ge=0, le=2**53)]
Whole: TypeAlias = Annotated[int, Meta(ge=-(2**53), le=2**53)]
Moment: TypeAlias = Annotated[float, Meta(ge=-1e15, le=1e15)]
"""A time by some clock; neither infinite nor NaN."""
BudgetMs: TypeAlias = Annotated[float, Meta(ge=0)]
"""May be infinite."""
Name: TypeAlias = Annotated[str, Meta(max_length=65_536)]
Short: TypeAlias = Annotated[str, Meta(max_length=MOST_TOLD)]
