"""A made-up language, a tokenizer for it, and the small model that speaks it: all that a training needs, in seconds.

A text has a style and two names. Statements of a few words follow each other in an order that the style gives, with the
names in their places. So a text is predictable many words ahead, never repeats itself within a round, and a text with
names that were never seen together is new all the same.

The model is in `speaker/`, made by `make_speaker.py`: what is to be tested is the tuning of a model that knows its
language, and teaching it the language takes longer than all tuning.
"""

import random
import shutil
from pathlib import Path

import tokenizers
from safetensors.torch import load_file, save_file
from tokenizers import decoders, models, pre_tokenizers, trainers

from fastcoder_lsp.tokenizer import Tokenizer

STATEMENTS, STYLES, NAMES, WORDS = 28, 2, 24, 90
SHIPPED = Path(__file__).parent / "speaker"
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


def write_speaker(folder: Path) -> Path:
    """The shipped model in fp32: what is trained from it is written as finely, so that equal means equal to the bit."""
    shutil.copytree(SHIPPED, folder, dirs_exist_ok=True)
    weights = {name: value.float() for name, value in load_file(SHIPPED / "model.safetensors").items()}
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    config = folder / "config.json"
    config.write_text(config.read_text(encoding="utf-8").replace("float16", "float32"), encoding="utf-8")
    return folder
