"""ik_llama.cpp's prefill of 512 tokens and step of one row, in milliseconds of CPU time: `python -P peer_ik.py GGUF`.

A program of its own: `pip install ik-llama-cpp-python`, anywhere, is all that it needs.
"""

import importlib
import statistics
import sys
import time
from typing import Any

PROMPT, STEPS, ROUNDS = 512, 20, 4


def main(gguf: str, threads: int = 1) -> None:
    """Print both medians; the first round warms up."""
    api: Any = importlib.import_module("ik_llama_cpp._ctypes_api")
    api.llama_backend_init()
    model = api.llama_model_load_from_file(gguf.encode(), api.llama_model_default_params())
    settings = api.llama_context_default_params()
    settings.n_ctx, settings.n_batch, settings.n_ubatch = 2 * PROMPT, PROMPT, PROMPT
    settings.n_threads, settings.n_threads_batch, settings.flash_attn = threads, threads, True
    context = api.llama_init_from_model(model, settings)
    batch = api.llama_batch_init(PROMPT, 0, 1)

    def run(tokens: list[int], start: int) -> float:
        batch.n_tokens = len(tokens)
        for row, token in enumerate(tokens):
            batch.token[row], batch.pos[row], batch.n_seq_id[row], batch.seq_id[row][0] = token, start + row, 1, 0
            batch.logits[row] = row == len(tokens) - 1
        began = time.process_time()
        if api.llama_decode(context, batch) != 0:
            sys.exit("ik_llama.cpp could not compute a pass")
        api.llama_get_logits_ith(context, -1)
        return (time.process_time() - began) * 1e3

    prompt = [(31 * place + 7) % 997 for place in range(PROMPT)]
    prefills, steps = list[float](), list[float]()
    for _ in range(ROUNDS):
        api.llama_kv_cache_clear(context)
        prefills.append(run(prompt, 0))
        steps += [run([prompt[row]], PROMPT + row) for row in range(STEPS)]
    prefill, step = statistics.median(prefills[1:]), statistics.median(steps[STEPS:])
    print(f"prefill of {PROMPT}: {prefill:.0f} ms; step: {step:.1f} ms")


if __name__ == "__main__":
    main(sys.argv[1], *map(int, sys.argv[2:3]))
