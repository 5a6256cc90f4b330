"""The local model in place of a failing server, loaded at the first question that fails.

Its suggestions are shown only while the server fails, because the server's would differ. It is unloaded after the
server has answered for a while.
"""

import threading
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Final

from fastcoder_lsp.completion.protocol import (
    Answered,
    Ask,
    Enable,
    Event,
    Forgotten,
    HostListener,
    Load,
    Made,
    ModelHost,
    OpenHost,
    StatusChanged,
)
from fastcoder_lsp.completion.question import Question
from fastcoder_lsp.completion.status import Status
from fastcoder_lsp.config import Settings
from fastcoder_lsp.core import Reason
from fastcoder_lsp.workspace.open_texts import OpenTexts

_ANSWERS_TO_UNLOAD: Final = 20
"""Answers of the server until the model is unloaded; a server that fails again soon would reload it."""


class Fallback:
    """Filters the local model's events for the front.

    Attributes:
        host: of the local model; commands cost nothing before it is loaded.
    """

    def __init__(
        self,
        open_local: OpenHost,
        listener: HostListener,
        settings: Settings,
        folders: Mapping[Path, Settings],
        texts: OpenTexts,
    ) -> None:
        self._listener = listener
        self._lock = threading.Lock()
        self._server_failure: Reason | None = None
        self._opened, self._unloaded, self._server_answers = False, False, 0
        self.host: ModelHost = open_local(self.on, settings, folders, texts)

    @property
    def active(self) -> bool:
        """Whether it stands in now."""
        return self._server_failure is not None

    def ask(self, question: Question, why: Reason) -> None:
        """Let the local model answer; `why`: the server's failure."""
        self._begin(why)
        self.host.send(Ask(question))

    def load(self, ticket: int, why: Reason) -> None:
        """Load the local model; `why`: the server's failure."""
        self._begin(why)
        self.host.send(Load(ticket))

    def server_answered(self) -> None:
        """Stop standing in."""
        with self._lock:
            self._server_failure, self._server_answers = None, self._server_answers + 1
            unload = self._opened and not self._unloaded and self._server_answers >= _ANSWERS_TO_UNLOAD
            self._unloaded = self._unloaded or unload
        if unload:
            self.host.send(Enable(False))

    def _begin(self, why: Reason) -> None:
        with self._lock:
            self._server_failure, self._server_answers, self._opened = why, 0, True
            again, self._unloaded = self._unloaded, False
        if again:
            self.host.send(Enable(True))

    def on(self, event: Event) -> None:
        """Handle an event of the local model, on one of its threads."""
        why = self._server_failure
        match event:
            case Answered(number, answer) if why is not None and answer.outcome == "failed":
                # If both fail, report the server's reason: the user can act on it.
                self._listener(Answered(number, replace(answer, reason=why)))
            case Made() | Forgotten() if why is None:
                pass
            case StatusChanged(status):
                if why is not None:
                    self._listener(StatusChanged(_while_standing_in(status, why)))
            case _:
                self._listener(event)


def _while_standing_in(status: Status, why: Reason) -> Status:
    """The local model's status with the server's failure; only the latter if both failed."""
    if status.state == "error":
        return Status("error", message=why.text, hint=why.hint)
    message = status.message or f"{why.text} The local model answers meanwhile."
    return replace(status, message=message, hint=status.hint or why.hint)
