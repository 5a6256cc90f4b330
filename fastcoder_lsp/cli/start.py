"""The first thing that a process does: leave the folder that it was started in.

Libraries read settings from the working directory when they are imported (numba a `.numba_config.yaml` that may name a
folder of pickles), and Python looks there for modules. Editors start the server in whatever repository is opened. So
the process leaves that folder before it imports anything else, and resolves the command line's paths against it.
"""

import argparse
import contextlib
import os
import re
import sys
from pathlib import Path

from fastcoder_lsp.errors import UsageError

MODEL_OPTIONS = frozenset({"model", "before", "name", "student", "boost", "draft_model"})
"""Arguments that name one or more models, by id or by path."""
DRAFTER_OPTIONS = frozenset({"drafter", "drafters"})
"""Arguments that name drafters, whose parameter `weights` is a path."""
_WEIGHTS = re.compile(r"(?<=[:,])weights=([^,]+)")


def leave_folder() -> Path | None:
    """Go to a neutral folder and stop importing from the old one; returns the old one, None if it is gone."""
    try:
        here = Path.cwd()
    except OSError:  # deleted, or not accessible
        here = None
    _forget_as_modules(here)
    from fastcoder_lsp.config.environment import neutral_folder  # only after "here" is forgotten

    os.chdir(neutral_folder())
    return here


def name_fully(arguments: argparse.Namespace, here: Path | None) -> None:
    """Make the paths among `arguments` absolute, relative to `here`; UsageError if that folder is gone."""
    for name, value in vars(arguments).items():
        if isinstance(value, Path):
            setattr(arguments, name, whole_path(value, here))
        elif isinstance(value, list) and value and all(isinstance(one, Path) for one in value):
            setattr(arguments, name, [whole_path(one, here) for one in value])
        elif name in MODEL_OPTIONS and isinstance(value, list):
            setattr(arguments, name, [_whole_model(one, here) for one in value])
        elif name in MODEL_OPTIONS and isinstance(value, str):
            setattr(arguments, name, _whole_model(value, here))
        elif name in DRAFTER_OPTIONS and isinstance(value, str):
            setattr(arguments, name, _WEIGHTS.sub(lambda found: f"weights={whole_path(Path(found[1]), here)}", value))
    arguments.here = here


def is_path(model: str) -> bool:
    """Whether a model's name can only be a path."""
    return model.startswith((".", "~")) or model.endswith(".gguf")


def whole_path(path: Path, here: Path | None) -> Path:
    """`path` in the folder `here`; raises UsageError if it is relative and that folder is gone."""
    with contextlib.suppress(RuntimeError):  # no such user: a file name that begins with ~
        path = path.expanduser()
    if path.is_absolute():
        return path
    if here is None:
        raise UsageError(f"{path} cannot be found: the current folder no longer exists", "Use an absolute path.")
    return here / path


def _whole_model(model: str, here: Path | None) -> str:
    return str(whole_path(Path(model), here)) if is_path(model) else model


def _forget_as_modules(here: Path | None) -> None:
    """Remove entries of `sys.path` that stand for the working directory or are relative to it.

    `python -m` puts it first; the others are relative entries of PYTHONPATH, which Python has made absolute. Entries
    that the user gave as absolute paths stay, as do our own folder and Python's: a process of ours may be started in
    Python's.
    """
    ours = {str(Path(__file__).parents[2]), os.path.dirname(os.__file__)}  # noqa: PTH120 as it stands in sys.path
    if sys.path and sys.path[0] in ("", str(here)) and sys.path[0] not in ours:
        del sys.path[0]
    named = os.environ.get("PYTHONPATH")
    if named is None or here is None:
        return
    for entry in named.split(os.pathsep):
        folder = os.path.normpath(here / entry)
        if not Path(entry).is_absolute() and folder in sys.path and folder not in ours:
            sys.path.remove(folder)
