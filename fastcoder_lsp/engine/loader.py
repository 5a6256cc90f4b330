"""Builds the engine for a model: our CPU kernels, llama.cpp, or what `torch_engines` has for this machine and model."""

import importlib.util
import platform
from pathlib import Path

from fastcoder_lsp.config.environment import missing_packages
from fastcoder_lsp.core import EngineInfo
from fastcoder_lsp.engine.architecture import Shape, fast_shape, read_config
from fastcoder_lsp.engine.backend import Backend
from fastcoder_lsp.engine.job import LoadJob
from fastcoder_lsp.engine.tree_engine import MAX_NODES, TreeEngine
from fastcoder_lsp.engine.trial import choose_engine
from fastcoder_lsp.errors import ResourceError
from fastcoder_lsp.extensions import LLAMA, TORCH
from fastcoder_lsp.model.files import gguf_of
from fastcoder_lsp.model.machine import install_line, require_memory

BITS = {"cpu-int8": 8, "cpu-int4": 4}
"""Kinds of our CPU kernels, with the bits of a weight."""


def load_engine(job: LoadJob) -> TreeEngine:
    """The engine for a job; raises as `fastcoder_lsp.engine.load` does."""
    asked, notes = job.options.kind, list[str]()
    shape = None if asked == "llama" else fast_shape(job.config)
    if asked == "llama" or (asked == "auto" and shape is None and _llama_runs(job, notes)):
        return _with_llama(job, notes)
    if asked == "auto" and shape is not None and _llama_is_quicker(job, notes):
        return _with_llama(job, notes)
    if asked not in BITS and (asked != "auto" or may_have_gpu()):
        found = _with_torch(job, shape, asked, notes)
        if found is not None:
            return found
    kind = "cpu-fp32" if shape is None else _own_kind(job, shape, notes)
    if asked == "auto" and kind == "cpu-bf16" and _llama_runs(job, notes):
        return _with_llama(job, notes)
    if shape is None or kind not in BITS:
        found = _with_torch(job, shape, kind, notes)
        assert found is not None, "only `auto` finds nothing"
        return found
    try:
        return engine_of(_build(job, shape, BITS[kind], notes), job, notes)
    except MemoryError as error:
        raise too_little_memory() from error


def needs_llama(asked: str, folder: Path) -> bool:
    """Whether the model in `folder` runs with the setting `engine = asked` by llama.cpp alone.

    Raises ModelInvalidError if its configuration is damaged.
    """
    alone = asked == "auto" and fast_shape(read_config(folder)) is None
    return asked == "llama" or (alone and gguf_of(folder) is not None and not missing_packages(*LLAMA.packages))


def foreseen(folder: Path) -> str:
    """What computes the model in `folder` with `engine = "auto"`, and why, where no trial on a GPU decides.

    Raises ModelInvalidError if its configuration is damaged.
    """
    config = read_config(folder)
    if fast_shape(config) is not None:
        return "our kernels"
    reason = f"our kernels do not run {config['model_type']}"
    if needs_llama("auto", folder):
        return f"llama.cpp: {reason}"
    if gguf_of(folder) is None:
        return f"transformers, too slow to type with: {reason}"
    return f"nothing yet: {reason}. For llama.cpp, run: {install_line(*LLAMA.packages)}"


def _with_torch(job: LoadJob, shape: Shape | None, kind: str, notes: list[str]) -> TreeEngine | None:
    """An engine of `torch_engines`; None where `auto` does without."""
    found: TreeEngine | None = TORCH.load(f"the engine {kind}").load(job, shape, kind, notes)
    return found


def _with_llama(job: LoadJob, notes: list[str]) -> TreeEngine:
    found: TreeEngine = LLAMA.load("the engine llama").load(job, notes)
    return found


def _llama_runs(job: LoadJob, notes: list[str]) -> bool:
    """Whether `auto` takes llama.cpp for a model that our kernels do not run here; `notes` say so."""
    if gguf_of(job.folder) is None or missing_packages(*LLAMA.packages):
        return False
    notes.append(f"our kernels do not run {job.config['model_type']} here: llama.cpp does")
    return True


