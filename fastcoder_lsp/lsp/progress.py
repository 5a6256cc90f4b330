"""The editor's progress bar for work that takes seconds: `$/progress` with a token that the client made first."""

from functools import partial
from itertools import count

from lsprotocol import types

from fastcoder_lsp.lsp.endpoint import Endpoint


class WorkProgress:
    """One kind of work, shown as one progress each time: begin, reports, end, in this order whatever comes when.

    Args:
        endpoint: the connection.
        name: tells this work's tokens from others'.
        title: what the user reads.
    """

    def __init__(self, endpoint: Endpoint, name: str, title: str) -> None:
        self._endpoint, self._name, self._title = endpoint, name, title
        self._latest = ("", 0)
        self._tokens = count(1)
        self._token: str | None = None
        self._begun = False

    def update(self, message: str, percent: int) -> None:
        """The work goes on; the first time, it begins."""
        self._latest = (message, percent)
        if self._token is None:
            self._create(f"fastcoder/{self._name}/{next(self._tokens)}")
        elif self._begun:
            self._report(types.WorkDoneProgressReport(message=message, percentage=percent))

    def end(self, message: str) -> None:
        """The work is over, if there was any."""
        if self._token is not None and self._begun:
            self._report(types.WorkDoneProgressEnd(message=message))
        self._token, self._begun = None, False

    def _create(self, token: str) -> None:
        self._token = token
        params = types.WorkDoneProgressCreateParams(token=token)
        self._endpoint.ask("window/workDoneProgress/create", params, partial(self._begin, token))

    def _begin(self, token: str, _: object) -> None:
        """The client made the token; nothing is shown if the work has ended meanwhile."""
        if token == self._token:
            self._begun = True
            message, percent = self._latest
            self._report(types.WorkDoneProgressBegin(self._title, percentage=percent, message=message))

    def _report(self, value: object) -> None:
        assert self._token is not None
        self._endpoint.notify("$/progress", types.ProgressParams(token=self._token, value=value))
