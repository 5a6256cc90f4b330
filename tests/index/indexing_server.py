"""The scripted server with a tokenizer that can encode, and a drafter that reads the datastore (or the one named)."""

import sys
from functools import partial

from fastcoder_lsp.cli.serve import leave, take_wire
from fastcoder_lsp.config import Settings
from fastcoder_lsp.core import Progress, StepCosts
from fastcoder_lsp.engine.one_slot import OneSlot
from fastcoder_lsp.host.local import open_alone
from fastcoder_lsp.lsp.server import ServeOptions, serve
from fastcoder_lsp.runtime.parts import Model
from tests.completion.toys import Letters
from tests.index.toy_encoder import ToyEncoder
from tests.lsp.scripted_server import ScriptedEngine, scripted_runtime


class Encoding(ToyEncoder, Letters):
    """Decodes letters and encodes words; nobody here compares the two."""


def load(_settings: Settings, _progress: Progress) -> Model:
    return Model(OneSlot(ScriptedEngine("suggested = 1", 0.0)), Encoding(), StepCosts((1, 8), (1.0, 2.0), 0.1))


if __name__ == "__main__":
    stdin, stdout = take_wire()
    leave(
        serve(
            stdin, stdout, partial(open_alone, load, scripted_runtime), ServeOptions(settings={"drafter": sys.argv[1]})
        )
    )
