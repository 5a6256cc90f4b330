"""No drafts: plain decoding, the baseline of all comparisons."""

from typing_extensions import override

from fastcoder_lsp.core import NO_DRAFT, Draft, DraftContext
from fastcoder_lsp.draft.base import Drafter, Specification

NONE = Specification("none", "nothing: plain decoding", parameters=None, make=lambda _parameters, _parts: NoDrafter())


class NoDrafter(Drafter):
    """A drafter without guesses."""

    def __init__(self) -> None:
        super().__init__(NONE)

    @override
    def propose(self, context: DraftContext, nodes: int) -> Draft:
        return NO_DRAFT
