"""The text of a `fastcoder.toml`: its values, and the lines of its settings and errors, for messages."""

import re
import tomllib
from functools import cached_property
from typing import Any, Final

from fastcoder_lsp.config.resolve import Problem, SettingsLayer, shown

MAX_BYTES: Final = 100_000
_MAX_DOTS = 2_000  # the cost of reading a dotted name grows with the square of its parts
_PLACE = re.compile(r" \(at (?:line (\d+), column (\d+)|end of document)\)$")
_TABLE = re.compile(r"\s*\[+([^\[\]]*)\]")
_KEY = re.compile(r"([^=#]{1,200})=")


def parse_settings(origin: str, content: bytes, *, repository: bool) -> SettingsLayer | Problem:
    """The layer of a file with this content, or why it has none. `repository`: a repository's file, not the user's."""
    if len(content) > MAX_BYTES:
        return Problem(origin, "", f"The file is too large to be read. Shorten it to {MAX_BYTES // 1000} kB.")
    if content.count(b".") > _MAX_DOTS:
        return Problem(origin, "", f"The file has more than {_MAX_DOTS:,} dots. Remove some.")
    try:
        text = content.decode("utf-8-sig")
        values = tomllib.loads(text)
    except RecursionError:
        return Problem(origin, "", "The file is nested too deeply. Remove the nested tables or lists.")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        return Problem(f"{origin}:{line}", "", "The file is not UTF-8. Save it in that encoding.")
    except ValueError as error:
        return _invalid(origin, str(error), text)
    return SettingsLayer(origin, values, trusted=not repository, repository=repository, line_of=_SettingLines(text))


def _invalid(origin: str, message: str, text: str) -> Problem:
    place = _PLACE.search(message)
    line = int(place[1]) if place is not None and place[1] else max(text.count("\n"), 1)
    said = shown(message[: place.start()] if place is not None else message, 200)
    column = f" in column {place[2]}" if place is not None and place[2] else ""
    return Problem(f"{origin}:{line}", "", f"The file is not valid TOML: {said}{column}. Correct the line and save it.")


class _SettingLines:
    """The lines of a file's settings, found when they are first asked for."""

    def __init__(self, text: str) -> None:
        self._text = text

    def __call__(self, name: str) -> int:
        """The line that sets the dotted name, or the table or value around it; 0 if there is none."""
        while name and name not in self._lines:
            name = name.rpartition(".")[0]
        return self._lines.get(name, 0)

    @cached_property
    def _lines(self) -> dict[str, int]:
        found: dict[str, int] = {}
        table = ""
        for number, line in enumerate(self._text.split("\n"), 1):
            if (header := _TABLE.match(line)) is not None:
                table = _plain(header[1])
                found.setdefault(table, number)
            elif (key := _KEY.match(line)) is not None:
                found.setdefault(f"{table}.{_plain(key[1])}".removeprefix("."), number)
        return found


def _plain(key: str) -> str:
    """A key as it stands in a dotted name."""
    return ".".join(part.strip().strip("\"'") for part in key.split("."))


def as_written(value: Any) -> str:
    """A value as a user writes it in the file."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, tuple):
        return f"[{', '.join(map(as_written, value))}]"
    return f'"{value}"' if isinstance(value, str) else str(value)
