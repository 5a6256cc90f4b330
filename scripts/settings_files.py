"""Writes docs/settings.md and the settings in the VS Code extension, as fastcoder_lsp/config/table.py has them.

    python scripts/settings_files.py            write them
    python scripts/settings_files.py --check    name the files that are out of date, and fail if there are any

In the extension it writes the section `server` of `package.json`, and `src/generated/settings.ts`.
"""

import json
import re
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from fastcoder_lsp.config import Scope, Spec, specs

ROOT = Path(__file__).parents[1]
_VSCODE_SCOPES = {Scope.MACHINE: "machine", Scope.NARROW: "resource", Scope.WORKSPACE: "resource"}
_KINDS = {bool: "boolean", int: "integer", float: "number", str: "string", tuple: "array"}
_MODULE = """\
// Made from fastcoder_lsp/config/table.py by `scripts/settings_files.py`.

/** A setting of the server's; `scope` says who may set it (docs/settings.md). */
export interface ServerSetting {
    readonly name: string
    readonly scope: 'workspace' | 'narrow' | 'machine'
    readonly default: boolean | number | string | readonly string[]
}

export const SERVER_SETTINGS: readonly ServerSetting[] = [
"""


_PAGE = """\
# Settings

Reference: all settings, their sources and scopes.

<!-- scripts/settings_files.py writes this page. -->

## Where settings come from

Set them in your own file for all editors and commands, in `fastcoder.toml` in a workspace folder, or in your editor
([VS Code](editors/vscode.md#settings), [Neovim](editors/neovim.md#configure), [Emacs](editors/emacs.md),
[Helix](editors/helix.md)). Later sources override earlier ones, setting by setting:

1. your own file: `~/.config/fastcoder/fastcoder.toml` (`$XDG_CONFIG_HOME/fastcoder/fastcoder.toml` if the variable is
   set; on macOS `~/Library/Application Support/fastcoder/fastcoder.toml`, on Windows
   `%LOCALAPPDATA%\\fastcoder\\fastcoder.toml`)
2. `fastcoder.toml` in a workspace folder, for the documents in that folder
3. `initializationOptions` (Neovim: `init_options`; Helix: `config`; Eglot: `:initializationOptions`)
4. `workspace/configuration`, if the client offers it
5. `workspace/didChangeConfiguration`
6. the options of `fastcoder-lsp serve`

A project's file is stronger than your own, because it is made for that project, but it can only be stricter than your
own about [what you restrict](#scopes). The commands `complete`, `play`, `http`, `doctor`, `index` and `model` read
your own file too, `complete` and `index` also the workspace's. Their options override both.
`fastcoder-lsp doctor` prints each setting that differs from its default, with its source.

The server notices a changed file within a second or two and applies it at the next request. It says so if a setting
needs a restart. It shows an invalid file or value at once, with file and line, and says when you have corrected
it. While a file is invalid, its last valid settings apply.

Names are dotted (`"popup.enabled": true`) or nested (`{"popup": {"enabled": true}}`); an editor may send them under
`fastcoder`. Null means "not set". The server reports and ignores an unknown name, a wrong value and a value that a
repository may not set. Paths must be absolute or begin with `~`. A *list* has strings.

## Settings for one language

You can set the groups @GROUPS@ for one language
(an LSP id), except `edits.model`. A source's value for a language overrides its value for all:

```toml
[languages.python.quiet]
lines = 1                       # one line in Python

[languages.c.where]
comments = "never"              # nothing in comments in C
```

In VS Code: `"[python]": {"fastcoder.quiet.lines": 1}`.

## Scopes

Editors may read settings from a repository, which is not trusted. So each setting has a scope:

- **workspace**: any source may set it. A workspace's `fastcoder.toml` can only make your own file stricter in
  `popup.enabled`, `power` and the groups `languages`, `quiet`, `edits` and `where`, which say when, where and how much
  to suggest.
- **narrow**: a repository can only make it stricter, and lists of all sources are joined.
- **machine**: only your own file, `initializationOptions` and the options of `serve` may set it. With a
  [client that protects machine settings](editors/protocol.md#initialization-options), such as VS Code's extension, all
  sources except a workspace's `fastcoder.toml` may.

Your own file must belong to you, and other users must not be able to write it.

## All settings

| name | type | default | scope | meaning |
| --- | --- | --- | --- | --- |
"""


def outputs() -> dict[Path, str]:
    """The generated files and their contents."""
    extension = ROOT / "editors" / "vscode"
    manifest = extension / "package.json"
    content = json.loads(manifest.read_text(encoding="utf-8"))
    (section,) = (entry for entry in content["contributes"]["configuration"] if entry["id"] == "server")
    section["properties"] = properties()
    names = list(properties())
    narrow = [name for name in names if section["properties"][name]["scope"] != "machine"]
    content["capabilities"]["untrustedWorkspaces"]["restrictedConfigurations"] = narrow
    return {
        ROOT / "docs" / "settings.md": settings_page(),
        manifest: json.dumps(content, indent=2, ensure_ascii=False) + "\n",
        extension / "src" / "generated" / "settings.ts": _MODULE + "".join(map(_row, specs().values())) + "]\n",
    }


def main(*, check: bool) -> int:
    """Write the files that are out of date, or only name them; 1 if `check` finds any."""
    stale = [path for path, content in outputs().items() if path.read_text(encoding="utf-8") != content]
    for path in stale:
        if check:
            print(f"{path} is out of date: python scripts/settings_files.py", file=sys.stderr)
        else:
            path.write_text(outputs()[path], encoding="utf-8")
    return int(check and bool(stale))


def properties() -> dict[str, Any]:
    """The settings as JSON schemas by their names in VS Code."""
    return {f"fastcoder.{spec.name}": _property(order, spec) for order, spec in enumerate(specs().values())}


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


def settings_page() -> str:
    """docs/settings.md."""
    by_language = _groups(spec for spec in specs().values() if spec.by_language)
    rules = _groups(spec for spec in specs().values() if spec.strict and spec.scope is Scope.WORKSPACE)
    page = _PAGE.replace("@GROUPS@", by_language).replace("@RULES@", rules)
    return page + "".join(map(_line, specs().values()))


def _groups(among: Iterable[Spec]) -> str:
    *others, last = dict.fromkeys(f"`{spec.name.partition('.')[0]}`" for spec in among)
    return f"{', '.join(others)} and {last}"


def _line(spec: Spec) -> str:
    meaning = re.sub(r"docs/([\w-]+\.md)", r"[\1](\1)", spec.description)
    return f"| `{spec.name}` | {_kind(spec)} | {_default(spec)} | {spec.scope.value} | {meaning} |\n"


def _kind(spec: Spec) -> str:
    if spec.kind is bool:
        return ", ".join(("boolean", *(f"`{choice}`" for choice in spec.choices)))
    if spec.choices:
        return ", ".join(f"`{choice}`" for choice in spec.choices)
    if spec.kind in {int, float}:
        return f"{spec.low}–{spec.high}"
    return "string" if spec.kind is str else "list"


def _default(spec: Spec) -> str:
    if isinstance(spec.default, bool):
        return f"`{str(spec.default).lower()}`"
    if isinstance(spec.default, tuple):
        return "`[]`"
    return f"`{spec.default}`" if spec.default != "" else "empty"


if __name__ == "__main__":
    sys.exit(main(check="--check" in sys.argv))
