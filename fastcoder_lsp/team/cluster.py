"""The application builder for an existing Ray cluster, imported by `serve run` and a `RayService`.

Owns only the import path. The cluster's own configuration sets the address for editors; `[listen]` is not used.
"""

from pathlib import Path
from typing import Any

from fastcoder_lsp.errors import UsageError
from fastcoder_lsp.team.configuration import read_config
from fastcoder_lsp.team.deployments import application


def build(arguments: dict[str, str]) -> Any:
    """Build the Serve application.

    Args:
        arguments: `config`, the path of a team.toml on every node.

    Raises:
        UsageError: there is no such file, or it names no keys, although others can reach a cluster.
    """
    config = read_config(Path(arguments.get("config", "")))
    if not config.keys:
        raise UsageError(
            "other machines can reach a cluster, so clients need keys",
            "Name the file of keys in team.toml: keys = FILE",
        )
    return application(config)
