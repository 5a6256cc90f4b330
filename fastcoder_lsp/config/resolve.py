"""From layers of loose values to frozen `Settings` and a list of what was wrong with them.

A wrong or unknown value never stops anything: it is reported and the layer below (at last the default) holds.
"""

import difflib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fastcoder_lsp.config.table import Scope, Settings, Spec, specs


@dataclass(frozen=True, slots=True)
class Layer:
    """Values from one place: nested tables or dotted names; null means "not set".

    `origin` is named in problems. `trusted`: the user's own; otherwise a repository may have brought it.
    """

    origin: str
    values: Mapping[str, Any]
    trusted: bool


@dataclass(frozen=True, slots=True)
class Problem:
    """One value that was not taken, in words for the user."""

    origin: str
    name: str
    message: str

    def __str__(self) -> str:
        return f"{self.origin}: {self.name}: {self.message}"


class _RefusedError(Exception):
    """A value that is not taken; its text says why."""


def resolve(layers: Sequence[Layer]) -> tuple[Settings, tuple[Problem, ...]]:
    """Settings from `layers`, weakest first, and the values that were not taken."""
    table = specs()
    chosen: dict[str, Any] = {spec.attribute: spec.default for spec in table.values()}
    problems: list[Problem] = []
    for layer in layers:
        for name, value in _flat(layer.values, table):
            spec = table.get(name)
            if value is None and (spec is not None or not name):
                continue
            if spec is None:
                problems.append(Problem(layer.origin, name, f"there is no such setting{_nearest(name, table)}"))
                continue
            try:
                parsed = _parse(value, spec)
                if not layer.trusted:
                    parsed = _restricted(parsed, chosen[spec.attribute], spec)
            except _RefusedError as error:
                problems.append(Problem(layer.origin, name, str(error)))
                continue
            chosen[spec.attribute] = _added(chosen[spec.attribute], parsed) if _adds_up(spec) else parsed
    return Settings(**chosen), tuple(problems)


def _flat(values: Mapping[str, Any], table: Mapping[str, Spec], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """(dotted name, value) of nested tables; a table is entered only where it is no value itself."""
    for key, value in values.items():
        name = f"{prefix}{key}"
        if isinstance(value, Mapping) and name not in table:
            yield from _flat(value, table, f"{name}.")
        else:
            yield name, value


def _parse(value: object, spec: Spec) -> object:
    """`value` as the setting's type; raises `_RefusedError` with words for the user."""
    if spec.kind is bool:
        if not isinstance(value, bool):
            raise _RefusedError(f"must be true or false, not {_shown(value)}")
        return value
    if spec.kind is int:
        return _parse_number(value, spec)
    if spec.kind is tuple:
        if not isinstance(value, list | tuple) or not all(isinstance(entry, str) for entry in value):
            raise _RefusedError(f"must be a list of texts, not {_shown(value)}")
        return tuple(value)
    if not isinstance(value, str):
        raise _RefusedError(f"must be a text, not {_shown(value)}")
    if spec.choices and value not in spec.choices:
        raise _RefusedError(f"must be one of {', '.join(spec.choices)}, not {_shown(value)}")
    return value


def _parse_number(value: object, spec: Spec) -> int:
    whole = isinstance(value, int) or (isinstance(value, float) and value.is_integer())  # Lua and JSON know only floats
    if isinstance(value, bool) or not whole:
        raise _RefusedError(f"must be a whole number, not {_shown(value)}")
    assert isinstance(value, int | float)
    number = int(value)
    if (spec.low is not None and number < spec.low) or (spec.high is not None and number > spec.high):
        raise _RefusedError(f"must be between {spec.low} and {spec.high}, not {number}")
    return number


def _restricted(value: Any, current: Any, spec: Spec) -> object:
    """What a repository's value may change `current` to; raises `_RefusedError` where it may not set it at all."""
    if spec.scope is Scope.MACHINE:
        raise _RefusedError(
            "not taken from here, where a repository could have set it: use initializationOptions or options of serve"
        )
    if spec.scope is Scope.WORKSPACE:
        return value
    if spec.kind is bool:
        return value and current
    if spec.kind is int:
        return min(value, current)
    return value


def _adds_up(spec: Spec) -> bool:
    """Whether the layers' values are joined: lists of what is not to be read."""
    return spec.scope is Scope.NARROW and spec.kind is tuple


def _added(current: Any, more: Any) -> object:
    return (*current, *(entry for entry in more if entry not in current))


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 40 else text[:39] + "…"


def _nearest(name: str, table: Mapping[str, Spec]) -> str:
    """A hint at the name that was perhaps meant."""
    near = difflib.get_close_matches(name, table, n=1, cutoff=0.6)
    return f"; did you mean {near[0]}?" if near else ""
