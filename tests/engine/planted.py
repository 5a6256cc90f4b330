"""Faults planted on purpose: a module of ours with its text changed, for checks that must be shown to fail."""

import importlib.util
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType


def changed(module: ModuleType, folder: Path, changes: Mapping[str, str]) -> ModuleType:
    """The module from a file of its own in `folder`, each text replaced by another; the imported one stays as it is."""
    text = Path(str(module.__file__)).read_text(encoding="utf-8")
    for old, new in changes.items():
        assert old in text, f"{module.__name__} has changed: change the fault"
        text = text.replace(old, new)
    name = f"changed_{module.__name__.rpartition('.')[2]}"
    file = folder / f"{name}.py"
    file.write_text(text, encoding="utf-8")
    spec = importlib.util.spec_from_file_location(name, file)
    assert spec is not None
    assert spec.loader is not None
    found = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(found)
    return found
