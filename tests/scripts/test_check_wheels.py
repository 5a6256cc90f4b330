"""Where wheels are looked for: the places that the light installation is promised for, and what is wanted there."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
ASK = """
import sys
sys.path.insert(0, sys.argv[1])
import check_wheels as found
for place in found.PLACES:
    words = found.command(place, "3.11", "folder")
    wanted = [word for word in words if "==" in word or word == "colorama"]
    platforms = [word for before, word in zip(words, words[1:]) if before == "--platform"]
    print(place.name, len(wanted), "colorama" in wanted, any(one.startswith("numba==") for one in wanted), *platforms)
"""


def test_every_place_is_asked_for_all_that_it_needs() -> None:
    """Markers are those of the place, not of the machine that asks; nothing is built; Intel Macs do without numba."""
    done = subprocess.run(
        [sys.executable, "-c", ASK, str(ROOT / "scripts")], capture_output=True, text=True, check=True, timeout=120
    )
    found = {line.split()[0]: line.split()[1:] for line in done.stdout.splitlines()}
    assert set(found) == {"macos-arm64", "macos-x86_64", "linux-aarch64", "windows-x86_64"}
    for name, (count, colorama, numba, *platforms) in found.items():
        assert int(count) > 35
        assert (colorama == "True") is (name == "windows-x86_64")
        assert (numba == "True") is (name != "macos-x86_64")
        assert all(
            platform.endswith(("arm64", "x86_64", "universal2", "aarch64", "win_amd64")) for platform in platforms
        )
    assert "macosx_11_0_arm64" in found["macos-arm64"]
    assert "manylinux_2_28_aarch64" in found["linux-aarch64"]


def test_a_name_that_is_no_place_is_said() -> None:
    """Nothing looked at is nothing found: a misspelt place must not pass."""
    script = ROOT / "scripts" / "check_wheels.py"
    done = subprocess.run([sys.executable, script, "macos"], capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 2
    assert "Places: macos-arm64," in done.stdout
