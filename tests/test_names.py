"""A class name has one meaning in the product and in the benchmarks."""

import re
from collections import defaultdict
from pathlib import Path

import benchmarks
import fastcoder_lsp

SHARED = {
    "DocumentState": "what a drafter keeps for one document",
    "Emitter": "watchdog's emitter for one platform",
    "Observer": "watchdog's observer for one platform",
    "Options": "the options of one benchmark",
}
"""Names that several modules define, with the one meaning of each."""
CLASS = re.compile(r"^ *class _?(\w+)[(:]", re.MULTILINE)
SAMPLE = Path("cli/play/sample")
"""A workspace to play in, not our code."""


def test_a_class_name_has_one_meaning() -> None:
    """`_Name` counts as `Name`. Rename one of the classes, or add a name with one meaning to `SHARED`."""
    modules = defaultdict[str, set[str]](set)
    for package in (fastcoder_lsp, benchmarks):
        root = Path(package.__path__[0])
        for file in root.rglob("*.py"):
            if not file.is_relative_to(root / SAMPLE):
                for name in CLASS.findall(file.read_text(encoding="utf-8")):
                    modules[name].add(file.relative_to(root.parent).as_posix())
    shared = {name: sorted(files) for name, files in modules.items() if len(files) > 1}
    assert {name: files for name, files in shared.items() if name not in SHARED} == {}
    assert SHARED.keys() <= shared.keys()
