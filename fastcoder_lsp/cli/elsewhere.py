"""One completion by a model outside of this process, for the command line: no engine is imported."""

from collections.abc import Callable, Mapping
from pathlib import Path

from fastcoder_lsp.completion.protocol import OpenHost, Succession
from fastcoder_lsp.completion.service import CompletionService
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
    failures: list[FastcoderError] = []
    successions: list[Succession] = []

    def on_status(status: Status) -> None:
        progress(status.percent, status.message if status.state == "loading" else "")
        if status.state == "error":
            failures.append(FastcoderError(status.message, status.hint))

    service = CompletionService(
        lambda listener: open_host(listener, settings, folders, OpenTexts()),
        on_status,
        on_succession=successions.append,
    )
    try:
        near = Path(request.snapshot.path) if request.snapshot.path and folders else None
        if service.preload().result() and near is not None:
            service.preload(near).result()
        if any(one.following for one in successions[-1:]):
            return None
        completion = service.submit(request).result()
    finally:
        service.shutdown()
    if failures:
        raise failures[-1]
    return completion
