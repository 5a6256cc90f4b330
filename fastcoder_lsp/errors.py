"""The exception tree: errors that a user can cause or fix, each with a hint.

The command line prints `message` and `hint` and exits with `exit_code`; the language server shows one notice and a
status. Our own bugs are `AssertionError`s and are never caught as one of these.
"""

import errno

FAULT_HINT = "This is a bug in fastcoder-lsp. Run the command again with FASTCODER_TRACEBACK=1, and report the output."
_NO_MEMORY_TEXTS = ("allocate memory", "not enough memory", "failed to map segment", "bad_alloc", "out of memory")
"""Texts of libraries' other exceptions that mean that memory ran out."""
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_INSTALL_HINT = (
    "Install it again: pip install --force-reinstall fastcoder-lsp; in a clone: delete .venv, then run scripts/run."
)


class FastcoderError(Exception):
    """An error that a user can act on: `message` is one line, and so is `hint` (what to do; empty if nothing helps)."""

    exit_code = 1

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.message}\n{self.hint}" if self.hint else self.message


class UsageError(FastcoderError):
    """A command, option, setting or position that does not exist."""

    exit_code = 2


class ModelMissingError(FastcoderError):
    """The model is not on this machine; fetching it needs the user's consent."""

    exit_code = 3


class ModelInvalidError(FastcoderError):
    """A model's file is damaged, of an unsafe format, or of an unsupported kind."""

    exit_code = 4


class NetworkError(FastcoderError):
    """A download failed."""

    exit_code = 5


class ResourceError(FastcoderError):
    """Not enough memory or disk space."""

    exit_code = 6


class MemoryShortError(ResourceError):
    """The process gets no more memory or threads; another process may get some."""


class InstallationError(FastcoderError):
    """A required package is missing or broken; by default the hint is to install it again."""

    exit_code = 7

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message, hint or _INSTALL_HINT)


def understood(error: BaseException) -> FastcoderError:
    """An unexpected exception as an error that a user can act on, as far as it says why."""
    if isinstance(error, FastcoderError):
        return error
    text = f"{type(error).__name__}: {' '.join(str(error).split())}".removesuffix(": ")[:300]
    number = error.errno if isinstance(error, OSError) else None
    if isinstance(error, MemoryError) or number == errno.ENOMEM or any(word in text for word in _NO_MEMORY_TEXTS):
        hint = "Close other programs, use a smaller model, or lift a limit of memory (`ulimit -v`) of the shell."
        return MemoryShortError(f"out of memory ({text})", hint)
    if number == errno.EAGAIN or "can't start new thread" in text:
        hint = "Close other programs, or raise the limit of processes and threads (`ulimit -u`) of the shell."
        return MemoryShortError(f"the system allows no more processes or threads ({text})", hint)
    if isinstance(error, ImportError):
        return InstallationError(f"a package is missing or broken ({text})")
    if number in _FULL:
        return ResourceError(f"the disk is full ({text})", "Free some space, and try again.")
    if isinstance(error, OSError) and error.filename:
        return ResourceError(f"{error.filename}: {error.strerror}", "Check that file or folder, and try again.")
    return FastcoderError(f"internal error ({text})", FAULT_HINT)
