"""The real server whose model lives elsewhere; at its end it writes what it has imported into a file."""

import sys
from pathlib import Path

from fastcoder_lsp.cli.serve import leave, take_wire
from fastcoder_lsp.lsp.server import ServeOptions, serve
from tests.host.scripted import ScriptedHost

if __name__ == "__main__":
    stdin, stdout = take_wire()
    code = serve(stdin, stdout, ScriptedHost, ServeOptions())
    Path(sys.argv[1]).write_text("\n".join(sys.modules), encoding="utf-8")
    leave(code)
