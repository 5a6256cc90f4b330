"""One completion through the service, for the command line: open, ask, close.

The first answer on a machine does not wait for anything that only makes answers quicker: the drafter's machine code is
compiled after it, and no index is built.
"""

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from typing_extensions import override

from fastcoder_lsp.completion.service import CompletionService, ServiceListener
from fastcoder_lsp.completion.status import Status
from fastcoder_lsp.config import Settings, cache_folder
from fastcoder_lsp.core import Completion, CompletionRequest, Progress
from fastcoder_lsp.core.controls import counted
from fastcoder_lsp.draft.base import NONE
from fastcoder_lsp.errors import FastcoderError, understood
from fastcoder_lsp.prompt import NO_CONTEXT
from fastcoder_lsp.prompt.retrieval import LatestPrompt
from fastcoder_lsp.runtime.compile_ahead import compile_later, needed
from fastcoder_lsp.runtime.load import load_runtime, wants_datastore
from fastcoder_lsp.runtime.parts import Runtime, WorkspaceView
from fastcoder_lsp.scheduling.direct import DirectHost
from fastcoder_lsp.workspace.folders import words_file
from fastcoder_lsp.workspace.rules import ReadingRules

if TYPE_CHECKING:
    from fastcoder_lsp.runtime.context import RepositoryContext
    from fastcoder_lsp.workspace.datastore import Datastore
    from fastcoder_lsp.workspace.live_index import IndexProgress

_INDEX_S, _UPDATE_S = 600.0, 2.0
"""Bounds on reading a workspace, and on reading its changes; drafts come from the part read by then."""
_CONTEXT_S: Final = 5.0
"""Bound on reading a workspace for the code of other files in the prompt, beyond the loading of the model."""
_STOP_S = 5.0


def complete_once(
    settings: Settings,
    request: CompletionRequest,
    progress: Callable[[int | None, str], None],
    folders: Mapping[Path, Settings] | None = None,
    *,
    shown: Callable[[LatestPrompt], None] | None = None,
    notice: Callable[[str], None] = lambda _: None,
    traced: bool = False,
) -> tuple[Completion, str]:
    """The completion, and where its model came from.

    Args:
        settings: of the session.
        request: the question.
        progress: receives percent and the activity; an empty text: none.
        folders: the workspace's folders and their settings. If the drafter reads the datastore, and a server or a trace
            has built one, their index is updated first, as far as that goes quickly. None: no drafts from files or
            common code.
        shown: receives the prompt, if there was one.
        notice: told which part of the workspace was left out of the prompt.
        traced: whether the origin of tokens is asked for: then everything is compiled and indexed first, so that the
            command drafts from the same data as an editor's server.

    Raises:
        FastcoderError: why it was impossible, and what to do.
    """
    failures: list[FastcoderError] = []
    runtimes: list[Runtime] = []
    first = not traced and settings.drafter == Settings().drafter and needed()

    def load(tell: Progress) -> Runtime:
        try:
            runtimes.append(_load(settings, request, folders, tell, notice, opened, traced=traced, first=first))
        except BaseException as failure:  # Rust extensions raise BaseExceptions
            failures.append(understood(failure))
            raise
        return runtimes[0]

    class LoadProgress(ServiceListener):
        @override
        def status(self, status: Status) -> None:
            if status.state in {"starting", "loading"} and not status.message:
                return  # an empty text would end the progress
            progress(status.percent, status.message if status.state == "loading" else "")
            if status.state == "error":
                failures.append(FastcoderError(status.message, status.hint))

    with ExitStack() as opened:
        service = CompletionService(partial(DirectHost, load=load), LoadProgress())
        try:
            service.preload().result()  # so that the completion's own times exclude loading
            completion = service.submit(request).result()
        finally:
            service.shutdown()
    if failures:
        raise failures[0]
    if first:
        compile_later()
    runtime = runtimes[0]
    if shown is not None and (prompt := runtime.prompts.shown(request.snapshot.uri)) is not None:
        shown(replace(prompt, prefill_ms=runtime.costs.prefill_ms))
    return completion, runtime.info.source


def _load(
    settings: Settings,
    request: CompletionRequest,
    folders: Mapping[Path, Settings] | None,
    tell: Progress,
    notice: Callable[[str], None],
    opened: ExitStack,
    *,
    traced: bool,
    first: bool,
) -> Runtime:
    """Load the model, and read the workspace; `first`: for this machine's first answer. `opened` ends the reading."""
    used = replace(settings, drafter=NONE.name) if first else settings
    wanted = folders is not None and (traced or (not first and _is_indexed())) and wants_datastore(used)
    store = _datastore(folders or {}, tell) if wanted else None
    context = _context(settings, folders or {})
    words = context.words_at(Path(request.snapshot.path)) if context is not None and request.snapshot.path else None
    around = WorkspaceView(store.pin if store else None, context=context or NO_CONTEXT)
    runtime = load_runtime(used, tell, around, drafts=not first)
    if store is not None:
        opened.callback(store.stop, _STOP_S)
        store.start(runtime.tokenizer)
        tell(0.0, "reading the workspace and common code")
        store.wait_idle(_INDEX_S if traced else _UPDATE_S)
    if words is not None:
        bound_s = _INDEX_S if traced else _CONTEXT_S if runtime.prompts.options.context_tokens else 0.0
        if bound_s:
            tell(0.0, "reading the workspace")
        if not words.wait_idle(bound_s):
            words.stop()
            opened.callback(words.wait_idle, _STOP_S)  # it stores the files read so far
            if bound_s:
                notice(
                    f"{counted(len(words.index), 'file')} of {words.root} could be read in {bound_s:.0f} s: the prompt "
                    "has no code of the others. Run the command again to read on."
                )
    return runtime


def _context(settings: Settings, folders: Mapping[Path, Settings]) -> "RepositoryContext | None":
    """Searches folders for related code; None unless their settings and the session's allow it."""
    from fastcoder_lsp.runtime.context import ReadableFolder, RepositoryContext

    allowed = {root: own for root, own in folders.items() if own.context_enabled}
    if not settings.context_enabled or not allowed:
        return None
    readable = [
        ReadableFolder(root, ReadingRules(tuple(folders), own), words_file(cache_folder(), root, own))
        for root, own in allowed.items()
    ]

    def folder_of(path: Path) -> ReadableFolder | None:
        holding = [one for one in readable if path.is_relative_to(one.root)]
        return max(holding, key=lambda one: len(one.root.parts), default=None)

    return RepositoryContext(folder_of, dict, urgent=True)


def _is_indexed() -> bool:
    """Whether corpora of common code were built here; that takes far longer than an answer."""
    from fastcoder_lsp.index.corpus import Corpora  # late, because it imports a compiler

    return bool(Corpora(cache_folder()).infos())


def _datastore(folders: Mapping[Path, Settings], tell: Progress) -> "Datastore":
    # Late, because it imports a compiler.
    from fastcoder_lsp.workspace.datastore import Datastore
    from fastcoder_lsp.workspace.shared_stores import SharedStores

    def report(progress: "IndexProgress") -> None:
        if progress.building and progress.total:
            tell(progress.done / progress.total, "reading the workspace")

    return Datastore(folders, SharedStores(cache_folder(), live=False), report)
