"""The scripted server with a tokenizer that can encode, and a drafter that reads the datastore (or the one named)."""

import sys
from functools import partial

from fastcoder_lsp.cli.serve import leave, take_wire
from fastcoder_lsp.config import Settings
from fastcoder_lsp.core import Progress
from fastcoder_lsp.host.local import open_alone
from fastcoder_lsp.lsp.server import ServeOptions, serve
from fastcoder_lsp.runtime.parts import Model
from tests.completion.toys import Encoding, toy_model
from tests.lsp.scripted_server import ScriptedEngine, scripted_runtime


def load(_settings: Settings, _progress: Progress) -> Model:
    return toy_model(ScriptedEngine("suggested = 1", 0.0), Encoding())


if __name__ == "__main__":
    stdin, stdout = take_wire()
    leave(
        serve(
            stdin, stdout, partial(open_alone, load, scripted_runtime), ServeOptions(settings={"drafter": sys.argv[1]})
        )
    )
