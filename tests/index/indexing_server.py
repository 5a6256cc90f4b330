"""The scripted server with a tokenizer that can encode, and a drafter that reads the datastore (or the one named).

With `context`, the model calls the first definition of other files that its prompt holds, and no folder is scanned
twice.
"""

import math
import sys
from functools import partial

from typing_extensions import override

from fastcoder_lsp.cli.serve import leave, take_wire
from fastcoder_lsp.config import Settings
from fastcoder_lsp.core import Pieces, Progress, Snapshot, Tokens
from fastcoder_lsp.host.local import MakeRuntime, open_alone
from fastcoder_lsp.lsp.server import ServeOptions, serve
from fastcoder_lsp.prompt import Prompt, PromptBuilder
from fastcoder_lsp.prompt.context import Context
from fastcoder_lsp.runtime import folder_words
from fastcoder_lsp.runtime.parts import Model, Runtime, WorkspaceView
from tests.completion.toys import Encoding, Letters, ToyPrompts, toy_model, toy_runtime
from tests.fake_engine import MARK, SayingEngine
from tests.lsp.scripted_server import ScriptedEngine, scripted_runtime


class ContextPrompts(ToyPrompts):
    """The code of other files, and nothing else."""

    def __init__(self, context: Context) -> None:
        super().__init__(lambda _: (MARK,))
        self._context = context

    @override
    def build(self, snapshot: Snapshot, offset: int, **_: object) -> Pieces[Prompt]:
        found = yield from self._context.find(snapshot, offset, (0, len(snapshot.text)))
        text = "\n".join(one.text for one in found.snippets)
        return Prompt((*Letters().encode(text), MARK), healing=b"", typed="", template="toy")


def definition_in(prompt: Tokens) -> str:
    lines = bytes(prompt[:-1]).decode().split("\n")
    return next((line[4:].rstrip(":") for line in lines if line.startswith("def ")), "nothing = 0")


def context_runtime(model: Model, _settings: Settings, around: WorkspaceView, front: str) -> Runtime:
    prompts: PromptBuilder = ContextPrompts(around.context)
    return toy_runtime(model, prompts, front)


def load(_settings: Settings, _progress: Progress) -> Model:
    engine = SayingEngine(definition_in) if "context" in sys.argv else ScriptedEngine("suggested = 1", 0.0)
    return toy_model(engine, Encoding())


if __name__ == "__main__":
    stdin, stdout = take_wire()
    make: MakeRuntime = scripted_runtime
    if "context" in sys.argv:
        make = context_runtime
        folder_words.LEAST_BETWEEN_S = folder_words.LEAST_REPORTED_S = math.inf
    leave(serve(stdin, stdout, partial(open_alone, load, make), ServeOptions(settings={"drafter": sys.argv[1]})))
