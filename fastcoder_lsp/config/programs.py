"""Which programs are started, and where: never one that the working directory offers, never in it.

Editors start the server in the repository that is opened, so whatever is looked for "here" is the repository's: a
program by a relative entry of PATH (on Windows always), a module by an interpreter started with `-m`. A folder of the
user's own choice that PATH names by its whole path stays as it is.
"""

import os
import sys
from contextlib import suppress
from pathlib import Path


def find_program(name: str) -> str | None:
    """The whole path of a program in a folder of PATH that is named by its whole path; None where there is none.

    Args:
        name: without folders; on Windows without its ending too.
    """
    endings = os.environ.get("PATHEXT", ".EXE").split(os.pathsep) if os.name == "nt" else [""]
    for folder in os.environ.get("PATH", os.defpath).split(os.pathsep):
        for ending in endings if Path(folder).is_absolute() else ():
            program = Path(folder, f"{name}{ending}")
            with suppress(OSError):  # a folder that may not be entered, or a name that none can have
                if program.is_file() and os.access(program, os.X_OK):
                    return str(program)
    return None


def python_command(module: str, *arguments: str) -> tuple[str, ...]:
    """A command that runs one of our modules in a process of its own; `-P`: nothing is imported from where it runs."""
    return (sys.executable, "-P", "-m", module, *arguments)


def neutral_folder() -> Path:
    """A folder to work in where no repository left anything: who may write there has this program already."""
    folder = Path(os.__file__).parent
    return folder if folder.is_dir() else Path(sys.base_prefix)  # the standard library may come as an archive
