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
ELSEWHERE = tuple(
    {"extra": "", "sys_platform": name, "platform_system": system, "os_name": kind, "python_version": version}
    for name, system, kind in (("linux", "Linux", "posix"), ("darwin", "Darwin", "posix"), ("win32", "Windows", "nt"))
    for version in ("3.11", "3.12", "3.13", "3.14")
)
"""Where the list has to be complete: pip looks for nothing that it does not name."""
HEAD = """\
# What fastcoder-lsp needs without an NVIDIA GPU: its dependencies but {left_out}, in the versions last tested.
#
#     pip install --no-deps -r THIS_FILE fastcoder-lsp
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
    lines = [
        pins[name] if name in pins or not marker else f"{name}; {marker}" for name, marker in sorted(wanted.items())
    ]
    return "\n".join([HEAD.format(left_out=", ".join(left_out)).rstrip("\n"), *lines, ""])


def _closure(dependencies: list[str], left_out: list[str]) -> dict[str, str]:
    """Names of what is needed somewhere, directly or not; with the marker where that is not here.

    Raises:
        ValueError: a package that was left out is needed.
    """
    waiting = [Requirement(one) for one in dependencies if _name(one) not in left_out]
    found: dict[str, str] = {}
    while waiting:
        requirement = waiting.pop()
        name = _name(str(requirement))
        if name in left_out:
            raise ValueError(f"{name} is needed by one of {', '.join(sorted(found))}")
        here = _applies(requirement, {"extra": ""})
        if name in BUILD_TOOLS or (name in found and not (here and found[name])):
            continue
        found[name] = "" if here else str(requirement.marker)
        needs = [Requirement(one) for one in (requires(name) or () if here else ())]
        waiting += [one for one in needs if any(_applies(one, place) for place in ELSEWHERE)]
    return found


def _name(requirement: str) -> str:
    return str(canonicalize_name(Requirement(requirement).name))


def _applies(requirement: Requirement, place: dict[str, str]) -> bool:
    """Whether it is needed there, and not only by an extra."""
    return requirement.marker is None or requirement.marker.evaluate(place)


def _pins() -> dict[str, str]:
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    return {_name(line): line for line in lines if line and not line.startswith("#")}


if __name__ == "__main__":
    TARGET.write_text(content(), encoding="utf-8")
    print(TARGET, file=sys.stderr)
