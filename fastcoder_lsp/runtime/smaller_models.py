"""Smaller models that draft for the model: finds, checks and loads them when a drafter first asks for one.

They need the same tokenizer, because a token must mean the same to both models, and enough memory.
"""

from collections.abc import Callable, Sequence
from pathlib import Path

from fastcoder_lsp import model as models
from fastcoder_lsp.config import Settings
from fastcoder_lsp.core import Engines, Progress
from fastcoder_lsp.documents import Slots
from fastcoder_lsp.engine import EngineOptions
from fastcoder_lsp.engine.architecture import fast_shape, read_config
from fastcoder_lsp.errors import ResourceError, UsageError
from fastcoder_lsp.model.files import ModelFiles
from fastcoder_lsp.runtime.set_engine import load_engines
from fastcoder_lsp.tokenizer import Tokenizer

LEAST_KV_MB = 32  # least memory for the KV caches of smaller models, however much their weights need
_WEIGHT_BYTES = {"cpu-int8": 1.0, "cuda-int8": 1.0, "cpu-int4": 0.6, "cuda-int4": 0.5, "cpu-fp32": 4.0, "auto": 1.0}
"""Bytes of a weight by kind of engine; other kinds have two."""


class SmallerModels:
    """The models that `draft.models` names, loaded at first use; all fronts share their weights.

    `tokenizer`: the large model's.
    """

    def __init__(self, settings: Settings, cache: Path, tokenizer: Tokenizer, progress: Progress) -> None:
        self._names, self._settings, self._cache = settings.draft_models, settings, cache
        self._tokenizer, self._progress = tokenizer, progress
        self._engines: list[Engines] | None = None
        self._slots: dict[str, list[Slots]] = {}
        self._apart: Callable[[Engines], Engines] = lambda loaded: loaded

    def __len__(self) -> int:
        return len(self._names)

    def of(self, front: str) -> Sequence[Slots]:
        """The models with caches of one front's documents; FastcoderError if one is missing, unfit or too large."""
        if self._engines is None:
            self._engines = []
            try:
                self._load(self._engines)
            except BaseException:
                self.close()
                raise
        return self._slots.setdefault(front, [Slots(one, front) for one in self._engines])

    def keep_apart(self, apart: Callable[[Engines], Engines]) -> None:
        """Wrap each model in `apart`, including those that are already loaded."""
        self._apart = apart
        if self._engines is not None:
            self._engines = [apart(one) for one in self._engines]
            self._slots.clear()

    def leave(self, front: str) -> None:
        """Free the caches of a front that has left."""
        for slots in self._slots.pop(front, []):
            slots.close()

    def close(self) -> None:
        """Free all memory."""
        self._slots.clear()
        for one in self._engines or []:
            one.close()
        self._engines = None

    def _load(self, loaded: list[Engines]) -> None:
        settings, most_mb = self._settings, self._settings.draft_memory_mb
        found = [models.find(name, self._cache) for name in self._names]
        for files in found:
            self._require_tokenizer(files)
        weights_mb = sum(_weight_bytes(files, settings.engine) for files in found) / 1e6
        if weights_mb + LEAST_KV_MB * len(found) > most_mb:
            raise ResourceError(
                f"the models in draft.models need {weights_mb + LEAST_KV_MB * len(found):.0f} MB; the limit is "
                f"{most_mb} MB",
                "Raise draft.memory_mb, or name smaller ones in draft.models.",
            )
        for files in found:
            self._progress(0.0, f"loading the drafter's model {files.name}")
            kv_mb = max(int((most_mb - weights_mb) / len(found)), LEAST_KV_MB)
            options = EngineOptions(context=settings.context_tokens, kv_mb=kv_mb)
            loaded.append(self._apart(load_engines(settings, files, options, self._cache, self._progress)))

    def _require_tokenizer(self, files: ModelFiles) -> None:
        own, other = self._tokenizer, Tokenizer.load(files.folder, self._cache / "tokenizers")
        same = own.identity == other.identity or (
            own.control == other.control
            and own.vocabulary == other.vocabulary
            and all(own.piece(token) == other.piece(token) for token in range(own.vocabulary))
        )
        if not same:
            raise UsageError(
                f"{files.name} has a different tokenizer than the main model",
                "Name a smaller model of the same family in draft.models.",
            )


def _weight_bytes(files: ModelFiles, kind: str) -> float:
    shape = fast_shape(read_config(files.folder))
    if shape is None:
        return float(sum(path.stat().st_size for path in files.folder.glob("*.safetensors")))
    return shape.weight_count * _WEIGHT_BYTES.get(kind, 2.0)
