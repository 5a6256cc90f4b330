"""A completion service whose host is a server."""

from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import replace
from pathlib import Path
from typing import Any

from fastcoder_lsp.completion.protocol import HostListener, OpenHost
from fastcoder_lsp.completion.question import Policy
from fastcoder_lsp.completion.service import CompletionService
from fastcoder_lsp.config import Settings
from fastcoder_lsp.core import Completion, CompletionRequest, Reason, Snapshot
from fastcoder_lsp.remote.client import NetworkOptions, Timeouts
from fastcoder_lsp.remote.host import NetworkHost
from fastcoder_lsp.workspace.document import OpenTexts
from tests.completion.listening import Heard
from tests.host.scripted import ScriptedHost

URI = "file:///w/a.py"
WAIT_S = 60.0
WHOLE = Policy(ahead=False)


class Front:
    """A service whose host is the server at `url`, what it was told, and short ways to ask it.

    `local` opens the local model of `remote.fallback`; `settings` are named by their fields.
    """

    def __init__(
        self,
        url: str,
        local: OpenHost | None = None,
        *,
        network: NetworkOptions | None = None,
        timeouts: Timeouts | None = None,
        pauses_s: tuple[float, ...] = (0.0,),
        folders: tuple[Path, ...] = (),
        **settings: Any,
    ) -> None:
        values: dict[str, Any] = {"remote_url": url, "remote_fallback": local is not None, **settings}
        self.settings = replace(Settings(), **values)
        heard = Heard()
        self.statuses, self.notices, self.lates = heard.statuses, heard.notices, heard.lates

        def open_host(listener: HostListener) -> NetworkHost:
            used = network or NetworkOptions(lambda: "")
            opener = local or ScriptedHost
            roots = dict.fromkeys(folders, self.settings)
            return NetworkHost(
                listener, self.settings, roots, OpenTexts(), used, opener, timeouts or Timeouts(), pauses_s
            )

        self.service = CompletionService(open_host, heard)
        self._version = 0

    def submit(
        self, before: str, after: str = "", policy: Policy = WHOLE, *, uri: str = URI, invoked: bool = False
    ) -> "Future[Completion]":
        self._version += 1
        path = uri.removeprefix("file://") if uri.startswith("file:") else None
        snapshot = Snapshot(uri, path, "python", self._version, before + after)
        return self.service.submit(CompletionRequest(snapshot, len(before), invoked=invoked), policy)

    def ask(self, before: str, after: str = "", policy: Policy = WHOLE, **named: Any) -> Completion:
        return self.submit(before, after, policy, **named).result(WAIT_S)

    def reason(self, before: str = "x = ", after: str = "", policy: Policy = WHOLE, **named: Any) -> Reason:
        completion = self.ask(before, after, policy, **named)
        assert completion.reason is not None, f"there is a text: {completion.text!r}"
        return completion.reason

    def code(self, *arguments: Any, **named: Any) -> str:
        return self.reason(*arguments, **named).code


Fronts = Callable[..., Front]
