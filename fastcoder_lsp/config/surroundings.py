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
_BEGINNINGS: Final = (
    "CUDA_", "DYLD_", "FASTCODER_", "HF_", "LC_", "MKL_", "NUMBA_", "NVIDIA_", "OMP_", "OPENBLAS_", "TORCH", "TRITON_",
    "XDG_",
)  # fmt: skip


def host_environment() -> dict[str, str]:
    """The environment of a host."""
    return {
        name: value
        for name, value in os.environ.items()
        if name.upper() in _NAMES or name.upper().startswith(_BEGINNINGS)
    }
