"""All reasons and errors that the package's source makes, with their texts: `{}` stands for what is filled in.

They are found by their calls and sorted by their texts, so that a move between modules changes nothing.
"""

import ast
from collections.abc import Iterator, Mapping
from pathlib import Path

from tests.goldens.golden import package_folder

BENCHMARKS = "bench"
"""Benchmarks are no part of the product."""


def reasons_and_errors(error_classes: Mapping[str, int]) -> dict[str, list[str]]:
    """Class → the texts of all its calls, each as `first | second | …`."""
    found: dict[str, set[str]] = {}
    folder = package_folder()
    for path in sorted(folder.rglob("*.py")):
        if path.relative_to(folder).parts[0] != BENCHMARKS:
            for name, text in _calls(path, {*error_classes, "Reason"}):
                found.setdefault(name, set()).add(text)
    return {name: sorted(texts) for name, texts in found.items()}


def _calls(path: Path, names: set[str]) -> Iterator[tuple[str, str]]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    constants = {
        target.id: _text(node.value, {})
        for node in tree.body
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and node.args:
            called = node.func.id if isinstance(node.func, ast.Name) else getattr(node.func, "attr", "")
            parts = [_text(part, constants) for part in node.args]
            if called in names and parts != ["{}"]:
                yield called, " | ".join(parts)


def _text(node: ast.expr, constants: Mapping[str, str]) -> str:
    """A string's text as far as it stands in the source."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.JoinedStr):
        return "".join(_text(part, constants) for part in node.values)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        return _text(node.left, constants) + _text(node.right, constants)
    if isinstance(node, ast.IfExp):
        return f"({_text(node.body, constants)} / {_text(node.orelse, constants)})"
    return constants.get(node.id, "{}") if isinstance(node, ast.Name) else "{}"
