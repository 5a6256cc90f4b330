"""Which launches a model makes: the graph engine's kernels called at every width, with tensors that hold nothing."""

import torch

from fastcoder_lsp.bench.gpu.shapes import MODELS, named
from fastcoder_lsp.engine.architecture import Shape
from fastcoder_lsp.engine.static.attention import TreeAttention
from fastcoder_lsp.engine.static.cache import StaticCache
from fastcoder_lsp.engine.static.fused import FusedKernels
from fastcoder_lsp.engine.static.int8_product import MOST_INT8_ROWS, int8_product
from fastcoder_lsp.engine.static.kernels import TorchKernels
from fastcoder_lsp.engine.static.plan import plan
from fastcoder_lsp.engine.static.products import PlainProduct
from fastcoder_lsp.engine.static.programs import TOP_K, Programs
from fastcoder_lsp.engine.static.step_io import Inputs, StepInput, StepOutput
from fastcoder_lsp.engine.static.transformer import Transformer
from fastcoder_lsp.engine.static.weights import Block, Model, Norm
from tests.engine.static_parts import META, MetaDevice
from tests.gpu.launches import Launch, recorded

UNITS = (14, 40, 108, 132, 170)
"""Multiprocessors of GPUs from a laptop's to the largest: they decide how attention is split."""
OVERLAPPING_MODELS = "Qwen2.5-Coder 0.5B", "Qwen2.5-Coder 7B"
"""Those whose launches are compiled in both ways: waiting takes no registers."""
CONTEXT = 4096
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
        for model in named(MODELS):
            for units in UNITS:
                _launch_all(model.shape, units, overlapped=False)
            if model.name in OVERLAPPING_MODELS:
                _launch_all(model.shape, UNITS[-1], overlapped=True)
        for units in UNITS:
            _launch_all(starcoder(), units, overlapped=False)
    return found


def _launch_all(shape: Shape, units: int, *, overlapped: bool) -> None:
    size = plan(CONTEXT)
    attention = TreeAttention(shape, size.capacity, torch.bfloat16, META)
    plain = TorchKernels(shape, 64, attention, torch.bfloat16, META)
    kernels = FusedKernels(plain, units, overlapped=overlapped)
    cache = StaticCache(shape, size.capacity, torch.bfloat16, MetaDevice())

    def tensor(*sizes: int, dtype: torch.dtype = torch.bfloat16) -> torch.Tensor:
        return torch.empty(sizes, dtype=dtype, device=META)

    norm = Norm(tensor(shape.width), tensor(shape.width) if shape.starcoder else None)
    heads, inner = shape.heads + 2 * shape.kv_heads, shape.inner * (1 if shape.starcoder else 2)
    for width in {*size.widths, *size.reads}:
        x_TE = tensor(width, shape.width)
        kernels.norm(x_TE, norm)
        kernels.add_norm(x_TE, tensor(width, shape.width), norm)
        kernels.activate(tensor(width, inner))
        for bucket in size.buckets:
            if width < bucket:
                view = attention.view(inputs(width), bucket)
                kernels.attend(0, tensor(width, heads * shape.head_dim), cache, view)
        if width in size.widths:
            logits_TV, ids = tensor(width, shape.vocabulary), tensor(width, TOP_K, dtype=torch.int32)
            kernels.say(logits_TV, tensor(width, dtype=torch.int64))
            kernels.best(logits_TV, ids, tensor(width, TOP_K, dtype=torch.float32))
            outputs = StepOutput(MetaDevice(), width, TOP_K).view(width)
            for layers in ((), STATES):
                cache.keep_states(layers)
                kernels.follow(outputs, inputs(width), cache)
                for best in (False, True):
                    kernels.conclude(logits_TV, outputs, inputs(width), cache, best=best)
        if width <= MOST_INT8_ROWS:
            for bias in (None, tensor(inner)):
                weight = tensor(inner, shape.width, dtype=torch.int8)
                int8_product(tensor(width, shape.width), weight, tensor(inner), bias, units, overlapped=overlapped)


def without_data(layers: int) -> Programs:
    """The 7B model's programs, of so many layers, with our kernels; no tensor holds anything."""
    shape, size = next(model.shape for model in named(MODELS) if "7B" in model.name), plan(CONTEXT)

    def tensor(*sizes: int) -> torch.Tensor:
        return torch.empty(sizes, dtype=torch.bfloat16, device=META)

    def product(rows: int, columns: int, *, biased: bool = False) -> PlainProduct:
        return PlainProduct(tensor(rows, columns), tensor(rows) if biased else None)

    norm = Norm(tensor(shape.width), None)
    rows = (shape.heads + 2 * shape.kv_heads) * shape.head_dim
    block = Block(
        norm1=norm,
        qkv=product(rows, shape.width, biased=True),
        out=product(shape.width, shape.heads * shape.head_dim),
        norm2=norm,
        inner=product(2 * shape.inner, shape.width),
        down=product(shape.width, shape.inner),
    )
    embedding = tensor(1000, shape.width)
    model = Model(embedding, (block,) * layers, norm, PlainProduct(embedding, None))
    attention = TreeAttention(shape, size.capacity, torch.bfloat16, META)
    plain = TorchKernels(shape, 64, attention, torch.bfloat16, META)
    cache = StaticCache(shape, size.capacity, torch.bfloat16, MetaDevice())
    transformer = Transformer(model, FusedKernels(plain, 132), cache)
    return Programs(transformer, attention, size, MetaDevice(), len(embedding))
