"""`fastcoder/late`: a suggestion is there by now whose question had to be answered empty; who asks again gets it.

Only clients that know it get it, and only while the document is what was asked about. They see whether the cursor is
still there.
"""

from typing import Final

from fastcoder_lsp.core import Late
from fastcoder_lsp.lsp.endpoint import Endpoint
from fastcoder_lsp.workspace.positions import Position

METHOD: Final = "fastcoder/late"


def tell_late(endpoint: Endpoint, late: Late, at: Position) -> None:
    """Tell the client."""
    endpoint.notify(
        METHOD,
        {
            "textDocument": {"uri": late.uri, "version": late.version},
            "position": {"line": at.line, "character": at.character},
        },
    )