def _llama_is_quicker(job: LoadJob, notes: list[str]) -> bool:
    """Whether `auto` takes llama.cpp, on a GPU, for a model that our kernels run: by a trial, which `notes` tell."""
    if gguf_of(job.folder) is None or missing_packages(*LLAMA.packages):
        return False
    if not (gpu := LLAMA.load("the engine llama").gpu_name()):
        return False
    verdict = choose_engine(job, gpu, kinds=("cpu-int4" if job.options.bits == 4 else "cpu-int8", "llama"))
    notes.append(verdict.reason)
    return verdict.chosen == "llama"


def engine_of(
    backend: Backend, job: LoadJob, notes: list[str], *, drafts: bool = True, trees: bool = True
) -> TreeEngine:
    """The engine around a backend."""
    return TreeEngine(
        backend,
        EngineInfo(
            name=backend.name,
            model=job.name,
            source=job.source,
            device=backend.device,
            vocabulary=backend.vocabulary,
            context=job.context,
            max_nodes=MAX_NODES,
            notes=tuple(notes),
            drafts=drafts,
            trees=trees,
        ),
    )


def _own_kind(job: LoadJob, shape: Shape, notes: list[str]) -> str:
    """The kind of our CPU kernels, or "cpu-bf16" where they cannot run; says why in `notes`."""
    asked = job.options.kind
    if asked == "auto" and job.options.bits == 4:
        asked = "cpu-int4"
        notes.append("four-bit weights: by the times measured here, eight-bit ones exceed a limit (docs/models.md)")
    for kind in dict.fromkeys((asked if asked in BITS else "cpu-int8", "cpu-int8")):
        reason = against_ours(shape, job.kernels, BITS[kind])
        if reason is None:
            return kind
        instead = (
            "using int8 instead" if kind == "cpu-int4" else "using bf16 instead, which is slower and not bit-exact"
        )
        notes.append(f"{kind.removeprefix('cpu-')} cannot be used: {reason}; {instead}")
    return "cpu-bf16"


def against_ours(shape: Shape, kernels: Path, bits: int) -> str | None:
    """Why our CPU kernels can't run here with weights of so many bits; None if they can."""
    from fastcoder_lsp.engine.int8.packing import fits  # noqa: PLC0415 numba takes a while to import
    from fastcoder_lsp.engine.int8.selftest import exact_kind  # noqa: PLC0415

    if not fits(shape, bits):
        return f"the model's sizes are not multiples of {16 if bits == 8 else 32}"
    if exact_kind(shape, kernels, bits) is None:
        return "this CPU's integer products are not exact"
    return None


def may_have_gpu() -> bool:
    """Whether a GPU's driver and torch are here; importing torch takes seconds."""
    apple = platform.system() == "Darwin" and platform.machine() == "arm64"
    nvidia = any(Path(place).exists() for place in ("/dev/nvidiactl", "/dev/dxg", "C:/Windows/System32/nvcuda.dll"))
    return (apple or nvidia) and importlib.util.find_spec("torch") is not None


def _build(job: LoadJob, shape: Shape, bits: int, notes: list[str]) -> Backend:
    from fastcoder_lsp.engine.int8.backend import Int8Backend  # noqa: PLC0415
    from fastcoder_lsp.engine.int8.packing import memory_bytes  # noqa: PLC0415
    from fastcoder_lsp.engine.int8.selftest import exact_kind  # noqa: PLC0415
    from fastcoder_lsp.engine.int8.stored import WeightsRequest, load_arrays  # noqa: PLC0415
    from fastcoder_lsp.engine.int8.sync import default_threads  # noqa: PLC0415

    dot = exact_kind(shape, job.kernels, bits)
    assert dot is not None, "chosen without a kind of product"
    require_memory(memory_bytes(shape, dot) + 2 * shape.slot_numbers * job.capacity)
    job.enter("weights")
    wanted = WeightsRequest(job.folder, shape, dot, job.digest, job.cache)
    arrays = load_arrays(wanted, job.progress, job.enter, notes.append)
    job.enter("kernels")
    threads = job.options.threads or default_threads()
    backend = Int8Backend(shape, arrays, dot, capacity=job.capacity, threads=threads, kernels=job.kernels)
    backend.warm_up(job.progress)
    return backend


def too_little_memory() -> ResourceError:
    """The error where memory ran out."""
    return ResourceError(
        "memory ran out while the model was loaded", "Use a smaller model or a smaller `context_tokens`."
    )
