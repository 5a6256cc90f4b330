"""Makes `speaker/`, the small Llama that speaks the made-up language; run once.

    python -m tests.papers.train.make_speaker

A minute on one core. Only a change of the language asks for it, and `test_data.py` notices such a change.
"""

import random
from typing import Any

import torch
from transformers import AutoModelForCausalLM, LlamaConfig

from fastcoder_lsp.tokenizer import Tokenizer
from tests.papers.train.made_up import SHIPPED, Language, write_tokenizer

STEPS, BATCH, LENGTH, RATE = 800, 8, 128, 3e-3
WIDTH, LAYERS = 80, 2
WARM_UP = 20


def main() -> None:
    torch.set_num_threads(1)
    tokenizer = write_tokenizer(SHIPPED)
    torch.manual_seed(0)
    auto: Any = AutoModelForCausalLM
    model = auto.from_config(config_of(tokenizer))
    teach(model, tokenizer)
    # Half the bytes; `write_speaker` makes fp32 of them again.
    model.half().save_pretrained(SHIPPED)
    (SHIPPED / "generation_config.json").unlink()


def config_of(tokenizer: Tokenizer) -> LlamaConfig:
    """Its shape; the embedding has a row or more that no token has, for an adaptive one."""
    return LlamaConfig(
        vocab_size=-(-(tokenizer.vocabulary + 1) // 16) * 16,
        hidden_size=WIDTH,
        intermediate_size=2 * WIDTH,
        num_hidden_layers=LAYERS,
        num_attention_heads=WIDTH // 16,
        num_key_value_heads=1,
        max_position_embeddings=512,
        tie_word_embeddings=False,
        bos_token_id=None,
        eos_token_id=tokenizer.control["<|end|>"],
        pad_token_id=None,
    )


def teach(model: Any, tokenizer: Tokenizer) -> None:
    """A plain loop, of texts that belong to what is learnt from."""
    language, draw = Language(), random.Random(3)
    optimiser = torch.optim.AdamW(model.parameters(), lr=RATE, betas=(0.9, 0.95), weight_decay=0.0)
    for step in range(STEPS):
        for group in optimiser.param_groups:
            group["lr"] = RATE * min(1.0, (step + 1) / WARM_UP, 1.05 - step / STEPS)
        rows = [tokenizer.encode(language.text(draw, seen=True))[:LENGTH] for _ in range(BATCH)]
        ids = torch.tensor([row for row in rows if len(row) == LENGTH])
        loss = model(input_ids=ids, labels=ids).loss
        loss.backward()
        optimiser.step()
        optimiser.zero_grad(set_to_none=True)


if __name__ == "__main__":
    main()
