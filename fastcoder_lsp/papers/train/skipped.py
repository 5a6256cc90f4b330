"""`train self`: searches, without torch, the parts of a model to skip when it drafts for itself, on the user's code."""

from collections.abc import Callable, Sequence
from pathlib import Path

from fastcoder_lsp import engine as engines
from fastcoder_lsp import model as models
from fastcoder_lsp.config import kernels_folder
from fastcoder_lsp.engine.architecture import Shape, fast_shape, read_config
from fastcoder_lsp.errors import UsageError
from fastcoder_lsp.model import skip_sets
from fastcoder_lsp.papers import self_model
from fastcoder_lsp.papers.train.texts import read_texts
from fastcoder_lsp.tokenizer import Tokenizer

LENGTH = 384  # most tokens of a text, from its start
KV_MB = 1024  # for the caches of all places, which are read once


def search_skipped(
    model: str,
    data: Sequence[str],
    cache: Path,
    *,
    places: int,
    rounds: int,
    seed: int = 0,
    progress: Callable[[int, float], None] = lambda _tried, _speed: None,
) -> tuple[skip_sets.SkipSet, Path]:
    """Search over `rounds` sets of parts at `places` in the code, and store the result for the drafter `self`.

    `progress` receives the number of sets tried and the best speed so far. Raises FastcoderError if the model or the
    data is missing, or this model cannot skip layers.
    """
    files = models.find(model, cache)
    shape = fast_shape(read_config(files.folder))
    if shape is None:
        raise UsageError(f"{files.name} cannot skip layers", "Use a model of the kinds Qwen2 or Llama.")
    tokenizer = Tokenizer.load(files.folder)
    texts = [tokenizer.encode(text)[:LENGTH] for text in read_texts(data, tokenizer, cache).texts]
    loaded = engines.load_engines(
        files,
        engines.EngineOptions(kind="cpu-int8", context=LENGTH + 64, kv_mb=KV_MB),
        cache=cache,
        progress=lambda _share, _what: None,
        kernels=kernels_folder(),
    )
    try:
        asked = self_model.trials(loaded, texts, places, seed)
        found = self_model.search(_costs(shape), asked, rounds, progress=progress, seed=seed)
    finally:
        loaded.close()
    return found, skip_sets.keep(cache, files.digest, found)


def _costs(shape: Shape) -> self_model.Costs:
    """Costs by numbers of weights, for a narrow pass takes the time of reading them."""
    head = shape.vocabulary * shape.width / shape.weight_count
    attention = 2 * (shape.heads + shape.kv_heads) * shape.head_dim
    return self_model.Costs(2 * shape.layers, head, attention / (attention + 3 * shape.inner))
