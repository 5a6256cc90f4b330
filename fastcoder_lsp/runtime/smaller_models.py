"""Smaller models that draft for the model: finds, checks and loads them when a drafter first asks for one.

They need the same tokenizer, because a token must mean the same to both models, and enough memory.
"""

from collections.abc import Callable, Sequence
from pathlib import Path

from fastcoder_lsp import model as models
from fastcoder_lsp.config import Settings
from fastcoder_lsp.core import Engines, Progress, StepCosts
from fastcoder_lsp.documents import Slots
from fastcoder_lsp.engine import EngineOptions
from fastcoder_lsp.engine.architecture import fast_shape, read_config
from fastcoder_lsp.errors import FastcoderError, ResourceError, UsageError
from fastcoder_lsp.model.catalogue import BITS, FAMILY
from fastcoder_lsp.model.choice import MEMORY_SHARE, read_measured
from fastcoder_lsp.model.files import ModelFiles
from fastcoder_lsp.model.find import AUTO
from fastcoder_lsp.model.machine import available_bytes, installed_bytes
from fastcoder_lsp.runtime.set_engine import load_engines
from fastcoder_lsp.tokenizer import Tokenizer

LEAST_KV_MB = 32  # least memory for the KV caches of smaller models, however much their weights need
_WEIGHT_BYTES = {"cpu-int8": 1.0, "cuda-int8": 1.0, "cpu-int4": 0.6, "cuda-int4": 0.5, "cpu-fp32": 4.0, "auto": 1.0}
"""Bytes of a weight by kind of engine; other kinds have two."""


def smaller_model_names(
    settings: Settings, hub_id: str, engine: str, costs: StepCosts, cache: Path, gpu_bytes: int
) -> tuple[str, ...]:
    """The models in `draft.models`; without any, and with `draft.automatic`, one that is here and pays.

    That is the smallest model of the family, if it is smaller than the one in use, its drafts are forecast to save more
    time than they take, and both together take at most a quarter of the installed memory and what is free. `hub_id`:
    the model in use, empty for one of another family. `gpu_bytes`: memory of the GPU; with one, no model drafts by
    itself.
    """
    large, small = next((size for size in FAMILY if size.hub_id == hub_id), None), FAMILY[0]
    if settings.draft_models or not settings.draft_automatic or settings.drafter.partition(":")[0] != AUTO:
        return settings.draft_models
    bits = next((bits for bits in BITS if engine.startswith(f"cpu-int{bits}")), 0)
    measured = read_measured(cache)
    speed = measured.speeds.get((small.hub_id, bits)) if measured is not None else None
    if large is None or large is small or gpu_bytes or speed is None:
        return ()
    # Not at the top: they bring a compiler along, which a front does without.
    from fastcoder_lsp.draft.pricing import Forecast, Price  # noqa: PLC0415
    from fastcoder_lsp.draft.registry import read_name  # noqa: PLC0415

    price = Price(costs, priced=True)
    price.expect(Forecast(read_name("draft-model-tree")[1].length * speed.step_ms))
    added = small.read_bytes(bits) + LEAST_KV_MB * 1_000_000
    fits = large.memory_bytes(bits) + added <= installed_bytes() * MEMORY_SHARE and added <= available_bytes()
    if not price.pays() or not fits or added > settings.draft_memory_mb * 1_000_000:
        return ()
    try:
        models.find(small.hub_id, cache, gpu_bytes=0)
    except FastcoderError:
        return ()
    return (small.hub_id,)


class SmallerModels:
    """The smaller models, loaded at first use as the settings say; all fronts share their weights.

    `tokenizer`: the large model's.
    """

    def __init__(
        self, names: tuple[str, ...], settings: Settings, cache: Path, tokenizer: Tokenizer, progress: Progress
    ) -> None:
        self._names, self._settings, self._cache = names, settings, cache
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
