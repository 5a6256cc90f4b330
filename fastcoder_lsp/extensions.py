"""Where the drafters, engines and commands beside the heart are, and the packages that they need.

The heart imports no neighbour (`papers`, `torch_engines`, `llama_engine`, `team`): it finds their modules here, by
name. A drafter's module has its `SPECIFICATIONS`. One that `auto` takes has a function `for_auto` as well, which gives
its source of continuations (`draft.auto.sources.Offer`). An engine's module has a function `load`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from types import ModuleType

from fastcoder_lsp.model.machine import require_packages


@dataclass(frozen=True, slots=True)
class Extension:
    """A module, and the packages that it needs beside those of every installation."""

    module: str
    packages: tuple[str, ...] = ()

    def load(self, purpose: str) -> ModuleType:
        """Import the module.

        Raises:
            InstallationError: `purpose` needs packages that are missing.
        """
        require_packages(purpose, *self.packages)
        return import_module(self.module)


DRAFTERS: Mapping[str, Extension] = {
    name: Extension(f"fastcoder_lsp.papers.{module}")
    for module, names in {
        "rest": ("rest",),
        "sam": ("sam",),
        "fastcoder": ("fastcoder", "fastcoder-paper"),
        "cacheback": ("cacheback", "cacheback-dynamic", "cacheback-frozen"),
        "recycling": ("recycling", "recycling-paper"),
        "jacobi": ("jacobi", "lookahead", "lookahead-paper"),
        "sdsat": ("sdsat",),
        "draft_model": ("draft-model", "draft-model-tree", "specinfer", "draft-distilled"),
        "ouroboros": ("ouroboros",),
        "self_model": ("self",),
        "medusa": ("medusa",),
        "eagle": ("eagle",),
    }.items()
    for name in names
}
"""Drafters as their papers publish them. They need no package: also trained ones draft without torch."""

TORCH = Extension("fastcoder_lsp.torch_engines.loader", ("torch",))
"""All engines but our CPU kernels, by `load(job, shape, kind, notes)`."""

LLAMA = Extension("fastcoder_lsp.llama_engine.loader", ("llama_cpp",))
"""llama.cpp, by `load(job, notes)`."""

COMMANDS: Mapping[str, Extension] = {
    "train": Extension("fastcoder_lsp.cli.train", ("accelerate", "torch", "transformers")),
    "team": Extension("fastcoder_lsp.cli.team", ("ray",)),
}
"""Commands whose work needs packages; their help does not."""
