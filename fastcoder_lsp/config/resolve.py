"""Merges layers of untyped values into frozen `Settings`, and lists their problems.

A wrong or unknown value is reported, and the next weaker layer (finally the default) applies. A repository may have
written the values, so their number and the length of the messages are bounded.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Any, Final, NoReturn

from fastcoder_lsp.config.misspelt import meant
from fastcoder_lsp.config.table import Scope, Settings, Spec, specs

MAX_PROBLEMS: Final = 20  # problems of one layer that are reported one by one
MAX_ENTRIES: Final = 1_000  # entries of a list, and characters of each
_MAX_DEPTH: Final = 8
_MAX_NAME: Final = 60
_YOURS: Final = "use your own settings file, initializationOptions or an option of serve"


@dataclass(frozen=True, slots=True)
class SettingsLayer:
    """Values from one source, whose name `origin` is for problems.

    Attributes:
        values: nested tables or dotted names; null means "not set".
        trusted: the user set them; otherwise a repository may have.
        repository: a repository's own file, which cannot loosen the rules of a layer before it.
        line_of: gives a setting's line in a file, 0 if unknown.
    """

    origin: str
    values: Mapping[str, Any]
    trusted: bool
    repository: bool = False
    line_of: Callable[[str], int] = field(default=lambda _: 0, compare=False)

    def place(self, name: str) -> str:
        """Where the layer sets a setting, for the user."""
        line = self.line_of(name)
        return f"{self.origin}:{line}" if line else self.origin


@dataclass(frozen=True, slots=True)
class Problem:
    """A rejected value, or with an empty `name` a rejected file, for the user."""

    origin: str
    name: str
    message: str

    def __str__(self) -> str:
        return f"{self.origin}: {self.name}: {self.message}" if self.name else f"{self.origin}: {self.message}"


class _RefusedError(Exception):
    """A rejected value; the message has the reason."""


def resolve(layers: Sequence[SettingsLayer], language: str = "") -> tuple[Settings, tuple[Problem, ...]]:
    """Settings from `layers`, weakest first, and the rejected values; a language's own values override the others."""
    merged = _Merged(language)
    for layer in layers:
        merged.add(layer)
    return Settings(**merged.chosen), tuple(merged.problems)


def origins(layers: Sequence[SettingsLayer], language: str = "") -> dict[str, str]:
    """Where each setting comes from that differs from its default, by name."""
    merged = _Merged(language)
    for layer in layers:
        merged.add(layer)
    return {
        name: " and ".join(dict.fromkeys(layer.place(written) for layer, written in merged.places[spec.attribute]))
        for name, spec in merged.table.items()
        if merged.chosen[spec.attribute] != spec.default
    }


class _Merged:
    """Layers merged so far, for one language: values and their places by attribute, and the rejected values."""

    def __init__(self, language: str) -> None:
        self.table, self._language = specs(), language
        self.chosen: dict[str, Any] = {spec.attribute: spec.default for spec in self.table.values()}
        self.places: dict[str, list[tuple[SettingsLayer, str]]] = defaultdict(list)
        self.problems: list[Problem] = []
        self._ruled: set[str] = set()  # attributes that a trusted layer sets

    def add(self, layer: SettingsLayer) -> None:
        """Merge a stronger layer."""
        refused = 0
        values = [(*_of_language(name, self.table), name, value) for name, value in _flat(layer.values, self.table)]
        for of, plain, name, value in sorted(values, key=lambda one: bool(one[0])):
            spec = self.table.get(plain)
            if value is None and (spec is not None or not name):
                continue
            try:
                known = spec or _unknown(name, self.table, hint=refused < MAX_PROBLEMS)
                self._check_scope(known, layer)
                parsed = _parse(value, known)
                if of in ("", self._language):
                    allowed = self._narrowed(parsed, known, layer)
                    self._take(known, allowed, layer, name)
                    if of == self._language:
                        _check_all_taken(parsed, allowed)
            except _RefusedError as error:
                refused += 1
                if refused <= MAX_PROBLEMS:
                    self.problems.append(Problem(layer.place(name), shown(name), str(error)))
        if refused > MAX_PROBLEMS:
            self.problems.append(Problem(layer.origin, "settings", f"{refused - MAX_PROBLEMS} more are ignored"))

    def _check_scope(self, spec: Spec, layer: SettingsLayer) -> None:
        if spec.scope is Scope.MACHINE and not layer.trusted:
            raise _RefusedError(f"ignored, because a repository could have set it: {_YOURS}")

    def _narrowed(self, value: Any, spec: Spec, layer: SettingsLayer) -> Any:
        """The value after a layer asks for `value`."""
        if layer.trusted:
            return value
        is_rule = layer.repository and spec.attribute in self._ruled
        adds = spec.kind is tuple and spec.scope is Scope.NARROW
        if not adds and spec.strict and (spec.scope is Scope.NARROW or is_rule):
            return spec.stricter(self.chosen[spec.attribute], value)
        return value

    def _take(self, spec: Spec, value: Any, layer: SettingsLayer, name: str) -> None:
        before, places = self.chosen[spec.attribute], self.places[spec.attribute]
        if layer.trusted:
            self._ruled.add(spec.attribute)
        if spec.scope is Scope.NARROW and isinstance(value, tuple):  # lists of exclusions add up
            self.chosen[spec.attribute] = tuple(dict.fromkeys((*before, *value)))
        elif layer.trusted or value != before:
            self.chosen[spec.attribute] = value
            places.clear()
        else:
            return
        places.append((layer, name))


