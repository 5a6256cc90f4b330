"""Calibrates a model's four-bit weights on public code: the standard library, in the form of prompts.

Owns the texts: windows of files from all over the library, each with its middle at the end, as in an editor's prompts.
`engine.calibrated` rounds the weights.
"""

from collections.abc import Sequence

import numpy as np

from fastcoder_lsp import engine as engines
from fastcoder_lsp import model as models
from fastcoder_lsp.config import cache_folder, kernels_folder
from fastcoder_lsp.core import Progress
from fastcoder_lsp.core.arrays import Int64s
from fastcoder_lsp.engine.calibrated import CalibrationResult, choose_weights, forget_chosen
from fastcoder_lsp.engine.job import LoadJob
from fastcoder_lsp.errors import UsageError
from fastcoder_lsp.prompt import template_of
from fastcoder_lsp.tokenizer import Tokenizer
from fastcoder_lsp.workspace.corpus_files import standard_library

LENGTH = 512
"""Tokens of a text, or fewer where the model reads no more."""
GUIDING, JUDGING = 12, 12
"""Texts that guide the rounding, and texts that measure its loss."""
_SEED = 1


def calibrate(name: str, progress: Progress, threads: int | None = None) -> tuple[str, CalibrationResult]:
    """Calibrate the four-bit weights of a model, and keep them if they lose less than plain rounding; takes minutes.

    Returns the model's name, and the result.

    Args:
        name: as the setting `model`.
        progress: told what is being done.
        threads: of the CPU, for the comparison; None for one for each core.

    Raises:
        FastcoderError: the model is missing or damaged, does not fit this machine, or cannot run in four bits.
    """
    cache = cache_folder()
    files = models.find(name, cache)
    tokenizer = Tokenizer.load(files.folder, cache / "tokenizers")

    options = engines.EngineOptions(kind="cpu-int4", context=LENGTH, threads=threads)
    job = LoadJob.of(files, options, cache, kernels_folder(), progress)
    texts = [text for _, text in standard_library()]
    texts_SC = fill_in_texts(texts, tokenizer, GUIDING + JUDGING, min(LENGTH, job.context))
    # Alternate, so that both kinds of texts come from the whole library.
    return files.name, choose_weights(job, texts_SC[::2], texts_SC[1::2])


def undo(name: str) -> tuple[str, bool]:
    """Go back to plainly rounded weights; returns the model's name, and whether it had calibrated weights.

    Raises:
        FastcoderError: the model is missing, or they cannot be deleted.
    """
    files = models.find(name, cache_folder())
    return files.name, forget_chosen(files.digest, cache_folder())


def fill_in_texts(texts: Sequence[str], tokenizer: Tokenizer, count: int, length: int) -> Int64s:
    """`count` fill-in-the-middle prompts of `length` tokens with their answers, from texts spread over `texts`.

    Raises:
        UsageError: too few texts are long enough.
    """
    template, control = template_of(tokenizer), tokenizer.control
    marks = [control[mark] for mark in template.marks]
    long = [text for text in texts if len(text) >= 12 * length]
    if len(long) < count:
        raise UsageError(
            "this Python's standard library contains too little code", "Install the full standard library."
        )
    chance = np.random.default_rng(_SEED)
    found = []
    for number in np.linspace(0, len(long) - 1, count).astype(int).tolist():
        tokens = tokenizer.encode(long[number][: 40 * length])
        size = length - len(marks) - len(tokenizer.start_ids)
        start = int(chance.integers(0, max(1, len(tokens) - size)))
        window = tokens[start : start + size]
        if marks:
            first = int(chance.integers(size // 3, 3 * size // 4))
            last = min(size, first + int(chance.integers(16, 96)))
            parts = template.in_order(window[:first], window[last:])
            window = [marks[0], *parts[0], marks[1], *parts[1], *marks[2:], *window[first:last]]
        found.append([*tokenizer.start_ids, *window])
    shortest = min(map(len, found))
    return np.array([window[:shortest] for window in found], dtype=np.int64)
