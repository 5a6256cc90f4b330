"""One completion by a model outside of this process, for the command line: no engine is imported."""

from collections.abc import Callable, Mapping
from pathlib import Path

from typing_extensions import override

from fastcoder_lsp.completion.protocol import OpenHost, Succession
from fastcoder_lsp.completion.service import CompletionService, ServiceListener
from fastcoder_lsp.completion.status import Status
from fastcoder_lsp.config import Settings
from fastcoder_lsp.core import Completion, CompletionRequest
from fastcoder_lsp.errors import FastcoderError
from fastcoder_lsp.workspace.document import OpenTexts


def complete_elsewhere(
    settings: Settings,
    request: CompletionRequest,
    progress: Callable[[int | None, str], None],
    folders: Mapping[Path, Settings],
    open_host: OpenHost,
) -> Completion | None:
    """The completion by a model outside of this process: the shared process's, or a server's.

    None if the shared process answers with another model than the settings name, until that one is ready. Arguments as
    of `once.complete_once`; `open_host` opens a host there. Raises FastcoderError as that one.
    """
    told = _AnsweringModel(progress)
    service = CompletionService(lambda listener: open_host(listener, settings, folders, OpenTexts()), told)
    try:
        near = Path(request.snapshot.path) if request.snapshot.path and folders else None
        if service.preload().result() and near is not None:
            service.preload(near).result()
        if told.follows:
            return None
        completion = service.submit(request).result()
    finally:
        service.shutdown()
    if told.failure is not None:
        raise told.failure
    return completion


class _AnsweringModel(ServiceListener):
    """Shows the progress of loading, and keeps the last failure and whether another model follows."""

    def __init__(self, progress: Callable[[int | None, str], object]) -> None:
        self._progress = progress
        self.failure: FastcoderError | None = None
        self.follows = False

    @override
    def status(self, status: Status) -> None:
        self._progress(status.percent, status.message if status.state == "loading" else "")
        if status.state == "error":
            self.failure = FastcoderError(status.message, status.hint)

    @override
    def succession(self, succession: Succession) -> None:
        self.follows = bool(succession.following)
