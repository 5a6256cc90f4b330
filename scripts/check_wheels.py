"""Looks whether every dependency has a wheel for each supported system: nothing is compiled there.

    .venv/bin/python scripts/check_wheels.py [PLACE …]

Asks the configured package index for each place (all of `PLACES` by default) by `pip download`, of the versions in
constraints.txt; about 100 MB each, which are thrown away. Exits with 1 where one is missing that is not known to be.
"""

import subprocess
import sys
import tempfile
import tomllib
from dataclasses import dataclass
from pathlib import Path

from packaging.requirements import Requirement

ROOT = Path(__file__).parents[1]
CONSTRAINTS = ROOT / "constraints.txt"
VERSIONS = ("3.11", "3.13")


@dataclass(frozen=True, slots=True)
class Place:
    """A system and a processor: pip's names of their wheels, the newest first.

    `lacks`: packages whose authors no longer build for it.
    """

    name: str
    platforms: tuple[str, ...]
    lacks: frozenset[str] = frozenset()


def _macos(first: int, processor: str) -> tuple[str, ...]:
    """macOS runs what was built for any version before it, and for both processors at once."""
    versions = [f"{major}_0" for major in range(15, 10, -1)]
    versions += [f"10_{minor}" for minor in range(16, first, -1)] if processor == "x86_64" else []
    return tuple(f"macosx_{version}_{kind}" for version in versions for kind in (processor, "universal2"))


def _linux(processor: str) -> tuple[str, ...]:
    return (*(f"manylinux_2_{minor}_{processor}" for minor in range(39, 16, -1)), f"manylinux2014_{processor}")


PLACES = (
    Place("macos-arm64", _macos(10, "arm64")),
    Place("macos-x86_64", _macos(8, "x86_64"), frozenset({"llvmlite", "numba"})),
    Place("linux-aarch64", _linux("aarch64")),
    Place("windows-x86_64", ("win_amd64",)),
)


def wanted_at(place: Place) -> list[str]:
    """The project's dependencies that are built for it."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return [one for one in project["dependencies"] if Requirement(one).name not in place.lacks]


def command(place: Place, version: str, target: str) -> list[str]:
    """What asks for all wheels of one place."""
    platforms = [word for platform in place.platforms for word in ("--platform", platform)]
    return [
        *(sys.executable, "-I", "-m", "pip", "--disable-pip-version-check", "download", "--quiet"),
        *("--only-binary=:all:", "--implementation", "cp", "--python-version", version, *platforms),
        *("--constraint", str(CONSTRAINTS), "--dest", target, *wanted_at(place)),
    ]


def main(names: list[str]) -> int:
    """Look at the places with these names, all by default; the exit code: 2 where one is no place."""
    if not {*names} <= {place.name for place in PLACES}:
        print(f"{__doc__}\nPlaces: {', '.join(place.name for place in PLACES)}")
        return 0 if names[0] in {"-h", "--help"} else 2
    missing = 0
    for place in PLACES:
        if names and place.name not in names:
            continue
        for version in VERSIONS:
            with tempfile.TemporaryDirectory() as target:
                done = subprocess.run(command(place, version, target), capture_output=True, text=True, check=False)
                count = len(list(Path(target).iterdir()))
            errors = [line for line in done.stderr.splitlines() if line.startswith("ERROR")]
            found = "; ".join(errors) if done.returncode else f"{count} wheels"
            known = f"; known to lack {', '.join(sorted(place.lacks))}" if place.lacks else ""
            print(f"{place.name}, Python {version}: {found}{known}")
            missing += done.returncode != 0
    return 1 if missing else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
