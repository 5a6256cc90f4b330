"""The application for a Ray cluster that somebody else has started: what `serve run` and a `RayService` import.

Owns nothing but the name. Where editors reach it, Serve is told there and not by `[listen]`.
"""

from pathlib import Path
from typing import Any

from fastcoder_lsp.errors import UsageError
from fastcoder_lsp.team.configuration import read_config
from fastcoder_lsp.team.deployments import application


def build(arguments: dict[str, str]) -> Any:
    """Serve's application.

    Args:
        arguments: `config`, the path of a team.toml on every node.

    Raises:
        UsageError: there is none, or it names no keys: a cluster can be reached by others.
    """
    config = read_config(Path(arguments.get("config", "")))
    if not config.keys:
        raise UsageError(
            "other machines can reach a cluster, so clients need keys",
            "Name the file of keys in team.toml: keys = FILE",
        )
    return application(config)
