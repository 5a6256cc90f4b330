"""Goldens: JSON files of the product's behaviour, compared as text, so that a change reads as a diff."""

import difflib
import json
import re
import shutil
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from fastcoder_lsp import __version__

FOLDER = Path(__file__).with_name("recorded")
WIDTH = 118
MOMENTARY = re.compile(r"\b\d+(\.\d+)?(?= (ms\b|s ago|%))|(?<=^Now: ).*", re.MULTILINE)
"""Times, percents, and the state of the model."""


@dataclass(frozen=True)
class Goldens:
    """Compares values with the recorded ones, or records them."""

    record: bool

    def recorded(self, name: str) -> Any:
        return json.loads((FOLDER / f"{name}.json").read_text(encoding="utf-8"))

    def check(self, name: str, value: Any) -> None:
        """Fail with a diff where `value` differs from `recorded/NAME.json`."""
        path, text = FOLDER / f"{name}.json", as_text(value) + "\n"
        if self.record:
            path.write_text(text, encoding="utf-8")
        kept = path.read_text(encoding="utf-8") if path.exists() else ""
        if kept == text:
            return
        diff = difflib.unified_diff(
            kept.splitlines(), text.splitlines(), f"{name}.json, recorded", "now", "", "", 3, ""
        )
        pytest.fail("\n".join([f"{name} differs. Intended? pytest tests/goldens --record", *diff]), pytrace=False)


def as_text(value: Any, indent: str = "") -> str:
    """JSON with sorted keys; a list or an object that fits into a line stands in one."""
    line = json.dumps(value, ensure_ascii=False, sort_keys=True)
    if len(indent) + len(line) <= WIDTH or not isinstance(value, (list, dict)) or not value:
        return line
    deeper = indent + " "
    if isinstance(value, list):
        parts = [as_text(part, deeper) for part in value]
    else:
        parts = [f"{json.dumps(key, ensure_ascii=False)}: {as_text(value[key], deeper)}" for key in sorted(value)]
    opening, closing = "[]" if isinstance(value, list) else "{}"
    return f"{opening}\n" + ",\n".join(deeper + part for part in parts) + f"\n{indent}{closing}"


@dataclass(frozen=True)
class Normal:
    """Replaces what differs between two runs: parts of strings (`texts`), and the values of `keys`."""

    texts: Mapping[str, str]
    keys: frozenset[str] = frozenset()

    def __call__(self, value: Any) -> Any:
        if isinstance(value, dict):
            return {key: self._hidden(part) if key in self.keys else self(part) for key, part in value.items()}
        if isinstance(value, list):
            return [self(part) for part in value]
        if isinstance(value, float) and value.is_integer():
            return int(value)
        return self.text(value) if isinstance(value, str) else value

    def undo(self, value: Any) -> Any:
        """`value` with this run's texts for the placeholders."""
        text = json.dumps(value)
        for real, placeholder in self.texts.items():
            text = text.replace(placeholder, real)
        return json.loads(text)

    def text(self, value: str) -> str:
        """A string without paths and times."""
        for found, placeholder in self.texts.items():
            value = value.replace(found, placeholder)
        return MOMENTARY.sub("N", value)

    def _hidden(self, value: Any) -> Any:
        if isinstance(value, dict):
            return sorted(value)
        return value if value is None else f"<{type(value).__name__}>"


VOLATILE = frozenset(
    (
        *("process_id", "resident_bytes", "ms", "prefill_ms", "secondsAgo", "prefilled", "reused", "prompt_cache"),
        *("created", "timings", "id", "cpu_s", "index_cpu_s"),
    )
)
"""Keys whose values depend on the machine, on the moment, or on what was prepared in pauses."""


def normal_for(environment: Mapping[str, str], root: Path, model: Path) -> Normal:
    """Without this run's paths and the version."""
    texts = {root.as_uri(): "file:///WORKSPACE", str(root): "WORKSPACE", str(model): "SMALL"}
    return Normal(texts | {environment["XDG_RUNTIME_DIR"]: "RUNTIME", __version__: "VERSION"}, VOLATILE)


def command() -> str:
    found = shutil.which("fastcoder-lsp", path=str(Path(sys.executable).parent))
    assert found is not None
    return found


def package_folder() -> Path:
    """The installed package, found without importing a module of it."""
    from importlib.util import find_spec

    spec = find_spec("fastcoder_lsp")
    assert spec is not None
    assert spec.origin is not None
    return Path(spec.origin).parent


def sample_folder() -> Path:
    return next(package_folder().rglob("expenses/reports.py")).parents[1]


def sample_files() -> Iterator[tuple[str, str, str]]:
    """Name, language and text of the sample workspace's code, in a fixed order."""
    folder, languages = sample_folder(), {".py": "python", ".ts": "typescript"}
    for name in sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*.[pt][ys]")):
        if len(text := (folder / name).read_text(encoding="utf-8")) > 100:
            yield name, languages[name[-3:]], text
