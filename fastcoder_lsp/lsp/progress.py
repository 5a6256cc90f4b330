"""The editor's progress bar while the model loads: `$/progress` with a token that the client made first."""

import asyncio
import logging
from itertools import count

from lsprotocol import types

from fastcoder_lsp.completion.status import Status
from fastcoder_lsp.lsp.endpoint import Endpoint, RpcError, background

logger = logging.getLogger(__name__)


class LoadingProgress:
    """Shows "loading" statuses as one progress each time: begin, reports, end, in this order whatever comes when."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint
        self._changed = asyncio.Event()
        self._latest = Status("starting")
        self._tokens = count(1)
        self._shown: asyncio.Task[None] | None = None

    def show(self, status: Status) -> None:
        """The state changed."""
        self._latest = status
        self._changed.set()
        if status.state == "loading" and (self._shown is None or self._shown.done()):
            self._shown = background(self._show(f"fastcoder/loading/{next(self._tokens)}"), "progress")

    async def _show(self, token: str) -> None:
        try:
            await self._endpoint.call("window/workDoneProgress/create", types.WorkDoneProgressCreateParams(token=token))
        except RpcError as error:
            logger.info("the client shows no progress: %s", error.message)
            return
        percent = self._latest.percent or 0
        self._report(token, types.WorkDoneProgressBegin("fastcoder: loading the model", percentage=percent))
        while self._latest.state == "loading":
            self._report(token, types.WorkDoneProgressReport(self._latest.message, percentage=self._latest.percent))
            self._changed.clear()
            await self._changed.wait()
        self._report(token, types.WorkDoneProgressEnd(self._latest.message or self._latest.state))

    def _report(self, token: str, value: object) -> None:
        self._endpoint.notify("$/progress", types.ProgressParams(token=token, value=value))
