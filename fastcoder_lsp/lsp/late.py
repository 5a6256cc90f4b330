"""`fastcoder/late`: a suggestion is there by now whose question had to be answered empty; who asks again gets it.

Told to clients alone that know it, and only while the document is what was asked about: whether the cursor is still
there is theirs to see.
"""

from typing import Final

from fastcoder_lsp.core import Late
from fastcoder_lsp.lsp.client import Client
from fastcoder_lsp.lsp.endpoint import Endpoint
from fastcoder_lsp.workspace.document import position_at
from fastcoder_lsp.workspace.documents import Documents

METHOD: Final = "fastcoder/late"


def tell_late(endpoint: Endpoint, client: Client, documents: Documents, late: Late) -> None:
    """Tell the client, if it wants that and the document is still the same."""
    document = documents.get(late.uri)
    if not client.shows_late or document is None or document.version != late.version:
        return
    at = position_at(document.clean_text, late.offset, client.encoding)
    endpoint.notify(
        METHOD,
        {
            "textDocument": {"uri": late.uri, "version": late.version},
            "position": {"line": at.line, "character": at.character},
        },
    )
