"""An engine's model and options, checked before anything is read."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from fastcoder_lsp.core import Progress
from fastcoder_lsp.engine.architecture import longest, read_config
from fastcoder_lsp.engine.options import EngineOptions
from fastcoder_lsp.engine.tree_engine import MAX_NODES

if TYPE_CHECKING:
    from fastcoder_lsp.model.files import ModelFiles


@dataclass(frozen=True, slots=True)
class LoadJob:
    """A model to load: the arguments of `fastcoder_lsp.engine.load`, and the model's configuration."""

    folder: Path
    name: str
    source: str
    digest: str
    options: EngineOptions
    cache: Path
    kernels: Path
    progress: Progress
    enter: Callable[[str], None]
    config: dict[str, Any]

    @classmethod
    def of(
        cls,
        files: "ModelFiles",
        options: EngineOptions,
        cache: Path,
        kernels: Path,
        progress: Progress,
        enter: Callable[[str], None] = lambda _stage: None,
    ) -> Self:
        """Read the configuration and check the options; raises like `fastcoder_lsp.engine.load`."""
        options.check()
        config = read_config(files.folder)
        name, source, digest = files.name, files.source, files.digest
        return cls(files.folder, name, source, digest, options, cache, kernels, progress, enter, config)

    @property
    def capacity(self) -> int:
        """Slots of the KV cache: the context's, and those of a step's drafts."""
        return self.context + MAX_NODES

    @property
    def context(self) -> int:
        """The requested context, limited to the model's."""
        return min(self.options.context, longest(self.config) or self.options.context)
