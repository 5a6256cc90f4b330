"""transformers' `generate` in bf16, as a program of its own: it imports nothing of ours, whose start and memory count.

Started with a JSON object of `folder`, `threads`, `draft` (a folder or null) and `lookup`. After a first answer it
prints its version. Each line read is a JSON array of prompt, most tokens and end tokens; each line printed is one of
tokens, tokens after the first pass, passes after the first, their milliseconds, milliseconds of the first.
"""

import json
import sys
import time
from collections.abc import Sequence
from typing import Any

Generated = tuple[list[int], int, int, float, float]


class Streamed:
    """A streamer: `put_at` has (tokens, time) of the prompt and of each pass."""

    def __init__(self) -> None:
        self.put_at: list[tuple[int, float]] = []

    def put(self, tokens: Any) -> None:
        """Take the tokens of a pass."""
        self.put_at.append((tokens.numel(), time.perf_counter()))

    def end(self) -> None:
        """Nothing is left to pass on."""


def main(folder: str, threads: int, draft: str | None, lookup: bool) -> None:
    """Load, and answer until the input ends."""
    import torch
    import transformers
    from transformers import AutoModelForCausalLM, AutoTokenizer
    from transformers.utils import logging

    quiet: Any = logging
    quiet.disable_progress_bar()
    quiet.set_verbosity_error()
    torch.set_num_threads(threads)
    loading: Any = AutoModelForCausalLM
    model = loading.from_pretrained(folder, dtype=torch.bfloat16, local_files_only=True).eval()
    options: dict[str, Any] = {"prompt_lookup_num_tokens": 10} if lookup else {}
    if draft is not None:
        assistant = loading.from_pretrained(draft, dtype=torch.bfloat16, local_files_only=True).eval()
        options["assistant_model"] = assistant
        if assistant.config.vocab_size != model.config.vocab_size:
            folders = {"tokenizer": folder, "assistant_tokenizer": draft}
            options |= {name: AutoTokenizer.from_pretrained(each) for name, each in folders.items()}

    def generate(prompt: Sequence[int], most: int, ends: Sequence[int]) -> Generated:
        streamed, ids = Streamed(), torch.tensor([list(prompt)])
        output = model.generate(
            ids,
            attention_mask=torch.ones_like(ids),
            do_sample=False,
            max_new_tokens=most,
            eos_token_id=list(ends),
            pad_token_id=ends[0],
            streamer=streamed,
            **options,
        )
        (_, begun), (_, first), *later = streamed.put_at
        ms = 1e3 * ((later[-1][1] if later else first) - first)
        tokens = output[0, len(prompt) :].tolist()
        return tokens, sum(size for size, _ in later), len(later), ms, 1e3 * (first - begun)

    generate(range(100, 108), 8, [0])
    kind = torch.backends.cpu.get_cpu_capability()
    print(json.dumps(f"transformers {transformers.__version__}, torch {torch.__version__} ({kind})"), flush=True)
    for line in sys.stdin:
        print(json.dumps(generate(*json.loads(line))), flush=True)


if __name__ == "__main__":
    main(**json.loads(sys.argv[1]))
