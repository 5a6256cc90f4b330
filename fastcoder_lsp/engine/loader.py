"""Chooses and builds the engine for a model and a machine: the only place where kinds of engines are compared.

Kinds that need torch import it: the int8 engine starts from its packed form without.
"""

import gc
import importlib.util
import logging
import platform
import traceback
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from fastcoder_lsp.config.environment import processor
from fastcoder_lsp.core import EngineInfo
from fastcoder_lsp.engine.architecture import Shape, fast_shape, has_experts
from fastcoder_lsp.engine.backend import Backend
from fastcoder_lsp.engine.job import LoadJob
from fastcoder_lsp.engine.tree_engine import MAX_NODES, TreeEngine
from fastcoder_lsp.engine.trial import choose_engine, cuda_machine, gpu_faults, is_lost
from fastcoder_lsp.errors import FastcoderError, ModelInvalidError, ResourceError, UsageError
from fastcoder_lsp.model.gguf_folder import count_parameters, require_checkpoint
from fastcoder_lsp.model.machine import require_memory, require_packages

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
BITS = {"cpu-int8": 8, "cpu-int4": 4}
"""Kinds of our CPU kernels, with the bits of a weight."""


def load_engine(job: LoadJob) -> TreeEngine:
    """The engine for a job; raises as `fastcoder_lsp.engine.load` does."""
    shape = fast_shape(job.config)
    kind, notes = _choose(job, shape)
    if kind.startswith("cuda-"):
        kind = _without_faults(job, shape, kind, notes)
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
    return _load(job, shape, kind, notes)


def _lesser(job: LoadJob, shape: Shape | None, kind: str) -> list[str]:
    """The fallbacks if a GPU's engine fails to load: without graphs, and, for `auto`, the CPU."""
    if not kind.startswith("cuda-"):
        return []
    on_cpu = [] if job.options.kind != "auto" else ["cpu-fp32" if shape is None else "cpu-int8"]
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
    import torch  # noqa: PLC0415 imported already

    gc.collect()
    try:
        torch.cuda.empty_cache()
    except RuntimeError as why:  # the GPU is lost
        logger.warning("the GPU's memory cannot be given back: %s", why)


def _load(job: LoadJob, shape: Shape | None, kind: str, notes: list[str]) -> TreeEngine:
    """The engine of this kind; frees the GPU's memory if it fails."""
    if kind not in BITS:
        require_packages(f"the engine {kind}", "torch")
    if kind.startswith("cuda-"):
        import torch  # noqa: PLC0415 as said above

        # cuDNN's attention builds a plan for every length of its keys, and each step has another.
        torch.backends.cuda.enable_cudnn_sdp(False)
    if kind in GRAPH_KINDS:
        if shape is not None:
            return _build_graphs(job, shape, kind, notes)
        kind = "cpu-fp32" if kind.startswith("cpu") else SINGLY
    try:
        backend = _build(job, shape, kind, notes)
    except MemoryError as error:
        raise _too_little_memory() from error
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
        ),
    )


def _choose(job: LoadJob, shape: Shape | None) -> tuple[str, list[str]]:
    """The kind of engine, and what the user should know about the choice."""
    asked, notes = job.options.kind, list[str]()
    if asked.startswith(("cuda-", "mps-")):
        _require_device(asked)
        return asked, notes
    if asked == "auto" and (found := _accelerator()):
        kind, notes = (_on_nvidia if found == GPU_KIND else _on_apple)(job, shape)
        if kind is not None:
            return kind, notes
    if asked in ("cpu-fp32", "cpu-bf16", "cpu-graphs"):
        return asked, notes
    if shape is None:
        return "cpu-fp32", notes
    if asked == "auto" and job.options.bits == 4:
        asked = "cpu-int4"
        notes.append("four-bit weights: by the times measured here, eight-bit ones exceed a limit (docs/models.md)")
    for kind in dict.fromkeys((asked if asked in BITS else "cpu-int8", "cpu-int8")):
        reason = _against_ours(shape, job.kernels, BITS[kind])
        if reason is None:
            return kind, notes
        instead = (
            "using int8 instead" if kind == "cpu-int4" else "using bf16 instead, which is slower and not bit-exact"
        )
        notes.append(f"{kind.removeprefix('cpu-')} cannot be used: {reason}; {instead}")
    return "cpu-bf16", notes


