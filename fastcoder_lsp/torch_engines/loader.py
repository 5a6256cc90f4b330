"""Chooses and builds the engines on torch (`extensions.TORCH`)."""

import gc
import logging
import platform
import traceback
from collections.abc import Mapping
from functools import partial
from typing import Any

import torch

from fastcoder_lsp.config.environment import processor
from fastcoder_lsp.engine.architecture import Shape, has_experts
from fastcoder_lsp.engine.backend import Backend
from fastcoder_lsp.engine.job import LoadJob
from fastcoder_lsp.engine.loader import against_ours, engine_of, too_little_memory
from fastcoder_lsp.engine.tree_engine import TreeEngine
from fastcoder_lsp.engine.trial import choose_engine
from fastcoder_lsp.engine.weights import open_weights
from fastcoder_lsp.errors import FastcoderError, ModelInvalidError, UsageError
from fastcoder_lsp.model.gguf_folder import count_parameters, require_checkpoint
from fastcoder_lsp.model.machine import require_memory, require_packages
from fastcoder_lsp.torch_engines.faults import cuda_machine, gpu_faults, is_lost

logger = logging.getLogger(__name__)
GPU_KIND, SINGLY = "cuda-graphs", "cuda-bf16"
"""`auto`'s choice on an NVIDIA GPU, and its fallback: the same engine without CUDA graphs."""
GRAPH_KINDS = {
    "cpu-graphs": "plain",
    GPU_KIND: "plain",
    SINGLY: "plain",
    "cuda-int8": "int8",
    "cuda-int4": "int4",
}
"""Kinds of the graph engine, with the precision of their weights."""
TENSOR_CORES = (8, 0)
"""Compute capability from which a GPU multiplies bfloat16 at full speed; below, a CPU may be faster."""


def load(job: LoadJob, shape: Shape | None, kind: str, notes: list[str]) -> TreeEngine | None:
    """The engine of this kind; None where `auto` is better off with the CPU's, and `notes` say why.

    `shape` is None for a model that only transformers can run. Raises as `fastcoder_lsp.engine.load` does.
    """
    found = _chosen(job, shape, kind, notes)
    if found is None or not found.startswith("cuda-"):
        return None if found is None else _load(job, shape, found, notes)
    kind = _without_faults(job, shape, found, notes)
    lesser = _lesser(job, shape, kind)
    while lesser:
        said = len(notes)
        try:
            return _load(job, shape, kind, notes)
        except (ModelInvalidError, UsageError):
            raise
        except Exception as why:
            if isinstance(why, FastcoderError) and job.options.kind != "auto":
                raise
            # Errors of drivers and torch's allocator have no common class. Logged as text: a stored exception
            # would keep its frames alive, and the tensors in them.
            logger.warning("%s cannot be used: %s", kind, "".join(traceback.format_exception(why)))
            reason = why.message if isinstance(why, FastcoderError) else f"{type(why).__name__}: {why}".splitlines()[0]
            lost = not isinstance(why, FastcoderError) and _is_lost(job, kind, reason)
        _give_back()
        if lost and all(each.startswith("cuda-") for each in lesser):
            break  # the GPU's own error is raised below
        instead = next(each for each in lesser if not (lost and each.startswith("cuda-")))
        del lesser[: lesser.index(instead) + 1], notes[said:]
        notes.append(f"{kind} failed on this machine; using {instead} instead: {reason[:200]}")
        kind = instead
    return _load(job, shape, kind, notes) if kind.startswith("cuda-") else None


def _chosen(job: LoadJob, shape: Shape | None, kind: str, notes: list[str]) -> str | None:
    """The kind itself, or `auto`'s choice; None for the CPU's engine."""
    if kind == "auto":
        accelerator = _accelerator()
        if accelerator is None:
            return None
        chosen, said = (_on_nvidia if accelerator == GPU_KIND else _on_apple)(job, shape)
        notes.extend(said)
        return chosen
    if kind.startswith(("cuda-", "mps-")):
        _require_device(kind)
    return kind


