"""The model on this machine, in the place of a server that does not answer: opened at the first such question.

Owns when it speaks: what it makes is told only while it stands in, for the server would say something else. It is given
back once the server has answered for a while.
"""

import threading
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Final

from fastcoder_lsp.completion.host import HostListener, ModelHost, OpenHost
from fastcoder_lsp.completion.question import Answer, Question
from fastcoder_lsp.completion.status import Status
from fastcoder_lsp.completion.suggestions import Suggestion
from fastcoder_lsp.config import Settings
from fastcoder_lsp.core import Counts, Reason

_CALM: Final = 20
"""After so many answers of the server the model is given back: what fails soon again would have it loaded anew."""


class Fallback:
    """A `HostListener` between the model on this machine and the front.

    Attributes:
        host: the model on this machine; what it is told before it is needed costs nothing.

    Args:
        open_local: opens it.
        listener: the front.
        settings: of the model.
        folders: of the workspace, with their settings.
    """

    def __init__(
        self, open_local: OpenHost, listener: HostListener, settings: Settings, folders: Mapping[Path, Settings]
    ) -> None:
        self._listener = listener
        self._lock = threading.Lock()
        self._why: Reason | None = None
        self._opened, self._given_back, self._calm = False, False, 0
        self.host: ModelHost = open_local(self, settings, folders)

    @property
    def active(self) -> bool:
        """Whether it stands in now."""
        return self._why is not None

    def ask(self, question: Question, why: Reason) -> None:
        """It is to answer this, for `why` the server does not."""
        self._begin(why)
        self.host.ask(question)

    def load(self, reply: Callable[[bool], object], why: Reason) -> None:
        """It is to be made ready, for `why` the server is not."""
        self._begin(why)
        self.host.load(reply)

    def calm(self) -> None:
        """The server has answered."""
        with self._lock:
            self._why, self._calm = None, self._calm + 1
            give_back = self._opened and not self._given_back and self._calm >= _CALM
            self._given_back = self._given_back or give_back
        if give_back:
            self.host.enable(enabled=False)

    def _begin(self, why: Reason) -> None:
        with self._lock:
            self._why, self._calm, self._opened = why, 0, True
            again, self._given_back = self._given_back, False
        if again:
            self.host.enable(enabled=True)

    # `HostListener`, from its threads -------------------------------------------------------------------------------

    def answered(self, number: int, answer: Answer) -> None:
        """Where it has failed as well, the server's reason is the one that the user can act on."""
        why = self._why
        if why is not None and answer.outcome == "failed":
            answer = replace(answer, reason=why)
        self._listener.answered(number, answer)

    def made(self, uri: str, suggestion: Suggestion) -> None:
        """See `HostListener`."""
        if self.active:
            self._listener.made(uri, suggestion)

    def forgotten(self, uri: str | None) -> None:
        """See `HostListener`."""
        if self.active:
            self._listener.forgotten(uri)

    def counted(self, what: str, by: int) -> None:
        """See `HostListener`."""
        self._listener.counted(what, by)

    def worked(self, counts: Counts) -> None:
        """See `HostListener`."""
        self._listener.worked(counts)

    def told(self, status: Status) -> None:
        """Its state is what the user sees while it stands in; where there is none, why the server does not answer."""
        why = self._why
        if why is None:
            return
        if status.state == "error":
            self._listener.told(Status("error", message=why.text, hint=why.hint))
        else:
            message = status.message or f"{why.text} The local model answers meanwhile."
            self._listener.told(replace(status, message=message, hint=status.hint or why.hint))

    def indexing(self, done: int, total: int, *, building: bool) -> None:
        """See `HostListener`."""
        self._listener.indexing(done, total, building=building)

    def notice(self, text: str) -> None:
        """See `HostListener`."""
        self._listener.notice(text)
