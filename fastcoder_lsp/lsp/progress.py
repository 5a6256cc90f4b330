"""The editor's progress bar while the model loads: `$/progress` with a token that the client made first."""

from functools import partial
from itertools import count

from lsprotocol import types

from fastcoder_lsp.completion.status import Status
from fastcoder_lsp.lsp.endpoint import Endpoint


class LoadingProgress:
    """Shows "loading" statuses as one progress each time: begin, reports, end, in this order whatever comes when."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint
        self._latest = Status("starting")
        self._tokens = count(1)
        self._token: str | None = None
        self._begun = False

    def show(self, status: Status) -> None:
        """The state changed."""
        self._latest = status
        if status.state == "loading":
            if self._token is None:
                self._create(f"fastcoder/loading/{next(self._tokens)}")
            elif self._begun:
                self._report(types.WorkDoneProgressReport(message=status.message, percentage=status.percent))
        elif self._token is not None:
            if self._begun:
                self._report(types.WorkDoneProgressEnd(message=status.message or status.state))
            self._token, self._begun = None, False

    def _create(self, token: str) -> None:
        self._token = token
        params = types.WorkDoneProgressCreateParams(token=token)
        self._endpoint.ask("window/workDoneProgress/create", params, partial(self._begin, token))

    def _begin(self, token: str, _: object) -> None:
        """The client made the token; nothing is shown if loading has ended meanwhile."""
        if token == self._token:
            self._begun = True
            title = "fastcoder: loading the model"
            percent = self._latest.percent or 0
            self._report(types.WorkDoneProgressBegin(title, percentage=percent, message=self._latest.message))

    def _report(self, value: object) -> None:
        assert self._token is not None
        self._endpoint.notify("$/progress", types.ProgressParams(token=self._token, value=value))
