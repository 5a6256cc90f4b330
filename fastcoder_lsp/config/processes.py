"""Commands, folder and environment of child processes, so that no repository chooses the code that runs.

Editors start the server in the open repository. There, a relative entry of PATH (on Windows every search) finds the
repository's programs, and `python -m` finds its modules. Absolute entries of PATH stay in use.
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
"""Variables that select the model, or change how it is computed."""
_BEGINNINGS: Final = (*_COMPUTING, "DYLD_", "LC_", "XDG_")
_SECRETS: Final = ("TOKEN", "SECRET", "PASSWORD", "CREDENTIAL", "API_KEY")


def find_program(name: str) -> str | None:
    """The absolute path of a program in an absolute entry of PATH; None if there is none.

    Args:
        name: without folders; on Windows without its ending too.
    """
    endings = os.environ.get("PATHEXT", ".EXE").split(os.pathsep) if os.name == "nt" else [""]
    for folder in os.environ.get("PATH", os.defpath).split(os.pathsep):
        for ending in endings if Path(folder).is_absolute() else ():
            program = Path(folder, f"{name}{ending}")
            with suppress(OSError):  # no permission, or an invalid name
                if program.is_file() and os.access(program, os.X_OK):
                    return str(program)
    return None


def python_command(module: str, *arguments: str) -> tuple[str, ...]:
    """A command that runs one of our modules; `-P` keeps Python from importing from the working directory."""
    return (sys.executable, "-P", "-m", module, *arguments)


def neutral_folder() -> Path:
    """A working directory without a repository's files: whoever may write there can change this program anyway."""
    folder = Path(os.__file__).parent
    return folder if folder.is_dir() else Path(sys.base_prefix)  # the standard library may come as an archive


def host_environment() -> dict[str, str]:
    """The environment of a shared process: known variables without secrets."""
    return {
        name: value
        for name, value in os.environ.items()
        if (name.upper() in _NAMES or name.upper().startswith(_BEGINNINGS)) and not _secret(name)
    }


def computing_environment() -> tuple[str, ...]:
    """The variables that change what a host computes, as sorted lines; editors share a host only if they agree."""
    among = host_environment().items()
    return tuple(sorted(f"{name}={value}" for name, value in among if name.upper().startswith(_COMPUTING)))


def _secret(name: str) -> bool:
    return any(word in name.upper() for word in _SECRETS)
