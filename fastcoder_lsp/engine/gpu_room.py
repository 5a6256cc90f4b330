"""Whether a model finds room on this machine's NVIDIA GPU, asked before anything of it is read.

Owns the question alone; the arithmetic is `static.memory`'s.
"""

from fastcoder_lsp.engine.architecture import Shape, graph_shape
from fastcoder_lsp.engine.job import Job
from fastcoder_lsp.errors import ResourceError


def require_room(job: Job, shape: Shape) -> None:
    """Room for the eager engine: weights in bf16, the head by itself even where it is the embedding, the whole cache.

    Raises:
        ResourceError: what is needed, what is free, and which of the graph engine's precisions would fit.
    """
    import torch  # noqa: PLC0415 its import takes seconds

    from fastcoder_lsp.engine.static.memory import require  # noqa: PLC0415 as above

    free, total = torch.cuda.mem_get_info()
    allowed = min(free, total * job.options.gpu_memory_percent // 100)
    require(
        int(allowed),
        job.name,
        torch.cuda.get_device_name(),
        shape,
        "plain",
        torch.bfloat16.itemsize,
        own_head=True,
        slots=job.capacity,
    )


def lacking_room(job: Job) -> str | None:
    """Why `auto` cannot take the GPU, with what would fit; None where it can, or where nothing is known of the model.

    A GPU that another process has for itself, or whose driver is of another version, cannot even be asked.
    """
    shape = graph_shape(job.config)
    if shape is None:
        return None
    try:
        require_room(job, shape)
    except ResourceError as why:
        return f"{why.message}: {why.hint}"
    except RuntimeError as why:  # whatever CUDA says
        return f"its free memory is unknown: {why}".splitlines()[0]
    return None
