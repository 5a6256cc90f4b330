"""Settings and folders, resolved once into frozen values; here alone (and in the command line) is the environment read.

Owns the one table of settings and where it comes from. Never reads a file of the user's and never talks to a client:
the front hands the layers in.
"""

from fastcoder_lsp.config.folders import cache_folder, kernels_folder, runtime_folders
from fastcoder_lsp.config.resolve import Problem, SettingsLayer, resolve
from fastcoder_lsp.config.table import Scope, Settings, Spec, specs

__all__ = [
    "Problem",
    "Scope",
    "Settings",
    "SettingsLayer",
    "Spec",
    "cache_folder",
    "kernels_folder",
    "resolve",
    "runtime_folders",
    "specs",
]
