"""The log of commands that people run: what went wrong is said in a line, its traceback only where it is asked for."""

import logging
import os


def keep_log_quiet() -> None:
    """Keep what is logged off the terminal, unless FASTCODER_TRACEBACK asks for it."""
    if not os.environ.get("FASTCODER_TRACEBACK"):
        logging.getLogger().addHandler(logging.NullHandler())
