"""Part 2's other columns: transformers, eager with a growing cache, with a static one, captured, and compiled.

Owns their times. Each subject that fails costs its own column: the report says why.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from benchmarks.gpu.machine import Bench, say
from benchmarks.gpu.shapes import Named, random_weights

Times = Mapping[str, float]
"""«rows×tokens cached» → milliseconds."""
COMPILED_ROWS = (1, 16)


@torch.inference_mode()
def measure(bench: Bench, model: Named, sizes: Sequence[tuple[int, int]], *, compiled: bool) -> dict[str, Times]:
    """Milliseconds of transformers' forward for the given (rows, tokens cached)."""
    try:
        network = make(bench, model)
    except (RuntimeError, ImportError, TypeError, ValueError, AttributeError, OSError) as why:
        bench.skip(f"transformers, {model.name}", _first_line(why))
        return {}
    found = _times(bench, model, network, sizes, compiled=compiled)
    del network
    bench.tidy()
    return found


def _times(
    bench: Bench, model: Named, network: Any, sizes: Sequence[tuple[int, int]], *, compiled: bool
) -> dict[str, Times]:
    found: dict[str, Times] = {}
    subjects: dict[str, Callable[[], Times]] = {
        "eager": lambda: _eager(bench, network, sizes),
        "static": lambda: _static(bench, network, network.forward, sizes),
        "captured": lambda: _static(bench, network, network.forward, sizes, captured=True),
    }
    if compiled:
        subjects["compiled"] = lambda: _compiled(bench, network, sizes)
        subjects["compiled and captured"] = lambda: _compiled(bench, network, sizes, captured=True)
    for name, subject in subjects.items():
        try:
            found[name] = subject()
        except Exception as why:  # noqa: BLE001 whatever a peer raises, it costs its own column alone
            bench.skip(f"{name} transformers, {model.name}", _first_line(why))
        else:
            say(f"{model.name}, {name} transformers: {', '.join(f'{k} {ms:.2f}' for k, ms in found[name].items())} ms")
    return found


def make(bench: Bench, model: Named) -> Any:
    """The model by transformers, with the same random weights as ours, in the run's precision."""
    from transformers import AutoConfig, AutoModelForCausalLM  # noqa: PLC0415 seconds to import

    given = dict(model.config)
    config = AutoConfig.for_model(given.pop("model_type"), **given)
    auto: Any = AutoModelForCausalLM
    with torch.device(bench.device.place):
        network = auto.from_config(config, dtype=bench.dtype)
    network = network.to(bench.device.place, bench.dtype).eval()
    with random_weights(model, bench.device.place, bench.dtype) as source, torch.no_grad():
        for name, weight in network.named_parameters():
            weight.copy_(source.raw(name, *weight.shape))
    return network


def _eager(bench: Bench, network: Any, sizes: Sequence[tuple[int, int]]) -> Times:
    """A growing cache, cut back after every step."""
    from transformers import DynamicCache  # noqa: PLC0415

    found = {}
    for rows, length in sizes:
        cache = DynamicCache()
        ids = torch.randint(0, network.config.vocab_size, (1, length + rows), device=bench.device.place)
        network(ids[:, :length], past_key_values=cache, logits_to_keep=1)

        def step(cache: Any = cache, ids: torch.Tensor = ids, length: int = length, rows: int = rows) -> None:
            network(ids[:, length:], past_key_values=cache)
            cache.crop(-rows)

        found[f"{rows}×{length}"] = bench.ms(step, repeats=max(bench.repeats // 4, 2))
    return found


def _static(
    bench: Bench, network: Any, forward: Callable[..., Any], sizes: Sequence[tuple[int, int]], *, captured: bool = False
) -> Times:
    """A static cache as long as ours, whose length is set back after every step, and a mask over it."""
    from transformers import StaticCache  # noqa: PLC0415

    found = {}
    for rows, length in sizes:
        capacity = length + 64
        cache = StaticCache(config=network.config, max_cache_len=capacity)
        place = bench.device.place
        ids = torch.randint(0, network.config.vocab_size, (1, length + rows), device=place)
        network(ids[:, :length], past_key_values=cache, logits_to_keep=1)
        slots = torch.arange(capacity, device=place)
        rows_T = torch.arange(rows, device=place)
        mask = (slots[None, :] <= length + rows_T[:, None])[None, None]
        positions = length + rows_T[None]
        tail = ids[:, length:].clone()

        def step(
            cache: Any = cache,
            tail: torch.Tensor = tail,
            mask: torch.Tensor = mask,
            positions: torch.Tensor = positions,
            length: int = length,
        ) -> None:
            for layer in cache.layers:
                layer.cumulative_length.fill_(length)
            forward(tail, past_key_values=cache, attention_mask=mask, position_ids=positions)

        repeated = bench.device.capture(step) if captured else step
        found[f"{rows}×{length}"] = bench.ms(repeated, repeats=max(bench.repeats // 4, 2))
    return found


def _compiled(bench: Bench, network: Any, sizes: Sequence[tuple[int, int]], *, captured: bool = False) -> Times:
    """The same through `torch.compile`, two shapes of it: compiling takes most of a minute each, once for both ways.

    Launched one by one its kernels wait for the host, so that a captured step is the fair one to compare with.
    """
    mode: dict[str, Any] = {"backend": "eager"} if bench.smoke else {"mode": "max-autotune-no-cudagraphs"}
    forward = torch.compile(network.forward, dynamic=False, **mode)
    lengths = sorted({length for _, length in sizes})
    sizes = [(rows, lengths[len(lengths) // 2]) for rows in COMPILED_ROWS]
    return _static(bench, network, forward, sizes, captured=captured)


def _first_line(why: Exception) -> str:
    return f"{type(why).__name__}: {str(why).strip().splitlines()[0] if str(why).strip() else ''}"[:200]
