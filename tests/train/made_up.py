"""A made-up language, a tokenizer for it, and a small model that speaks it: all that a training needs, in seconds.

A text has a style and two names. Statements of a few words follow each other in an order that the style gives, with the
names in their places. So a text is predictable many words ahead, never repeats itself within a round, and a text with
names that were never seen together is new all the same.
"""

import random
from pathlib import Path
from typing import Any

import tokenizers
import torch
from tokenizers import decoders, models, pre_tokenizers, trainers
from transformers import AutoModelForCausalLM, LlamaConfig

from fastcoder_lsp.tokenizer import Tokenizer

STATEMENTS, STYLES, NAMES, WORDS = 40, 2, 24, 90
_LETTERS = "abcdefghijklmnoprstuvwz"


class Language:
    """Texts of the made-up language; the same seed, the same language."""

    def __init__(self, seed: int = 0) -> None:
        draw = random.Random(seed)
        taken: set[str] = set()
        while len(taken) < WORDS + NAMES + STYLES:
            taken.add("".join(draw.choice(_LETTERS) for _ in range(4)))
        words = sorted(taken)
        draw.shuffle(words)
        self._styles, self._names, stock = words[:STYLES], words[STYLES : STYLES + NAMES], words[STYLES + NAMES :]
        self._statements = [[draw.choice(stock) for _ in range(draw.randint(5, 7))] for _ in range(STATEMENTS)]
        for statement in self._statements:
            statement[draw.randrange(1, len(statement))] = draw.choice(("{0}", "{1}"))
        self._orders = [draw.sample(range(STATEMENTS), STATEMENTS) for _ in range(STYLES)]

    def text(self, draw: random.Random, *, seen: bool, statements: int = 22) -> str:
        """One text; names that are even together in number belong to texts that are learnt from, others do not."""
        style = draw.randrange(STYLES)
        first = draw.randrange(NAMES)
        second = draw.choice([name for name in range(NAMES) if ((first + name) % 3 > 0) == seen])
        order, place = self._orders[style], draw.randrange(STATEMENTS)
        names = self._names[first], self._names[second]
        lines = [f"{self._styles[style]} {names[0]} {names[1]}"]
        for step in range(statements):
            words = self._statements[order[(place + step) % STATEMENTS]]
            lines.append(" " + " ".join(words).format(*names))
        return "\n".join(lines) + "\n"


def write_texts(folder: Path, count: int, seed: int = 1) -> Path:
    """A folder of texts to learn from."""
    folder.mkdir(parents=True, exist_ok=True)
    language, draw = Language(), random.Random(seed)
    for number in range(count):
        (folder / f"text{number:03}.py").write_text(language.text(draw, seen=True), encoding="utf-8")
    return folder


def held_out(
    tokenizer: Tokenizer, count: int, prompt: int, seed: int = 2
) -> list[tuple[tuple[int, ...], tuple[int, ...]]]:
    """Prompts of texts that are never learnt from, and how they go on."""
    language, draw = Language(), random.Random(seed)
    found = []
    for _ in range(count):
        ids = tokenizer.encode(language.text(draw, seen=False))
        found.append((tuple(ids[:prompt]), tuple(ids[prompt:])))
    return found


def write_tokenizer(folder: Path) -> Tokenizer:
    """A byte-level BPE that knows the language's words."""
    folder.mkdir(parents=True, exist_ok=True)
    language, draw = Language(), random.Random(0)
    raw = tokenizers.Tokenizer(models.BPE())
    raw.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    raw.decoder = decoders.ByteLevel()
    alphabet = sorted(set(_LETTERS) | {"Ġ", "Ċ", "{", "}"})
    trainer = trainers.BpeTrainer(vocab_size=470, initial_alphabet=alphabet, show_progress=False)
    raw.train_from_iterator([language.text(draw, seen=True) for _ in range(200)], trainer)
    raw.add_special_tokens(["<|end|>", "<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>"])
    raw.save(str(folder / "tokenizer.json"))
    return Tokenizer.load(folder)


def write_model(folder: Path, *, steps: int = 140, width: int = 64, layers: int = 2) -> Path:
    """A small Llama that was taught the language, by a plain loop of its own."""
    tokenizer = write_tokenizer(folder)
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=-(-(tokenizer.vocabulary + 1) // 16) * 16,
        hidden_size=width,
        intermediate_size=2 * width,
        num_hidden_layers=layers,
        num_attention_heads=width // 16,
        num_key_value_heads=2,
        max_position_embeddings=512,
        tie_word_embeddings=False,
        bos_token_id=None,
        eos_token_id=tokenizer.control["<|end|>"],
        pad_token_id=None,
    )
    auto: Any = AutoModelForCausalLM
    model = auto.from_config(config)
    language, draw = Language(), random.Random(3)
    optimiser = torch.optim.AdamW(model.parameters(), lr=3e-3, betas=(0.9, 0.95), weight_decay=0.0)
    for step in range(steps):
        for group in optimiser.param_groups:
            group["lr"] = 3e-3 * min(1.0, (step + 1) / 20, 1.05 - step / steps)
        rows = [tokenizer.encode(language.text(draw, seen=True))[:128] for _ in range(8)]
        ids = torch.tensor([row for row in rows if len(row) == 128])
        loss = model(input_ids=ids, labels=ids).loss
        loss.backward()
        optimiser.step()
        optimiser.zero_grad(set_to_none=True)
    model.save_pretrained(folder)
    return folder
