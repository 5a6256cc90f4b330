"""What people are told of a store's size."""

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class StoreStatus:
    """Sizes of a store: files and tokens that are live, segments and bytes on the disk, tokens held in memory only."""

    folder: Path
    source: str
    writable: bool
    complete: bool
    files: int
    tokens: int
    unsaved: int
    segments: tuple[int, ...]
    bytes: int
    tail_tokens: int
