"""The settings of a session, by folder: layers of what the client and files contain, which handlers pass in."""

from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import Any, Final

from fastcoder_lsp.config import Problem, Settings, SettingsLayer, languages_of, resolve, specs
from fastcoder_lsp.workspace.folders import Folder, read_settings_file

SECTION = "fastcoder"
_MOST_LANGUAGES: Final = 100  # languages that are looked at: a repository may name any number
_NO_SETTINGS: Final = ("client", "editorInfo", "editorPluginInfo")
"""Of `initializationOptions`: the first describes the client and is read elsewhere, the others are those that
configurations of Copilot's server have."""


class Configuration:
    """Settings by folder.

    From weak to strong: the folder's `fastcoder.toml`, `initializationOptions`, `workspace/configuration`,
    `workspace/didChangeConfiguration`, the command line.
    """

    def __init__(self, command_line: Mapping[str, Any]) -> None:
        self._command_line = SettingsLayer("command line", command_line, trusted=True)
        self._initial: list[SettingsLayer] = []
        self._pulled: dict[str | None, SettingsLayer] = {}
        self._pushed: list[SettingsLayer] = []
        self._files: dict[str, SettingsLayer] = {}
        self._settings: dict[tuple[str | None, str], Settings] = {(None, ""): Settings()}
        self._layers: dict[str | None, list[SettingsLayer]] = {}
        self._rejected: list[Problem] = []

    def settings(self, folder: Folder | None = None, language: str = "") -> Settings:
        """The settings of `folder`, for a language; without a folder, those of the session (model, engine, log)."""
        uri = folder.uri if folder and (folder.uri, "") in self._settings else None
        if (uri, language) not in self._settings:
            self._settings[uri, language] = resolve(self._layers[uri], language)[0]
        return self._settings[uri, language]

    def for_any_language(self, folder: Folder | None = None) -> Iterator[Settings]:
        """The settings of `folder`, and those for each language that has some of its own there."""
        yield self.settings(folder)
        uri = folder.uri if folder and (folder.uri, "") in self._settings else None
        for language in islice(sorted(languages_of(self._layers.get(uri, ()))), _MOST_LANGUAGES):
            yield self.settings(folder, language)

    def set_initial(self, options: object) -> None:
        """Set `initializationOptions`, the user's own."""
        values = self._table(options, "initializationOptions")
        ours = self._table(values.get(SECTION, values), "initializationOptions")
        settings = {name: value for name, value in ours.items() if name not in _NO_SETTINGS}
        self._initial = [SettingsLayer("initializationOptions", settings, trusted=True)]

    def set_pulled(self, folder_uri: str | None, values: object, *, trusted: bool) -> None:
        """Set the answer to `workspace/configuration` (section `fastcoder`) for a folder, or for none."""
        layer = SettingsLayer(
            "workspace/configuration", self._table(values, "workspace/configuration"), trusted=trusted
        )
        self._pulled[folder_uri] = layer

    def set_pushed(self, values: object, *, trusted: bool) -> None:
        """Set `didChangeConfiguration`'s values: our section, or else all values with our names."""
        everything = self._table(values, "didChangeConfiguration")
        heads = {name.partition(".")[0] for name in specs()}
        ours = everything.get(SECTION, {name: v for name, v in everything.items() if name.partition(".")[0] in heads})
        table = self._table(ours, "didChangeConfiguration")
        self._pushed = [SettingsLayer("didChangeConfiguration", table, trusted=trusted)]

    def resolve(self, folders: Iterable[Folder]) -> tuple[Problem, ...]:
        """Resolve the layers again, reading the folders' files; returns each rejected value once."""
        problems = dict.fromkeys(self._rejected)
        self._settings, self._layers = {}, {}
        for folder in (None, *folders):
            uri = folder.uri if folder else None
            self._layers[uri] = self._folder_layers(folder, problems) if folder else self._session_layers()
            self._settings[uri, ""], rejected = resolve(self._layers[uri])
            problems |= dict.fromkeys(rejected)
        return tuple(problems)

    def _session_layers(self) -> list[SettingsLayer]:
        pulled = [self._pulled[None]] if None in self._pulled else []
        return [*self._initial, *pulled, *self._pushed, self._command_line]

    def _folder_layers(self, folder: Folder, problems: dict[Problem, None]) -> list[SettingsLayer]:
        file, problem = read_settings_file(folder)
        if problem is not None:
            problems[problem] = None
        pulled = [self._pulled[uri] for uri in (None, folder.uri) if uri in self._pulled]
        return [*([file] if file else []), *self._initial, *pulled, *self._pushed, self._command_line]

    def _table(self, values: object, origin: str) -> Mapping[str, Any]:
        """`values` as a table; anything else is reported at the next `resolve`."""
        if isinstance(values, dict):
            return values
        if values is not None:
            self._rejected.append(Problem(origin, "settings", "must be a table of names and values"))
        return {}
