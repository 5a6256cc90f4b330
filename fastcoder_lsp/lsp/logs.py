"""The log: stderr, and a file on request; never stdout, which belongs to the protocol."""

import contextlib
import logging
import sys
from pathlib import Path

PACKAGE = "fastcoder_lsp"
_FORMAT = "%(asctime)s %(levelname)s %(name)s: %(message)s"


def configure_logging(file: str, level: str) -> None:
    """Log from `level` on to `file`; only warnings and errors to stderr, because some editors show all of it as errors.

    Another call replaces the handlers. A file that cannot be written is reported to stderr.
    """
    log = logging.getLogger(PACKAGE)
    name = f"{file}|{level}"
    if getattr(next(iter(log.handlers), None), "name", None) == name:
        return
    for handler in tuple(log.handlers):
        log.removeHandler(handler)
        handler.close()
    log.setLevel(level.upper())
    log.propagate = False
    to_stderr = logging.StreamHandler(sys.stderr)
    to_stderr.setLevel(max(logging.WARNING, log.level))
    _add(log, to_stderr, name)
    if file:
        try:
            path = _absolute_path(file)
            path.parent.mkdir(parents=True, exist_ok=True)
            _add(log, logging.FileHandler(path, encoding="utf-8", errors="backslashreplace"), name)
        except (OSError, RuntimeError, ValueError) as error:
            log.warning("the log file %s cannot be written: %s", file, getattr(error, "strerror", None) or error)


def quiet_pygls() -> None:
    """Silence pygls' loggers: they log whole messages, which contain the user's text."""
    logging.getLogger("pygls").setLevel(logging.CRITICAL + 1)


def flush() -> None:
    """Flush all handlers."""
    for handler in logging.getLogger(PACKAGE).handlers:
        with contextlib.suppress(OSError, ValueError):  # the client may have closed stderr
            handler.flush()


def _absolute_path(file: str) -> Path:
    path = Path(file).expanduser()
    if not path.is_absolute():  # relative to the server's arbitrary working folder
        raise ValueError("its path is not absolute")
    return path


def _add(log: logging.Logger, handler: logging.Handler, name: str) -> None:
    handler.setFormatter(logging.Formatter(_FORMAT))
    handler.name = name
    log.addHandler(handler)
