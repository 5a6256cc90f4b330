"""What of the environment goes along to a process that outlives the editor: what programs and libraries need to run.

An editor's environment may hold tokens, sockets of agents, and paths of the repository that is open; a process that
serves others too must not have them.
"""

import os
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
