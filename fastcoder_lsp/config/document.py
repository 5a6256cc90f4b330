"""The page docs/settings.md, made from the table, so that it cannot be out of date."""

from fastcoder_lsp.config.table import Scope, Spec, specs

_HEAD = """\
# Settings

Made from the table in `fastcoder_lsp/config/table.py` by `python -m fastcoder_lsp.config.document`.

## Where settings come from

From weak to strong; a stronger place overrides single settings of a weaker one:

1. `fastcoder.toml` in a workspace folder, for the documents in that folder;
2. `initializationOptions` (Neovim: `init_options`; Helix: `config`; eglot: `:initializationOptions`);
3. `workspace/configuration`, which the server asks of clients that offer it;
4. `workspace/didChangeConfiguration`;
5. the options of `fastcoder-lsp serve`.

Names may be dotted (`"popup.enabled": true`) or nested (`{"popup": {"enabled": true}}`); null means "not set". Under a
key `fastcoder` they are found too. A value that is unknown or wrong is reported once, and the next weaker one holds.
Lists of scope *narrow* are joined over all places.

Paths in settings are whole ones, or begin with `~`: the server does not stay in the folder that the editor starts it
in, where a repository could have put things. Paths on a command line may be relative.

## What a repository may set

A repository that you open is not trusted, and an editor may read settings from it. So each setting has a scope:

- **workspace**: harmless; may come from anywhere.
- **narrow**: from a repository it can only make things stricter: read less, complete in fewer places, lower a limit.
- **machine**: names a model, a path, or what your machine spends; never taken from `fastcoder.toml`. Nor is it taken
  from `workspace/configuration` and `didChangeConfiguration`, for the server cannot see whether the editor had it from
  the repository (Emacs from `.dir-locals.el`, VS Code from `.vscode/settings.json`). Set it in `initializationOptions`,
  or by an option of `serve`. A client that keeps such settings out of a workspace's reach, as the VS Code extension
  does by their schema (`"scope": "machine"`), says so by `{"client": {"protectsMachineSettings": true}}` in
  `initializationOptions`, and may then send them in every way.

`initializationOptions` may also hold `{"client": {"commandSuffix": ".2"}}`: it is appended to the names of the
server's commands (`fastcoder.toggle`, `fastcoder.reload`, `fastcoder.stats`, `fastcoder.why`, `fastcoder.accepted`),
for editors that start several servers and register commands globally. `{"client": {"showsStatus": true}}` says that
the client shows `fastcoder/status` itself: errors then come as no notice, and loading as no progress, beside it.

## All settings

| name | type | default | scope | meaning |
| --- | --- | --- | --- | --- |
"""


def settings_page() -> str:
    """The page as Markdown."""
    return _HEAD + "".join(_row(spec) for spec in specs().values() if spec.active)


def _row(spec: Spec) -> str:
    return f"| `{spec.name}` | {_kind(spec)} | {_default(spec)} | {_SCOPES[spec.scope]} | {spec.description} |\n"


_SCOPES = {scope: scope.value for scope in Scope}


def _kind(spec: Spec) -> str:
    if spec.kind is bool:
        return ", ".join(("true", "false", *(f"`{choice}`" for choice in spec.choices)))
    if spec.choices:
        return ", ".join(f"`{choice}`" for choice in spec.choices)
    if spec.kind is int:
        return f"{spec.low} … {spec.high}"
    return "string" if spec.kind is str else "list of strings"


def _default(spec: Spec) -> str:
    if isinstance(spec.default, bool):
        return f"`{str(spec.default).lower()}`"
    if isinstance(spec.default, tuple):
        return "`[]`"
    return f"`{spec.default}`" if spec.default != "" else "empty"


if __name__ == "__main__":
    print(settings_page(), end="")  # noqa: T201
