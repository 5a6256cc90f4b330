"""The scripted server with a tokenizer that can encode, and a drafter that reads the datastore (or the one named)."""

import sys

import numpy as np

from fastcoder_lsp.cli.serve import leave, take_wire
from fastcoder_lsp.config import Settings
from fastcoder_lsp.core import Progress, StepCosts
from fastcoder_lsp.draft.none import NoDrafter
from fastcoder_lsp.engine.one_slot import OneSlot
from fastcoder_lsp.lsp.server import Options, serve
from fastcoder_lsp.runtime.parts import Limits, Runtime, Surroundings
from fastcoder_lsp.runtime.slots import Slots
from tests.completion.toys import Letters, ToyPrompts
from tests.index.toy_encoder import ToyEncoder
from tests.lsp.scripted_server import ScriptedEngine

_MARK = 1


class Encoding(ToyEncoder, Letters):
    """Decodes letters and encodes words; nobody here compares the two."""


def load(_settings: Settings, _progress: Progress, _around: Surroundings) -> Runtime:
    return Runtime(
        slots=Slots(OneSlot(ScriptedEngine("suggested = 1", 0.0))),
        tokenizer=Encoding(),
        prompts=ToyPrompts(lambda _: (_MARK,)),  # what is said depends on nothing
        drafter=NoDrafter(),
        allow=lambda _: np.arange(256),
        limits=Limits(max_tokens=256),
        costs=StepCosts((1, 8), (1.0, 2.0), 0.1),
    )


if __name__ == "__main__":
    stdin, stdout = take_wire()
    leave(serve(stdin, stdout, load, Options(settings={"drafter": sys.argv[1]})))
