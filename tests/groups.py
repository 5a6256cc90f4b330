"""Which tests must run in one process, in their order: a file's, or a whole folder's."""

from typing import Final

ONE_PROCESS: Final = ("tests/faults/", "tests/papers/train/")
"""Folders whose tests share a memory of what was said, or models that were trained for them."""


def group(test: str) -> str:
    """The group of a test by its id: its file, or its folder."""
    shared = next((folder for folder in ONE_PROCESS if test.startswith(folder)), None)
    return shared or test.partition("::")[0]
