"""`doctor`'s check of the settings: which differ from their defaults, where each comes from, and what is wrong."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from fastcoder_lsp.cli.doctor.check import Check
from fastcoder_lsp.config import (
    Problem,
    Settings,
    SettingsLayer,
    languages_of,
    origins,
    own_settings_file,
    resolve,
    specs,
)
from fastcoder_lsp.config.settings_text import as_written
from fastcoder_lsp.core.controls import counted
from fastcoder_lsp.workspace.rules import ReadingRules
from fastcoder_lsp.workspace.settings_files import layers_of_files, misspelt_languages


@dataclass(frozen=True, slots=True)
class FoundSettings:
    """The layers of the settings files and of the command's options, weakest first, and why a file has none."""

    layers: Sequence[SettingsLayer]
    problems: Sequence[Problem]

    @classmethod
    def read(cls, options: SettingsLayer, folder: Path | None) -> "FoundSettings":
        """Read the files; `folder`: the workspace that the command was started in."""
        layers, problems = layers_of_files(folder)
        return cls([*layers, options], problems)

    @property
    def of_session(self) -> Settings:
        """The settings that hold in every folder."""
        return resolve([layer for layer in self.layers if layer.trusted])[0]


def check_settings(found: FoundSettings) -> Iterator[Check]:
    """The settings files, as far as there are any, and the settings that they or the options change."""
    _, refused = resolve(found.layers)
    for problem in (*found.problems, *refused, *misspelt_languages(found.layers)):
        yield Check("settings", "wrong", str(problem), "docs/settings.md lists the settings and their values.")
    changed = list(_changed(found.layers))
    files = [layer.origin for layer in found.layers[:-1]]
    if changed:
        text = "\n".join(["these differ from their defaults (editors may set others):", *changed])
    elif files:
        text = f"the defaults; nothing else is set in {' and '.join(files)}"
    else:
        text = f"the defaults; {own_settings_file()} does not exist"
    yield Check("settings", "ok", text, details={"changed": changed, "files": files})


def check_files(folder: Path, found: FoundSettings) -> Check:
    """Whether all files of the workspace are read."""
    rules = ReadingRules([folder], resolve(found.layers)[0])
    count = sum(1 for _ in rules.files())
    text, details = f"{counted(count, 'file')} of this workspace", {"count": count}
    if rules.cut:
        return Check("files", "note", f"only the first {text}", "To read more, raise `read.max_files`.", dict(details))
    return Check("files", "ok", text, details=dict(details))


def _changed(layers: Sequence[SettingsLayer]) -> Iterator[str]:
    general = origins(layers)
    for language in ("", *sorted(languages_of(layers))):
        settings, _ = resolve(layers, language)
        for name, place in origins(layers, language).items():
            if not language or place != general.get(name):
                value = as_written(getattr(settings, specs()[name].attribute))
                yield f"{f'languages.{language}.' if language else ''}{name} = {value}  ({place})"
