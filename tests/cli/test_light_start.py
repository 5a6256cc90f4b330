"""What answers without a model imports nothing large: the modules are counted, not the time."""

import subprocess
import sys

import pytest

MOST_MODULES = 80
"""Of the standard library and ours, beyond what Python itself begins with; there are some fifty."""
PROGRAM = """
import sys
before = set(sys.modules)
from fastcoder_lsp.cli.main import main
try:
    main(sys.argv[1:])
except SystemExit:
    pass
print(*sorted(set(sys.modules) - before), sep="\\n")
"""


@pytest.mark.parametrize("option", ["--version", "--cpu-requirements"])
def test_it_imports_our_own_and_the_standard_library(option: str) -> None:
    done = subprocess.run([sys.executable, "-P", "-c", PROGRAM, option], capture_output=True, text=True, check=True)
    modules = done.stdout.splitlines()[1:]
    strangers = {name.partition(".")[0] for name in modules} - sys.stdlib_module_names - {"fastcoder_lsp"}
    assert not strangers
    assert len(modules) < MOST_MODULES
    assert not {name for name in modules if name.startswith("fastcoder_lsp.cli.")} - {
        "fastcoder_lsp.cli.main",
        "fastcoder_lsp.cli.start",
    }
