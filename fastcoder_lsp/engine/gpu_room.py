"""Whether a model finds room on this machine's NVIDIA GPU, asked before anything of it is read.

Owns the question alone; the arithmetic is `static.memory`'s.
"""

import torch

from fastcoder_lsp.engine.architecture import graph_shape
from fastcoder_lsp.engine.job import Job
from fastcoder_lsp.engine.static.memory import require
from fastcoder_lsp.errors import ResourceError


def lacking_room(job: Job) -> str | None:
    """Why `auto` cannot take the GPU, with what would fit; None where it can, or where nothing is known of the model.

    Room for the weights, the head by itself even where it is the embedding, and the whole KV cache. A GPU that another
    process has for itself, or whose driver is of another version, cannot even be asked.
    """
    shape = graph_shape(job.config)
    if shape is None:
        return None
    try:
        free, total = torch.cuda.mem_get_info()
        free += torch.cuda.memory_reserved() - torch.cuda.memory_allocated()  # what torch keeps of an earlier model
        allowed = int(min(free, total * job.options.gpu_memory_percent // 100))
        name, size = torch.cuda.get_device_name(), torch.bfloat16.itemsize
        require(allowed, job.name, name, shape, "plain", size, own_head=True, slots=job.capacity)
    except ResourceError as why:
        return f"{why.message}: {why.hint}"
    except RuntimeError as why:  # whatever CUDA says
        return f"its free memory is unknown: {why}".splitlines()[0]
    return None
