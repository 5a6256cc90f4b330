"""Settings and folders as frozen values. Only this package and the command line read the environment."""

from fastcoder_lsp.config.environment import (
    cache_folder,
    kernels_folder,
    own_settings_file,
    runtime_folders,
    usage_folder,
)
from fastcoder_lsp.config.resolve import Problem, SettingsLayer, languages_of, origins, resolve
from fastcoder_lsp.config.table import Scope, Settings, Spec, specs

__all__ = [
    "Problem",
    "Scope",
    "Settings",
    "SettingsLayer",
    "Spec",
    "cache_folder",
    "kernels_folder",
    "languages_of",
    "origins",
    "own_settings_file",
    "resolve",
    "runtime_folders",
    "specs",
    "usage_folder",
]
