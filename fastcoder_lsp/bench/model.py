"""The model that a benchmark measures: its files, its tokenizer, and its engine. Downloads nothing."""

from dataclasses import dataclass
from pathlib import Path
from typing import cast

from fastcoder_lsp import engine as engines
from fastcoder_lsp import model as models
from fastcoder_lsp.config import cache_folder
from fastcoder_lsp.core import Engine, Progress
from fastcoder_lsp.model import ModelFiles
from fastcoder_lsp.tokenizer import Tokenizer


@dataclass(frozen=True, slots=True)
class BenchModel:
    """A model whose files are on this machine. `cache`: the folder for converted weights and for what is recorded."""

    files: ModelFiles
    tokenizer: Tokenizer
    cache: Path

    def engine(
        self,
        kind: str,
        context: int,
        *,
        threads: int | None = None,
        strict: bool = False,
        free: bool = False,
        progress: Progress = lambda _share, _what: None,
    ) -> Engine:
        """Load the model into an engine: seconds, and the weights' memory; the caller closes it.

        `kind`: as the setting `engine`; `strict`: as `gpu.strict`; `free`: without `llama.strict`.
        `context`: tokens that its KV cache holds. `threads`: None for one for each core.

        Raises:
            ModelInvalidError: the files are damaged or of a kind that cannot be run.
            ResourceError: memory or disk does not suffice.
            UsageError: an option is out of its range, or asks for a device that is not there.
        """
        return engines.load(
            self.files,
            engines.EngineOptions(
                kind=cast("engines.Kind", kind),  # checked by the engine
                context=context,
                threads=threads,
                strict=strict,
                llama_strict=not free,
            ),
            cache=self.cache,
            progress=progress,
        )


def find_model(name: str) -> BenchModel:
    """The model that `name` says, as the setting `model` does; raises FastcoderError if it is missing or damaged."""
    cache = cache_folder()
    files = models.find(name, cache)
    return BenchModel(files, Tokenizer.load(files.folder), cache)
