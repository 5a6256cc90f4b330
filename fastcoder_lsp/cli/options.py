"""Command-line options, made from the dataclass that they fill, and kinds of arguments that reject bad values early.

A field's annotation determines how its option is parsed, and its default is the option's; `option` adds the help text.
"""

import argparse
import math
import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import MISSING, field, fields
from pathlib import Path
from types import NoneType, UnionType
from typing import TYPE_CHECKING, Any, Literal, TypeVar, get_args, get_origin, get_type_hints

from fastcoder_lsp.errors import UsageError

if TYPE_CHECKING:
    from fastcoder_lsp.config import Settings, SettingsLayer

Kind = TypeVar("Kind")


def option(text: str, default: Any = MISSING, *, flags: tuple[str, ...] = (), **more: Any) -> Any:
    """A field that an option fills, with the `--help` text; without a default the option is required.

    `flags` replace the field's own name with dashes. `more`: of `ArgumentParser.add_argument`, such as `metavar`.
    """
    metadata = {"help": text, "flags": flags, **more}
    if isinstance(default, list):
        return field(default_factory=default.copy, metadata=metadata)
    return field(default=default, metadata=metadata)


def add_options(parser: argparse.ArgumentParser, kind: type) -> None:
    """Add an option for each field of a dataclass that `option` made: a flag for a bool, a repeated one for a list."""
    hints = get_type_hints(kind)
    for one in fields(kind):
        if "help" not in one.metadata:
            continue
        more = dict(one.metadata)
        flags = more.pop("flags", ()) or (f"--{one.name.replace('_', '-')}",)
        default = one.default_factory() if one.default_factory is not MISSING else one.default
        if default is MISSING:
            more["required"] = True
        else:
            more["default"] = default
        if default not in (MISSING, None, "", False) and default != []:
            more["help"] += " (default: %(default)s)"
        read = hints[one.name]
        if get_origin(read) is UnionType:
            read = next(part for part in get_args(read) if part is not NoneType)
        if read is bool:
            more["action"] = "store_true"
        elif get_origin(read) is Literal:
            more["choices"] = get_args(read)
        elif get_origin(read) is list:
            more |= {"type": get_args(read)[0]} | ({} if "nargs" in more else {"action": "append"})
        else:
            more.setdefault("type", read)
        parser.add_argument(*flags, dest=one.name, **more)


def filled(kind: type[Kind], arguments: argparse.Namespace, but: str = "") -> Kind:
    """A dataclass from the arguments named like its fields, except `but`."""
    named = vars(arguments)
    names = [name for name in kind.__dataclass_fields__ if name in named and name != but]  # type: ignore[attr-defined]
    return kind(**{name: named[name] for name in names})


def given_settings(command: str, given: Mapping[str, Any]) -> "SettingsLayer":
    """The settings of a command's options, None for options that are not given; raises UsageError for a wrong value."""
    from fastcoder_lsp.config import SettingsLayer, resolve

    layer = SettingsLayer("command line", given, trusted=True)
    _, problems = resolve([layer])
    if problems:
        raise UsageError(str(problems[0]), f"See: fastcoder-lsp {command} --help")
    return layer


def chosen_settings(
    command: str,
    given: Mapping[str, Any],
    *,
    defaults: Mapping[str, Any] | None = None,
    folder: Path | None = None,
    language: str = "",
) -> "tuple[Settings, Settings]":
    """The settings of a command, and those for the documents of a folder, from the settings files and its options.

    Prints what is wrong in a file; raises UsageError for a wrong option.

    Args:
        command: its name, for messages.
        given: the options, None for those that are not given.
        defaults: values that are weaker than the files.
        folder: the workspace folder.
        language: of the documents.
    """
    from fastcoder_lsp.config import SettingsLayer, resolve
    from fastcoder_lsp.workspace.settings_files import layers_of_files, misspelt_languages

    options = given_settings(command, given)
    weakest = SettingsLayer(command, defaults or {}, trusted=True)
    layers, problems = layers_of_files(folder)
    settings, _ = resolve([weakest, *(layer for layer in layers if layer.trusted), options])
    of_folder, refused = resolve([weakest, *layers, options], language)
    for problem in (*problems, *refused, *misspelt_languages(layers)):
        print(f"fastcoder-lsp: {problem}", file=sys.stderr)
    return settings, of_folder


def at_least(least: int, most: int | None = None) -> Callable[[str], int]:
    """A kind of argument: a whole number from `least` to `most`, both allowed."""

    def number(text: str) -> int:
        value = int(text)
        if value < least:
            raise argparse.ArgumentTypeError(f"{value} is less than {least}")
        if most is not None and value > most:
            raise argparse.ArgumentTypeError(f"{value} is more than {most}")
        return value

    number.__name__ = "whole number"  # argparse's error message uses the name
    return number


def above_zero(text: str) -> float:
    """A kind of argument: a finite number above zero."""
    value = float(text)
    if not 0 < value < math.inf:
        raise argparse.ArgumentTypeError(f"{text} is not above 0")
    return value


def weight(text: str) -> float:
    """A kind of argument: a finite number that is not negative."""
    value = float(text)
    if not 0 <= value < math.inf:
        raise argparse.ArgumentTypeError(f"{text} is less than 0")
    return value


def share(text: str) -> float:
    """A kind of argument: a number from 0 to 1."""
    value = float(text)
    if not 0 <= value <= 1:
        raise argparse.ArgumentTypeError(f"{text} is not between 0 and 1")
    return value


def require_writable(path: Path | None) -> None:
    """Raise UsageError unless a file can be written to `path`; None names no file."""
    if path is None:
        return
    if path.is_dir():
        raise UsageError(f"{path} is a directory", "Name a file.")
    if not path.parent.is_dir():
        raise UsageError(f"{path.parent}: no such folder", "Make the folder first, or name a file in another one.")
    if not os.access(path if path.exists() else path.parent, os.W_OK):
        raise UsageError(f"{path} is not writable", "Name a file in a folder that is.")
