"""Prints the size of each room (a package, the benchmarks, tests, docs) beside its size at the last release.

scripts/test calls it. `--record` writes the sizes of now to docs/dev/sizes.json, as the last step of a release.
"""

import argparse
import json
import subprocess
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).parents[2]
RECORDED = ROOT / "docs/dev/sizes.json"
PACKAGE = "fastcoder_lsp"


def room_of(path: Path) -> str | None:
    """The room that a file counts to; None: none."""
    parts = path.parts
    if path.suffix == ".md":
        return "docs (words)" if parts[0] == "docs" else None
    if path.suffix != ".py":
        return None
    if parts[0] == PACKAGE:
        return f"{PACKAGE}/{parts[1]}" if len(parts) > 2 else PACKAGE
    return parts[0]


def words(text: str) -> int:
    """The words of a page. A token without a letter or a digit, such as a bar of a table, is none."""
    return sum(any(map(str.isalnum, token)) for token in text.split())


def sizes() -> dict[str, tuple[int, int]]:
    """Room → (files, lines); words where it holds prose."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    )
    found: defaultdict[str, list[int]] = defaultdict(lambda: [0, 0])
    for name in filter(None, listed.stdout.split("\0")):
        room, file = room_of(Path(name)), ROOT / name
        if room is not None and file.is_file():
            text = file.read_text(encoding="utf-8")
            found[room][0] += 1
            found[room][1] += words(text) if file.suffix == ".md" else text.count("\n")
    return {room: (files, size) for room, (files, size) in sorted(found.items())}


def main() -> None:
    """Print the table, or record it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--record", action="store_true", help="keep the sizes of now as those of the last release")
    now = sizes()
    if parser.parse_args().record:
        rows = ",\n".join(f" {json.dumps(room)}: {json.dumps(size)}" for room, size in now.items())
        RECORDED.write_text(f"{{\n{rows}\n}}\n", encoding="utf-8")
        return
    before = {room: tuple(size) for room, size in json.loads(RECORDED.read_text(encoding="utf-8")).items()}
    print(f"{'room':28} {'files':>6} {'lines':>7}   {'before':>14}")
    for room in sorted({*now, *before}):
        (files, size), (old_files, old_size) = now.get(room, (0, 0)), before.get(room, (0, 0))
        print(f"{room:28} {files:6} {size:7}   {old_files:6} {old_size:7}")


if __name__ == "__main__":
    main()
