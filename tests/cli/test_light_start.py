"""What answers without a model imports nothing large: the modules are counted, not the time."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from fastcoder_lsp.config.processes import neutral_folder, python_command

ROOT = Path(__file__).parents[2]
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


@pytest.mark.parametrize("entries", [f"{ROOT}{os.pathsep}", f"{os.pathsep}{ROOT}", f".{os.pathsep}{ROOT}"])
def test_a_process_of_ours_begins_in_pythons_own_folder(entries: str) -> None:
    """Though PYTHONPATH names the working folder, as with a colon too many: there it is where Python's modules are."""
    command = python_command("fastcoder_lsp.cli.main", "model", "list")
    environment = os.environ | {"PYTHONPATH": entries}
    done = subprocess.run(command, capture_output=True, text=True, cwd=neutral_folder(), env=environment, check=False)
    assert done.returncode == 0, done.stderr
