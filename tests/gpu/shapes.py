"""Which launches a model makes: the graph engine's kernels called at every width, with tensors that hold nothing."""

import torch

from benchmarks.fused.kernels import FusedKernels
from benchmarks.shapes import MODELS, named
from fastcoder_lsp.engine.architecture import Shape
from fastcoder_lsp.engine.static.cache import StaticCache
from fastcoder_lsp.engine.static.plan import plan
from fastcoder_lsp.engine.static.programs import TOP_K, Programs
from fastcoder_lsp.engine.static.step_io import Inputs, StepInput, StepOutput
from fastcoder_lsp.engine.static.transformer import TorchKernels, TreeAttention
from tests.engine.static_parts import META, MetaDevice, meta_programs
from tests.gpu.launches import Launch, recorded

UNITS = (14, 40, 108, 132, 170)
"""Multiprocessors of GPUs from a laptop's to the largest: they decide how attention is split."""
CONTEXT = 32768
"""The longest: lengths of the KV cache, and so of attention's pieces, are compiled up to it."""
STATES = 1, 5, 9
"""Layers whose hidden states are kept: as many as drafters ask for."""


def inputs(width: int) -> Inputs:
    """Inputs that hold nothing."""
    return StepInput(MetaDevice(), 512, 1000).view(width)


def starcoder() -> Shape:
    """StarCoder2 3B: twelve query heads for each of the keys', norms that centre, no gate."""
    angles = named(MODELS)[0].shape.angles_H
    return Shape("starcoder2", 30, 3072, 24, 2, 128, 12288, 49152, 1e-5, 4096, angles)


def launches() -> set[Launch]:
    """Of all models that are timed, and of StarCoder2, on GPUs of all sizes, at all widths and lengths."""
    with recorded() as found, torch.inference_mode():
        for shape in (*(model.shape for model in named(MODELS)), starcoder()):
            for units in UNITS:
                _launch_all(shape, units)
    return found


def _launch_all(shape: Shape, units: int) -> None:
    size = plan(CONTEXT)
    attention = TreeAttention(shape, size.capacity, torch.bfloat16, META)
    kernels = FusedKernels(TorchKernels(shape, 64, attention, torch.bfloat16, META), units)
    cache = StaticCache(shape, size.capacity, torch.bfloat16, MetaDevice())

    def tensor(*sizes: int) -> torch.Tensor:
        return torch.empty(sizes, dtype=torch.bfloat16, device=META)

    for width in size.widths:
        for bucket in size.buckets:
            if width < bucket:
                view = attention.view(inputs(width), bucket)
                kernels.mix(0, tensor(width, shape.heads, shape.head_dim), cache, view)
        outputs = StepOutput(MetaDevice(), width, TOP_K).view(width)
        for layers in ((), STATES):
            cache.keep_states(layers)
            for best in (False, True):
                kernels.conclude(tensor(width, shape.vocabulary), outputs, inputs(width), cache, best=best)


def without_data(layers: int) -> Programs:
    """The 7B model's programs, of so many layers, with our kernels; no tensor holds anything."""
    shape = next(model.shape for model in named(MODELS) if "7B" in model.name)
    return meta_programs(shape, layers, CONTEXT, wrap=lambda plain: FusedKernels(plain, 132))