def _lesser(job: LoadJob, shape: Shape | None, kind: str) -> list[str]:
    """The fallbacks if a GPU's engine fails to load: without graphs, and, for `auto`, the CPU."""
    if not kind.startswith("cuda-"):
        return []
    own = "cpu-int4" if job.options.bits == 4 else "cpu-int8"
    on_cpu = [] if job.options.kind != "auto" else ["cpu-fp32" if shape is None else own]
    return [*([] if kind == SINGLY else [SINGLY]), *on_cpu]


def _without_faults(job: LoadJob, shape: Shape | None, kind: str, notes: list[str]) -> str:
    """The kind, or the next one without a recent fault on this GPU, with a note."""
    faults = gpu_faults(job.cache)
    for lesser in _lesser(job, shape, kind):
        if (reason := faults.of(kind)) is None:
            break
        notes.append(f"{kind} failed on this machine; using {lesser} instead: {reason} (recorded in {faults.path})")
        kind = lesser
    return kind


def _is_lost(job: LoadJob, kind: str, reason: str) -> bool:
    """Whether a failure has left the GPU unusable to this process; records it if so."""
    if not is_lost():
        return False
    gpu_faults(job.cache).record(kind, reason)
    return True


def _give_back() -> None:
    """Free the GPU memory of a failed load."""
    gc.collect()
    try:
        torch.cuda.empty_cache()
    except RuntimeError as why:  # the GPU is lost
        logger.warning("the GPU's memory cannot be given back: %s", why)


def _load(job: LoadJob, shape: Shape | None, kind: str, notes: list[str]) -> TreeEngine:
    if kind.startswith("cuda-"):
        # cuDNN's attention builds a plan for every length of its keys, and each step has another.
        torch.backends.cuda.enable_cudnn_sdp(False)
    if kind in GRAPH_KINDS:
        if shape is not None:
            return _build_graphs(job, shape, kind, notes)
        kind = "cpu-fp32" if kind.startswith("cpu") else SINGLY
    try:
        backend = _build_other(job, kind, notes) if shape is None else _build_eager(job, shape, kind)
    except MemoryError as error:
        raise too_little_memory() from error
    return engine_of(backend, job, notes)


def _on_nvidia(job: LoadJob, shape: Shape | None) -> tuple[str | None, list[str]]:
    """`auto`'s choice on an NVIDIA GPU with enough memory; None for the CPU's engine."""
    from fastcoder_lsp.torch_engines.graphs.plan import lacking_room  # noqa: PLC0415 asks torch

    if (lacking := lacking_room(job)) is not None:  # asked at each start: more may be free
        return None, [f"the GPU is not used: {lacking}"]
    if shape is None:
        return SINGLY, []
    kind = GPU_KIND if job.options.bits is None else f"cuda-int{job.options.bits}"
    if torch.cuda.get_device_capability() >= TENSOR_CORES or job.options.strict:
        return kind, []
    if against_ours(shape, job.kernels, 8) is not None:
        return kind, []
    verdict = choose_engine(job, cuda_machine(), kinds=("cpu-int8", kind))
    return verdict.chosen if verdict.chosen == kind else None, [verdict.reason]


def _on_apple(job: LoadJob, shape: Shape | None) -> tuple[str | None, list[str]]:
    """MPS, if our CPU kernels cannot run the model, or if a trial found them slower."""
    lacking = "only transformers can run this model" if shape is None else against_ours(shape, job.kernels, 8)
    if lacking is not None:
        return "mps-bf16", [f"the CPU's kernels cannot be used: {lacking}", "MPS is untested"]
    machine = f"{processor()} {platform.mac_ver()[0]} {torch.__version__}"
    verdict = choose_engine(job, machine, kinds=("cpu-int8", "mps-bf16"))
    if verdict.chosen == "mps-bf16":
        return verdict.chosen, [verdict.reason, "MPS is untested"]
    return None, [verdict.reason]


