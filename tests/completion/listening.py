"""A listener that keeps what a service tells."""

from fastcoder_lsp.completion.protocol import Indexing
from fastcoder_lsp.completion.service import ServiceListener
from fastcoder_lsp.completion.status import Status
from fastcoder_lsp.core import Late


class Heard(ServiceListener):
    def __init__(self, statuses: list[Status] | None = None, lates: list[Late] | None = None) -> None:
        self.statuses = list[Status]() if statuses is None else statuses
        self.notices: list[str] = []
        self.lates = list[Late]() if lates is None else lates
        self.indexed: list[Indexing] = []

    def status(self, status: Status) -> None:
        self.statuses.append(status)

    def notice(self, text: str) -> None:
        self.notices.append(text)

    def late(self, late: Late) -> None:
        self.lates.append(late)

    def indexing(self, progress: Indexing) -> None:
        self.indexed.append(progress)
