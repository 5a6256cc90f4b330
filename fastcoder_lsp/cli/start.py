"""The first thing that a process does: leave the folder that it was started in.

Libraries read settings from the working directory when they are imported (numba a `.numba_config.yaml` that may name a
folder of pickles), and Python looks there for modules. Editors start the server in whatever repository is opened. So
the folder is left before anything else is imported, and what the command line names is looked for in it by its whole
path.
"""

import argparse
import contextlib
import os
import re
import sys
from pathlib import Path

from fastcoder_lsp.errors import UsageError

MODEL_OPTIONS = frozenset({"model", "before", "name", "student", "boost", "draft_model"})
"""Arguments that name a model, or several: by an id, or by a path."""
DRAFTER_OPTIONS = frozenset({"drafter", "drafters"})
"""Arguments that name drafters, whose parameter `weights` is a path."""
_WEIGHTS = re.compile(r"(?<=[:,])weights=([^,]+)")


def leave_folder() -> Path | None:
    """Go to a neutral folder and forget the old one as a place of modules; where it was, None if it is gone."""
    try:
        here = Path.cwd()
    except OSError:  # deleted, or not to be entered
        here = None
    _forget_as_modules(here)
    from fastcoder_lsp.config.processes import neutral_folder  # not before what "here" means is forgotten

    os.chdir(neutral_folder())
    return here


def name_fully(arguments: argparse.Namespace, here: Path | None) -> None:
    """Make every path among `arguments` absolute, as seen from `here`, and the model's where it is certainly a path.

    Raises:
        UsageError: there is a relative one, and no folder that it could start from.
    """
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
    """`path` as it was meant in the folder `here`.

    Raises:
        UsageError: it is relative, and that folder is gone.
    """
    with contextlib.suppress(RuntimeError):  # no user of that name: a file that begins so
        path = path.expanduser()
    if path.is_absolute():
        return path
    if here is None:
        raise UsageError(f"{path} cannot be found: the current folder no longer exists", "Use an absolute path.")
    return here / path


def _whole_model(model: str, here: Path | None) -> str:
    return str(whole_path(Path(model), here)) if is_path(model) else model


def _forget_as_modules(here: Path | None) -> None:
    """Take out of `sys.path` what stands for the working directory or is named from there.

    The first entry is where `python -m` puts it; the others are relative entries of PYTHONPATH, which Python has made
    absolute. What the user named absolutely stays, and so do the folders that we ourselves and Python come from: a
    process of ours may be started in the second.
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
