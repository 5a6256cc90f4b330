"""The settings of a session, by folder: layers of what the client and files contain, which handlers pass in."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import islice
from typing import Any, Final

from fastcoder_lsp.config import Problem, Settings, SettingsLayer, languages_of, resolve, specs
from fastcoder_lsp.workspace.folders import Folder
from fastcoder_lsp.workspace.settings_files import misspelt_languages, read_own_settings, read_settings_file

SECTION = "fastcoder"
_MOST_LANGUAGES: Final = 100  # languages that are looked at: a repository may name any number
_NO_SETTINGS: Final = ("client", "editorInfo", "editorPluginInfo")
"""Of `initializationOptions`: the first describes the client and is read elsewhere, the others are those that
configurations of Copilot's server have."""


class Configuration:
    """Settings by folder.

    From weak to strong: the user's own file, the folder's `fastcoder.toml`, `initializationOptions`,
    `workspace/configuration`, `workspace/didChangeConfiguration`, the command line. A file that becomes invalid keeps
    its last valid values.
    """

    def __init__(self, command_line: Mapping[str, Any]) -> None:
        self._command_line = SettingsLayer("command line", command_line, trusted=True)
        self._initial: list[SettingsLayer] = []
        self._pulled: dict[str | None, SettingsLayer] = {}
        self._pushed: list[SettingsLayer] = []
        self._files: dict[str | None, SettingsLayer] = {}  # the last valid ones; of None the user's own
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
        for language in self._languages(uri):
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
        """Resolve the layers again, reading the settings files; returns each rejected value once."""
        problems = dict.fromkeys(self._rejected)
        self._settings, self._layers = {}, {}
        own = self._file(None, read_own_settings(), problems)
        known: dict[str | None, tuple[SettingsLayer, ...]] = {None: own}
        for folder in (None, *folders):
            uri = folder.uri if folder else None
            if folder is not None:
                known[uri] = self._file(uri, read_settings_file(folder.path), problems)
            self._layers[uri] = [*own, *(known[uri] if folder else ()), *self._client_layers(uri)]
            self._settings[uri, ""], rejected = resolve(self._layers[uri])
            problems |= dict.fromkeys(rejected)
            problems |= dict.fromkeys(misspelt_languages(self._layers[uri]))
            for language in self._languages(uri):
                of_language = resolve(self._layers[uri], language)[1]
                problems |= {one: None for one in of_language if one.name.startswith(f"languages.{language}.")}
        self._files = {uri: layer for uri, layers in known.items() for layer in layers}
        return tuple(problems)

    def files(self) -> tuple[str, ...]:
        """The settings files that exist, as problems name them."""
        return tuple(layer.origin for layer in self._files.values())

    def _languages(self, uri: str | None) -> Iterator[str]:
        return islice(sorted(languages_of(self._layers.get(uri, ()))), _MOST_LANGUAGES)

    def _client_layers(self, uri: str | None) -> list[SettingsLayer]:
        pulled = [self._pulled[one] for one in dict.fromkeys((None, uri)) if one in self._pulled]
        return [*self._initial, *pulled, *self._pushed, self._command_line]

    def _file(
        self, uri: str | None, read: SettingsLayer | Problem | None, problems: dict[Problem, None]
    ) -> tuple[SettingsLayer, ...]:
        """The layer of a file that was read now, or its last valid one; none if there is no file."""
        if not isinstance(read, Problem):
            return () if read is None else (read,)
        before = self._files.get(uri)
        instead = "Until then its last valid settings apply." if before else "Until then it is ignored."
        problems[replace(read, message=f"{read.message} {instead}")] = None
        return () if before is None else (before,)

    def _table(self, values: object, origin: str) -> Mapping[str, Any]:
        """`values` as a table; anything else is reported at the next `resolve`."""
        if isinstance(values, dict):
            return values
        if values is not None:
            self._rejected.append(Problem(origin, "settings", "must be a table of names and values"))
        return {}
