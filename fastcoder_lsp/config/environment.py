"""The program's environment: its own folders, the processor, and commands for child processes.

No repository may choose the code that runs: editors start the server in the open repository. There, a relative entry of
PATH (on Windows every search) finds the repository's programs, and `python -m` finds its modules. Absolute entries of
PATH stay in use.
"""

import os
import platform
import sys
import tempfile
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from fastcoder_lsp.errors import UsageError


def cache_folder() -> Path:
    """The folder for files that can be made again (models, conversions, indexes); it may not exist yet.

    FASTCODER_CACHE overrides the platform's own cache folder. Raises UsageError if it is a relative path: the folder
    holds compiled code, so it must not depend on the working directory.
    """
    import platformdirs  # noqa: PLC0415 absent where a bare checkout is timed on a GPU

    override = os.environ.get("FASTCODER_CACHE")
    try:
        folder = Path(override).expanduser() if override else platformdirs.user_cache_path("fastcoder-lsp")
    except RuntimeError as error:  # an unknown user without HOME
        raise UsageError(
            "no cache folder: this user has no home folder", "Set FASTCODER_CACHE to an absolute path."
        ) from error
    if not folder.is_absolute():
        raise UsageError(
            f"the cache folder is a relative path: {folder}",
            "Set FASTCODER_CACHE (or XDG_CACHE_HOME) to an absolute path.",
        )
    return folder


def usage_folder() -> Path:
    """The folder of the counts for `report`, or FASTCODER_USAGE; it may not exist yet. Raises as `cache_folder`."""
    override = os.environ.get("FASTCODER_USAGE")
    return Path(override).expanduser() if override else cache_folder() / "usage"


def own_settings_file() -> Path | None:
    """The user's own settings file for all editors and commands, which need not exist; None without a home folder.

    It is below XDG_CONFIG_HOME, else in the platform's folder for settings.
    """
    import platformdirs  # noqa: PLC0415 as in `cache_folder`

    named = os.environ.get("XDG_CONFIG_HOME")
    try:
        folder = Path(named) / "fastcoder" if named else platformdirs.user_config_path("fastcoder", appauthor=False)
    except RuntimeError:  # an unknown user without HOME
        return None
    if not folder.is_absolute():  # as the XDG specification has it
        folder = Path(os.path.expanduser("~")) / ".config" / "fastcoder"  # noqa: PTH111 no error without a home
    return folder / "fastcoder.toml" if folder.is_absolute() else None


def runtime_folders() -> tuple[Path, ...]:
    """Folders for sockets and locks, which a restart of the machine may delete; the best first. None may exist yet.

    The caller must check that the folder belongs to the user, because others may write beside the second one. Raises as
    `cache_folder`.
    """
    named = os.environ.get("XDG_RUNTIME_DIR")
    own = os.geteuid() if os.name != "nt" else 0
    system = (Path(named) / "fastcoder-lsp",) if named and Path(named).is_absolute() else ()
    shared = () if os.name == "nt" else (Path(tempfile.gettempdir()) / f"fastcoder-lsp-{own}",)
    return (*system, *shared, cache_folder() / "run")


def kernels_folder() -> Path:
    """The folder for compiled machine code (FASTCODER_KERNELS, else in the cache); raises as `cache_folder`."""
    override = os.environ.get("FASTCODER_KERNELS")
    if not override:
        return cache_folder() / "kernels"
    folder = Path(override).expanduser()
    if not folder.is_absolute():
        raise UsageError(f"FASTCODER_KERNELS is a relative path: {folder}", "Set it to an absolute path.")
    return folder


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
    """The path of a program (`name` without folders, or ending on Windows) in an absolute entry of PATH, or None."""
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
        if (name.upper() in _NAMES or name.upper().startswith(_BEGINNINGS))
        and not any(word in name.upper() for word in _SECRETS)
    }


def computing_environment() -> tuple[str, ...]:
    """The variables that change what a host computes, as sorted lines; editors share a host only if they agree."""
    among = host_environment().items()
    return tuple(sorted(f"{name}={value}" for name, value in among if name.upper().startswith(_COMPUTING)))


def processor() -> str:
    """The processor's name with its family and model, or its architecture; and the kind that `forced_kind` gives."""
    kind = forced_kind()
    return _name() if kind is None else f"{_name()} as {kind}"


def usable_cores() -> int:
    """Virtual cores that this process may use."""
    return len(usable_cpus())


def usable_cpus() -> frozenset[int]:
    """The numbers of the virtual cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return frozenset(os.sched_getaffinity(0))
    return frozenset(range(os.cpu_count() or 1))


def forced_kind() -> str | None:
    """The kind of instructions (`engine.int8.dot`) that the environment variable FASTCODER_KIND asks for.

    For tests and benchmarks: one machine can run the code of several kinds of CPUs. None, the default, is the fastest.
    """
    return os.environ.get("FASTCODER_KIND") or None


def missing_packages(*names: str) -> list[str]:
    """The missing ones of the packages; imports none of them."""
    return [name for name in names if not _installed(name)]


def _installed(name: str) -> bool:
    try:
        return find_spec(name) is not None
    except (ImportError, ValueError):
        return False


def _name() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    facts = dict(line.split(":", 1) for line in lines if ":" in line)
    by_key = {key.strip(): value.strip() for key, value in facts.items()}
    family = f"family {by_key.get('cpu family', '?')} model {by_key.get('model', '?')}"
    return f"{by_key.get('model name', platform.machine())} ({family})"
