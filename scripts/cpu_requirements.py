"""Makes fastcoder_lsp/requirements-cpu.txt: all that a machine without an NVIDIA GPU installs, in tested versions.

    .venv/bin/python scripts/cpu_requirements.py

Of pyproject's dependencies it leaves out `not-for-cpu` of [tool.fastcoder]; what the others need is read from the
packages installed here, and the versions from constraints.txt. A test holds that the file is what this makes.
"""

import sys
import tomllib
from importlib.metadata import requires
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[1]
TARGET = ROOT / "fastcoder_lsp" / "requirements-cpu.txt"
BUILD_TOOLS = frozenset({"pip", "setuptools", "wheel"})
"""Named by some packages, used by none when it runs; `pip freeze` leaves them out of the constraints."""
HEAD = """\
# What fastcoder-lsp needs without an NVIDIA GPU: its dependencies but {left_out}, in the versions last tested.
#
#     pip install -r THIS_FILE && pip install --no-deps fastcoder-lsp
#
# Made by scripts/cpu_requirements.py of pyproject.toml and constraints.txt.
"""


def content() -> str:
    """The file's text.

    Raises:
        KeyError: constraints.txt pins no version of a package.
        PackageNotFoundError: one of them is not installed here.
    """
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    left_out = project["tool"]["fastcoder"]["not-for-cpu"]
    wanted = _closure(project["project"]["dependencies"], left_out)
    pins = _pins()
    return HEAD.format(left_out=", ".join(left_out)) + "".join(f"{pins[name]}\n" for name in sorted(wanted))


def _closure(dependencies: list[str], left_out: list[str]) -> set[str]:
    """Names of what is needed on this machine, directly or not.

    Raises:
        ValueError: what was left out is needed all the same.
    """
    waiting = [_name(one) for one in dependencies if _name(one) not in left_out]
    found: set[str] = set()
    while waiting:
        name = waiting.pop()
        if name in left_out:
            raise ValueError(f"{name} is needed by one of {', '.join(sorted(found))}")
        if name not in found | BUILD_TOOLS:
            found.add(name)
            waiting += [_name(one) for one in requires(name) or () if _applies(Requirement(one))]
    return found


def _name(requirement: str) -> str:
    return str(canonicalize_name(Requirement(requirement).name))


def _applies(requirement: Requirement) -> bool:
    """Whether it is needed here, and not only by an extra."""
    return requirement.marker is None or requirement.marker.evaluate({"extra": ""})


def _pins() -> dict[str, str]:
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    return {_name(line): line for line in lines if line and not line.startswith("#")}


if __name__ == "__main__":
    TARGET.write_text(content(), encoding="utf-8")
    print(TARGET, file=sys.stderr)
