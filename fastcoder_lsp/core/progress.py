"""What whoever does something long is handed: whom to tell, and whether to stop."""

from collections.abc import Callable
from typing import TypeAlias

Progress: TypeAlias = Callable[[float, str], None]
"""Told the share done (0…1) and what is being done, for anything that may take over a second."""
ShouldStop: TypeAlias = Callable[[], bool]
"""Asked between units of work (a prefill chunk, a step); `True` means: keep what is done and return."""