def _check_all_taken(asked: Any, allowed: Any) -> None:
    """Raise `_RefusedError` if a repository asked for less strictness than it may."""
    same = set(asked) == set(allowed) if isinstance(asked, tuple) else asked == allowed
    if not same:
        held = ", ".join(allowed) if isinstance(allowed, tuple) else str(allowed).lower()
        raise _RefusedError(f"ignored, because a repository may only make it stricter than {shown(held)}: {_YOURS}")


def languages_of(layers: Sequence[SettingsLayer]) -> set[str]:
    """The languages that layers have values of their own for."""
    table = specs()
    return {_of_language(name, table)[0] for layer in layers for name, _ in _flat(layer.values, table)} - {""}


def named_languages(layer: SettingsLayer) -> Iterator[tuple[str, str]]:
    """(name of a setting, language id) where a layer names languages."""
    table = specs()
    for name, value in _flat(layer.values, table):
        if language := _of_language(name, table)[0]:
            yield name, language
        elif name in {"languages.include", "languages.exclude"} and isinstance(value, list | tuple):
            yield from ((name, entry) for entry in value if isinstance(entry, str))


def _of_language(name: str, table: Mapping[str, Spec]) -> tuple[str, str]:
    """The language that a dotted name sets something for, "" for all, and the name of the setting."""
    if name.startswith("languages.") and name not in table:
        language, _, plain = name.removeprefix("languages.").partition(".")
        if plain in table and table[plain].by_language:
            return language, plain
    return "", name


def _unknown(name: str, table: Mapping[str, Spec], *, hint: bool) -> NoReturn:
    language, _, plain = name.removeprefix("languages.").partition(".")
    if name == f"languages.{language}.{plain}" and plain in table:
        raise _RefusedError(f"cannot be set for one language; for all of them it is {plain}")
    raise _RefusedError("unknown setting" + (_question(meant(name, table)) if hint and len(name) <= _MAX_NAME else ""))


def shown(text: str, most: int = _MAX_NAME) -> str:
    """A repository's text, shortened for one line, with `·` for characters that do not print."""
    clean = "".join(letter if letter.isprintable() else "·" for letter in text[: most + 1])
    return clean if len(text) <= most else clean[: most - 1] + "…"


def _flat(
    values: Mapping[str, Any], table: Mapping[str, Spec], prefix: str = "", depth: int = 0
) -> Iterator[tuple[str, Any]]:
    """(dotted name, value) of nested tables; a table is a value itself if a setting has its name, or it is too deep."""
    for key, value in values.items():
        name = f"{prefix}{key}"
        if isinstance(value, Mapping) and name not in table and depth < _MAX_DEPTH:
            yield from _flat(value, table, f"{name}.", depth + 1)
        else:
            yield name, value


def _parse(value: object, spec: Spec) -> object:
    if spec.kind is bool:
        if not isinstance(value, bool) and value not in spec.choices:
            raise _RefusedError(f"must be {' or '.join(('true', 'false', *spec.choices))}, not {_shown(value)}")
        return value
    if spec.kind in {int, float}:
        return _parse_number(value, spec)
    if spec.kind is tuple:
        if not isinstance(value, list | tuple) or not all(isinstance(entry, str) for entry in value):
            raise _RefusedError(f"must be a list of strings, not {_shown(value)}")
        if len(value) > MAX_ENTRIES or any(len(entry) > MAX_ENTRIES for entry in value):
            raise _RefusedError(f"must have at most {MAX_ENTRIES:,} entries of at most {MAX_ENTRIES:,} characters")
        return tuple(value)
    if not isinstance(value, str):
        raise _RefusedError(f"must be a string, not {_shown(value)}")
    if spec.default and not value:
        raise _RefusedError(f"must not be empty; the default is {spec.default}")
    if spec.choices and value not in spec.choices:
        raise _RefusedError(
            f"must be one of {', '.join(spec.choices)}, not {_shown(value)}{_nearest(value, spec.choices)}"
        )
    return value


def _parse_number(value: object, spec: Spec) -> float:
    whole = isinstance(value, int) or (isinstance(value, float) and value.is_integer())  # Lua and JSON know only floats
    if isinstance(value, bool) or not (whole or (spec.kind is float and isinstance(value, float))):
        raise _RefusedError(f"must be a {'' if spec.kind is float else 'whole '}number, not {_shown(value)}")
    assert isinstance(value, int | float)
    number: float = value if spec.kind is float else int(value)
    low, high = spec.low, spec.high
    if not ((low is None or number >= low) and (high is None or number <= high)):  # NaN is between none
        raise _RefusedError(f"must be between {low} and {high}, not {_shown(number)}")
    return float(number) if spec.kind is float else number


def _shown(value: object) -> str:
    try:
        return shown(repr(value), 40)
    except (ValueError, RecursionError):  # a number of thousands of digits; deeply nested lists
        return f"a huge {type(value).__name__}"


def _nearest(value: str, known: Iterable[str]) -> str:
    return _question(get_close_matches(value, known, n=1) if len(value) <= _MAX_NAME else [])


def _question(names: Sequence[str]) -> str:
    return f"; did you mean {' or '.join(shown(one, 2 * _MAX_NAME) for one in names)}?" if names else ""
