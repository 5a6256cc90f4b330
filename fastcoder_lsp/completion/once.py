"""One completion through the service, for the command line: open, ask, close."""

from collections.abc import Callable

from fastcoder_lsp.completion.runtime import Runtime, load_runtime
from fastcoder_lsp.completion.service import CompletionService
from fastcoder_lsp.completion.status import Status
from fastcoder_lsp.config import Settings
from fastcoder_lsp.core import Completion, CompletionRequest, Progress
from fastcoder_lsp.errors import FastcoderError


def complete_once(
    settings: Settings, request: CompletionRequest, progress: Callable[[int | None, str], None]
) -> tuple[Completion, str]:
    """The completion, and where its model came from.

    Raises:
        FastcoderError: what made it impossible, with what to do.
    """
    failures: list[FastcoderError] = []
    source: list[str] = []

    def load(tell: Progress) -> Runtime:
        try:
            runtime = load_runtime(settings, tell)
        except FastcoderError as failure:
            failures.append(failure)
            raise
        source.append(runtime.engine.info.source)
        return runtime

    def on_status(status: Status) -> None:
        progress(status.percent, status.message if status.state == "loading" else "")
        if status.state == "error":
            failures.append(FastcoderError(status.message, status.hint))

    service = CompletionService(load, on_status)
    try:
        service.preload().result()  # so that the completion's own times do not hold the loading
        completion = service.submit(request).result()
    finally:
        service.shutdown()
    if failures:
        raise failures[0]
    return completion, source[0]
