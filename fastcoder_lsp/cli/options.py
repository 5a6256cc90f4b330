"""Command-line options from the dataclass that they fill.

A field's annotation says how its option is read, and its default is the option's; `option` adds the text of `--help`.
"""

import argparse
from dataclasses import MISSING, field, fields
from types import NoneType, UnionType
from typing import Any, Literal, TypeVar, get_args, get_origin, get_type_hints

Kind = TypeVar("Kind")


def option(text: str, default: Any = MISSING, *, flags: tuple[str, ...] = (), **more: Any) -> Any:
    """A field that an option fills.

    Args:
        text: of `--help`; a default is appended to it.
        default: without one the option is required.
        flags: in place of the field's own name with dashes.
        more: of `ArgumentParser.add_argument`, such as `metavar`.
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


def filled(kind: type[Kind], arguments: argparse.Namespace) -> Kind:
    """A dataclass from the arguments of its fields' names."""
    named = vars(arguments)
    return kind(**{name: named[name] for name in kind.__dataclass_fields__ if name in named})  # type: ignore[attr-defined]
