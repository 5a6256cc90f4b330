"""The HTML report."""

from collections.abc import Mapping
from typing import Any


def page(report: Mapping[str, Any]) -> str:
    """Draw."""
    return str(report["history"])
