"""What was typed already, a line for each part and way, so that a stopped run goes on where it ended.

Owns the file: lines are only appended; a half-written last line is ignored.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

from benchmarks.typing.desk import Typed

_FIELDS = {field.name for field in fields(Typed)}
"""A line of an earlier version has others, and is typed again."""
Name = tuple[str, int, bool]
"""A history, the number of a part, and whether code of other files went along."""


def known_parts(path: Path | None, same: Mapping[str, Any]) -> Iterator[tuple[Name, Typed]]:
    """What was typed by the same options; nothing where no file is named, or there is none yet."""
    for line in path.read_text(encoding="utf-8").splitlines() if path is not None and path.exists() else ():
        try:
            row = json.loads(line)
        except json.JSONDecodeError:
            continue
        if row["same"] == same and row["typed"].keys() == _FIELDS:
            typed = row["typed"] | {"waits_ms": tuple(row["typed"]["waits_ms"])}
            yield (row["history"], row["part"], row["context"]), Typed(**typed)


def keep_part(path: Path | None, same: Mapping[str, Any], name: Name, typed: Typed) -> None:
    """Keep what a part came to; on the disk when this returns, where a file is named."""
    if path is not None:
        history, part, context = name
        row = {"same": dict(same), "history": history, "part": part, "context": context, "typed": typed.to_json()}
        torn = path.exists() and path.read_bytes()[-1:] not in (b"", b"\n")
        with path.open("a", encoding="utf-8") as file:
            file.write("\n" * torn + json.dumps(row) + "\n")
