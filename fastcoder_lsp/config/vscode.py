"""Generates the VS Code extension's declarations of the server's settings from the table.

`python -m fastcoder_lsp.config.vscode editors/vscode` writes the section `server` of the extension's `package.json`,
and `src/generated/settings.ts`. With `--check` it only names the files that are out of date.
"""

import json
import sys
from pathlib import Path
from typing import Any

from fastcoder_lsp.config.table import Scope, Spec, specs

_VSCODE_SCOPES = {Scope.MACHINE: "machine", Scope.NARROW: "resource", Scope.WORKSPACE: "resource"}
_KINDS = {bool: "boolean", int: "integer", float: "number", str: "string", tuple: "array"}
_HEAD = """\
// Made from fastcoder_lsp/config/table.py by `python -m fastcoder_lsp.config.vscode editors/vscode`.

/** A setting of the server's; `scope` says who may set it (docs/settings.md). */
export interface ServerSetting {
    readonly name: string
    readonly scope: 'workspace' | 'narrow' | 'machine'
    readonly default: boolean | number | string | readonly string[]
}

export const SERVER_SETTINGS: readonly ServerSetting[] = [
"""


def properties() -> dict[str, Any]:
    """The settings as JSON schemas by their names in VS Code."""
    return {f"fastcoder.{spec.name}": _property(order, spec) for order, spec in enumerate(specs().values())}


def typescript() -> str:
    """The module with each setting's scope and default."""
    return _HEAD + "".join(map(_row, specs().values())) + "]\n"


def outputs(extension: Path) -> dict[Path, str]:
    """The generated files and their contents."""
    manifest = extension / "package.json"
    content = json.loads(manifest.read_text(encoding="utf-8"))
    (section,) = (entry for entry in content["contributes"]["configuration"] if entry["id"] == "server")
    section["properties"] = properties()
    names = list(properties())
    narrow = [name for name in names if section["properties"][name]["scope"] != "machine"]
    content["capabilities"]["untrustedWorkspaces"]["restrictedConfigurations"] = narrow
    return {
        manifest: json.dumps(content, indent=2, ensure_ascii=False) + "\n",
        extension / "src" / "generated" / "settings.ts": typescript(),
    }


def main(arguments: list[str]) -> int:
    """Write the files; with `--check`, print those that are out of date and return 1 if there are any."""
    check = "--check" in arguments
    (folder,) = (argument for argument in arguments if argument != "--check")
    stale = 0
    for path, content in outputs(Path(folder)).items():
        if path.exists() and path.read_text(encoding="utf-8") == content:
            continue
        stale += 1
        if check:
            print(f"{path} is out of date: python -m fastcoder_lsp.config.vscode {folder}", file=sys.stderr)  # noqa: T201
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(content, encoding="utf-8")
    return int(check and stale > 0)


def _property(order: int, spec: Spec) -> dict[str, Any]:
    schema: dict[str, Any] = {
        "order": order,
        "type": _KINDS[spec.kind],
        "default": list(spec.default) if isinstance(spec.default, tuple) else spec.default,
        "scope": "language-overridable" if spec.by_language else _VSCODE_SCOPES[spec.scope],
        "markdownDescription": spec.description,
    }
    if spec.kind is tuple:
        schema |= {"items": {"type": "string"}, "uniqueItems": True}
    if spec.kind in {int, float}:
        schema |= {"minimum": spec.low, "maximum": spec.high}
    if spec.choices and spec.kind is bool:
        schema |= {"type": ["boolean", "string"], "enum": [False, *spec.choices, True]}
    elif spec.choices:
        schema |= {"enum": list(spec.choices)}
    return schema


def _row(spec: Spec) -> str:
    default = list(spec.default) if isinstance(spec.default, tuple) else spec.default
    shown = json.dumps(default, ensure_ascii=False)
    return f"    {{ name: '{spec.name}', scope: '{spec.scope.value}', default: {shown} }},\n"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
