"""Which programs are started, and where: never one that the working directory offers, never in it.

Editors start the server in the repository that is opened, so whatever is looked for "here" is the repository's: a
program by a relative entry of PATH (on Windows always), a module by an interpreter started with `-m`. A folder of the
user's own choice that PATH names by its whole path stays as it is.
"""

import os
import sys
from contextlib import suppress
from pathlib import Path
from typing import Final

_NAMES: Final = frozenset({
    "APPDATA", "COMSPEC", "HOME", "HOMEDRIVE", "HOMEPATH", "LANG", "LANGUAGE", "LD_LIBRARY_PATH", "LOCALAPPDATA",
    "LOGNAME", "NUMBER_OF_PROCESSORS", "PATH", "PATHEXT", "PROCESSOR_ARCHITECTURE", "PROGRAMDATA", "PROGRAMFILES",
    "PYTHONHOME", "PYTHONPATH", "PYTHONPYCACHEPREFIX", "SYSTEMDRIVE", "SYSTEMROOT", "TEMP", "TMP", "TMPDIR", "TZ",
    "USER", "USERNAME", "USERPROFILE", "VIRTUAL_ENV", "WINDIR",
})  # fmt: skip
_COMPUTING: Final = (
    "CUDA_", "FASTCODER_", "HF_H", "HUGGINGFACE_HUB_CACHE", "MKL_", "NUMBA_", "NVIDIA_", "OMP_", "OPENBLAS_", "TORCH",
    "TRITON_",
)  # fmt: skip
"""What decides which model is found, and how it is computed."""
_BEGINNINGS: Final = (*_COMPUTING, "DYLD_", "LC_", "XDG_")
_SECRETS: Final = ("TOKEN", "SECRET", "PASSWORD", "CREDENTIAL", "API_KEY")


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


def host_environment() -> dict[str, str]:
    """The environment of a host."""
    return {
        name: value
        for name, value in os.environ.items()
        if (name.upper() in _NAMES or name.upper().startswith(_BEGINNINGS)) and not _secret(name)
    }


def computing_environment() -> tuple[str, ...]:
    """What of it decides what a host computes, as sorted lines: editors that differ there share no host."""
    among = host_environment().items()
    return tuple(sorted(f"{name}={value}" for name, value in among if name.upper().startswith(_COMPUTING)))


def _secret(name: str) -> bool:
    return any(word in name.upper() for word in _SECRETS)