def _on_nvidia(job: LoadJob, shape: Shape | None) -> tuple[str | None, list[str]]:
    """`auto`'s choice on an NVIDIA GPU with enough memory; None for the CPU's engine."""
    from fastcoder_lsp.engine.static.plan import lacking_room  # noqa: PLC0415 asks torch

    if (lacking := lacking_room(job)) is not None:  # asked at each start: more may be free
        return None, [f"the GPU is not used: {lacking}"]
    if shape is None:
        return SINGLY, []
    import torch  # noqa: PLC0415

    kind = GPU_KIND if job.options.bits is None else f"cuda-int{job.options.bits}"
    if torch.cuda.get_device_capability() >= TENSOR_CORES or job.options.strict:
        return kind, []
    if _against_ours(shape, job.kernels, 8) is not None:
        return kind, []
    verdict = choose_engine(job, cuda_machine(), kinds=("cpu-int8", kind))
    return verdict.chosen if verdict.chosen == kind else None, [verdict.reason]


def _on_apple(job: LoadJob, shape: Shape | None) -> tuple[str | None, list[str]]:
    """MPS, if our CPU kernels cannot run the model, or if a trial found them slower."""
    lacking = "only transformers can run this model" if shape is None else _against_ours(shape, job.kernels, 8)
    if lacking is not None:
        return "mps-bf16", [f"the CPU's kernels cannot be used: {lacking}", "MPS is untested"]
    import torch  # noqa: PLC0415

    machine = f"{processor()} {platform.mac_ver()[0]} {torch.__version__}"
    verdict = choose_engine(job, machine, kinds=("cpu-int8", "mps-bf16"))
    if verdict.chosen == "mps-bf16":
        return verdict.chosen, [verdict.reason, "MPS is untested"]
    return None, [verdict.reason]


def _against_ours(shape: Shape, kernels: Path, bits: int) -> str | None:
    """Why our CPU kernels can't run here with weights of so many bits; None if they can."""
    from fastcoder_lsp.engine.int8.packing import fits  # noqa: PLC0415 numba takes a while to import
    from fastcoder_lsp.engine.int8.selftest import exact_kind  # noqa: PLC0415

    if not fits(shape, bits):
        return f"the model's sizes are not multiples of {16 if bits == 8 else 32}"
    if exact_kind(shape, kernels, bits) is None:
        return "this CPU's integer products are not exact"
    return None


def _accelerator() -> str | None:
    """The kind of engine for a GPU that is present. Looks for its driver first: importing torch takes seconds."""
    apple = platform.system() == "Darwin" and platform.machine() == "arm64"
    nvidia = any(Path(place).exists() for place in ("/dev/nvidiactl", "/dev/dxg", "C:/Windows/System32/nvcuda.dll"))
    if not (apple or nvidia) or importlib.util.find_spec("torch") is None:
        return None
    import torch  # noqa: PLC0415

    if torch.cuda.is_available():
        return GPU_KIND
    return "mps-bf16" if torch.backends.mps.is_available() else None


def _require_device(kind: str) -> None:
    require_packages(f"the engine {kind}", "torch")
    import torch  # noqa: PLC0415

    there = torch.cuda.is_available() if kind.startswith("cuda-") else torch.backends.mps.is_available()
    if not there:
        raise UsageError(f"this machine has no device for the engine {kind}", "Use the engine auto or cpu-int8.")


def _build(job: LoadJob, shape: Shape | None, kind: str, notes: list[str]) -> Backend:
    if shape is None:
        return _build_other(job, kind, notes)
    return _build_ours(job, shape, BITS[kind], notes) if kind in BITS else _build_eager(job, shape, kind)


def _build_ours(job: LoadJob, shape: Shape, bits: int, notes: list[str]) -> Backend:
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


def _build_eager(job: LoadJob, shape: Shape, kind: str) -> Backend:
    import torch  # noqa: PLC0415

    from fastcoder_lsp.engine.eager import EagerBackend  # noqa: PLC0415
    from fastcoder_lsp.engine.weights import open_weights  # noqa: PLC0415

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
        raise _too_little_memory() from error


def _build_graphs(job: LoadJob, shape: Shape, kind: str, notes: list[str]) -> TreeEngine:
    import torch  # noqa: PLC0415

    from fastcoder_lsp.engine.static.build import Recipe, build  # noqa: PLC0415
    from fastcoder_lsp.engine.static.device import CpuDevice, CudaDevice, Device  # noqa: PLC0415
    from fastcoder_lsp.engine.weights import open_weights  # noqa: PLC0415

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
    from fastcoder_lsp.engine.foreign import ForeignBackend  # noqa: PLC0415

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
    import torch  # noqa: PLC0415

    if threads is not None:
        torch.set_num_threads(threads)


def _too_little_memory() -> ResourceError:
    return ResourceError(
        "memory ran out while the model was loaded", "Use a smaller model or a smaller `context_tokens`."
    )
