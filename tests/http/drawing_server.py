"""The real server over a real engine with random weights, whose texts can be drawn."""

from typing import Any

from fastcoder_lsp.core import Engine, Progress
from fastcoder_lsp.draft.base import Drafter
from fastcoder_lsp.runtime.parts import Model, Runtime
from tests.completion.toys import Letters, ToyPrompts, toy_model, toy_runtime
from tests.http.toy_server import PREFIX, ToyServer

INFILL = {"input_prefix": PREFIX, "input_suffix": "\n"}
TOKENS = 16


class Spelling(Letters):
    """A token is a letter or a space, so that whatever a random model says is a text of one line."""

    def piece(self, token: int) -> bytes:
        return bytes([32 if token % 7 == 0 else 97 + token % 26])


class DrawingServer(ToyServer):
    """A server over a real engine; an answer has `TOKENS` letters at most."""

    def __init__(self, engine: Engine, drafter: Drafter) -> None:
        self.real, self.drafter = engine, drafter
        super().__init__("")

    def _load(self, _: Progress) -> Model:
        return toy_model(self.real, Spelling())

    def _runtime(self, model: Model) -> Runtime:
        prompts = ToyPrompts(lambda before: tuple(before.encode()[-40:]))
        return toy_runtime(model, prompts, str(next(self._numbers)), drafter=self.drafter, max_tokens=TOKENS)

    def text(self, **asked: Any) -> str:
        code, reply = self.call("/infill", INFILL | asked)
        assert code == 200, reply
        return str(reply["content"])
