"""Builds the engine on llama.cpp (`extensions.LLAMA`)."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from fastcoder_lsp.config.environment import processor
from fastcoder_lsp.engine.int8.sync import default_threads
from fastcoder_lsp.engine.job import LoadJob
from fastcoder_lsp.engine.loader import engine_of
from fastcoder_lsp.engine.tree_engine import TreeEngine
from fastcoder_lsp.errors import UsageError
from fastcoder_lsp.llama_engine import library
from fastcoder_lsp.llama_engine import widths as trial
from fastcoder_lsp.llama_engine.backend import LlamaBackend, WidthClass
from fastcoder_lsp.llama_engine.faults import CrashRecord
from fastcoder_lsp.llama_engine.library import LlamaModel, gpu_name, library_version
from fastcoder_lsp.model.files import gguf_of
from fastcoder_lsp.model.machine import require_memory

NAME = "llama"
Opened = Callable[[WidthClass, int], LlamaBackend]
__all__ = ["gpu_name", "load"]


def load(job: LoadJob, notes: list[str]) -> TreeEngine:
    """The engine over the model's GGUF, on a GPU if the library's build can use one; raises as `engine.load` does."""
    gguf = gguf_of(job.folder)
    if gguf is None:
        raise UsageError(
            f"the engine llama runs GGUF files, and {job.name} is none",
            "Name a .gguf file or a repository that has one, or use the engine auto.",
        )
    gpu, threads = library.can_use_gpu(), job.options.threads or default_threads()
    if not gpu:
        require_memory(gguf.stat().st_size)
    crashes = CrashRecord.of(job.cache, f"{library_version()} {job.digest}")
    crashes.check()
    job.enter("weights")
    repacks = gpu or not job.options.llama_strict
    model = LlamaModel(
        gguf, library.library_log(), gpu=gpu, repacks=repacks, watch=crashes.watch(), loading=job.progress
    )
    try:
        return _engine(job, model, notes, gpu=gpu, threads=threads)
    except BaseException:
        model.close()
        raise


def _engine(job: LoadJob, model: LlamaModel, notes: list[str], *, gpu: bool, threads: int) -> TreeEngine:
    device = library.device_name(gpu=gpu, threads=threads, strict=job.options.llama_strict)

    def opened(widths: WidthClass, capacity: int) -> LlamaBackend:
        model.order(repacks=widths.repacks)
        return LlamaBackend(model, widths, name=NAME, device=device, capacity=capacity, threads=threads)

    free = trial.FREE_ON_GPU if gpu else replace(trial.FREE_ON_CPU, repacks=not job.options.llama_strict)
    if not model.rewinds:
        notes.append("drafts are off: this model's state cannot be taken back exactly after a rejected draft")
        widths: WidthClass | None = free
    elif not job.options.llama_strict:
        notes.append("llama.strict is off: drafts may change the text where two tokens are nearly as likely")
        widths = free
    else:
        widths = _class_of(job, opened, gpu=gpu, threads=threads)
        if widths is None:
            notes.append("text may differ from plain decoding: here no width of passes gives each row the same bits")
    if widths is not None and not widths.trees:
        notes.append("drafts do not branch: here a row's bits depend on where in the cache the tokens before it lie")
    widths = widths or free
    backend = opened(widths, job.capacity)
    backend.measure_cells()
    return engine_of(backend, job, notes, drafts=model.rewinds, trees=widths.trees)


def _class_of(job: LoadJob, opened: Opened, *, gpu: bool, threads: int) -> WidthClass | None:
    """The class of widths for this model, library, processor and number of threads: tried once, then recorded."""
    classes, text = (trial.ON_GPU, trial.TEXT) if gpu else (trial.ON_CPU, trial.SHORT)
    machine = f"{library_version()} {processor()} {threads} {gpu} {job.digest}"

    def find() -> WidthClass | None:
        job.progress(0.0, "finding passes whose rows do not depend on each other (first start only)")
        return trial.find_class(classes, lambda widths: opened(widths, text + 2 * trial.ROOM), text)

    return trial.recorded(Path(job.cache), machine, classes, find)