def _accelerator() -> str | None:
    """The kind of engine for a GPU that is present."""
    if torch.cuda.is_available():
        return GPU_KIND
    return "mps-bf16" if torch.backends.mps.is_available() else None


def _require_device(kind: str) -> None:
    there = torch.cuda.is_available() if kind.startswith("cuda-") else torch.backends.mps.is_available()
    if not there:
        raise UsageError(f"this machine has no device for the engine {kind}", "Use the engine auto or cpu-int8.")


def _build_eager(job: LoadJob, shape: Shape, kind: str) -> Backend:
    from fastcoder_lsp.torch_engines.eager import EagerBackend  # noqa: PLC0415

    device, arithmetic = kind.split("-")
    dtype = torch.float32 if arithmetic == "fp32" else torch.bfloat16
    if device == "cpu":
        _set_threads(job.options.threads)
        require_memory((shape.weight_count + shape.vocabulary * shape.width) * dtype.itemsize)
    try:
        with open_weights(job.folder) as weights:
            return EagerBackend(
                kind, shape, weights, capacity=job.capacity, dtype=dtype, device=device, progress=job.progress
            )
    except torch.OutOfMemoryError as error:
        raise too_little_memory() from error


def _build_graphs(job: LoadJob, shape: Shape, kind: str, notes: list[str]) -> TreeEngine:
    from fastcoder_lsp.torch_engines.graphs.build import Recipe, build  # noqa: PLC0415
    from fastcoder_lsp.torch_engines.graphs.device import CpuDevice, CudaDevice, Device  # noqa: PLC0415

    device: Device
    if on_cpu := kind.startswith("cpu"):
        _set_threads(job.options.threads)
        device = CpuDevice()
    else:
        device = CudaDevice(job.options.gpu_memory_percent / 100, captures=kind != SINGLY)
        device.on_lost = partial(gpu_faults(job.cache).end, kind)
    recipe = Recipe(
        name=kind,
        model=job.name,
        source=job.source,
        shape=shape,
        open_source=lambda: open_weights(job.folder),
        context=job.context,
        dtype=torch.float32 if on_cpu else torch.bfloat16,
        progress=job.progress,
        precision=GRAPH_KINDS[kind],
        strict=job.options.strict,
        notes=notes,
    )
    return build(recipe, device)


def _build_other(job: LoadJob, kind: str, notes: list[str]) -> Backend:
    require_packages(f"a model of the kind {job.config['model_type']}", "transformers")
    from fastcoder_lsp.torch_engines.transformers_backend import ForeignBackend  # noqa: PLC0415

    notes.append(_why_foreign(job.config))
    device, arithmetic = kind.split("-")
    if device == "cpu":
        _set_threads(job.options.threads)
        require_memory(count_parameters(job.folder) * (4 if arithmetic == "fp32" else 2))
    require_checkpoint(job.folder, job.progress)
    backend = ForeignBackend(kind, job.folder, capacity=job.capacity, arithmetic=arithmetic, device=device)
    if device == "cuda":
        backend.on_lost = partial(gpu_faults(job.cache).end, kind)
    return backend


def _why_foreign(config: Mapping[str, Any]) -> str:
    """The note that transformers runs a model, why, and what to do."""
    kind = config["model_type"]
    if has_experts(config):
        return (
            f"{kind} is a mixture of experts, which the fast engines do not run: transformers runs it, far too slowly "
            "for suggestions while you type. Choose a model without experts (fastcoder-lsp model list), or run this "
            "one on a llama.cpp server and set `remote.url`"
        )
    return f"{kind} has no engine of ours: transformers runs it, which is slower"


def _set_threads(threads: int | None) -> None:
    if threads is not None:
        torch.set_num_threads(threads)
