"""`bench larger`: typing with models of larger models' published shapes that say a scripted text.

Such a model runs every layer of its shape, whose weights are zeros, so that a file of them takes little room; each
token's follower is in its head. Conversion, loading, timing, prompts, scheduling and decoding are the product's.
"""

import itertools
import json
import shutil
import struct
import tempfile
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median

import numpy as np
from typing_extensions import override

from benchmarks.harness import Reported, write
from benchmarks.product import AskedHost
from benchmarks.shapes import MODELS
from fastcoder_lsp.bench.model import find_model
from fastcoder_lsp.bench.report import print_table
from fastcoder_lsp.cli.options import option
from fastcoder_lsp.completion.protocol import Ask
from fastcoder_lsp.completion.question import Policy, Question, place_of
from fastcoder_lsp.config import Settings, cache_folder
from fastcoder_lsp.core import CompletionRequest, Snapshot
from fastcoder_lsp.model.choice import PROMPT_TOKENS
from fastcoder_lsp.model.inventory import engine_conversions
from fastcoder_lsp.runtime.load import load_model
from fastcoder_lsp.runtime.parts import Model

EXAMPLE = "larger --sizes 0.5B,1.5B"
SAYS = "values = sorted(entry for name in (first, second))\n"
"""Its tokens all differ: each has one follower."""
BEFORE = "".join(
    f"def function_{number}(count: int) -> int:\n    return count + {number}\n\n\n" for number in range(40)
)
_LONGEST_S = 3600.0
TYPED = "def total(prices):\n    amount = 0\n    for price in prices:\n        amount += price\n    return amount\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class Options(Reported):
    """Type into a file with models in the shapes of Qwen2.5-Coder, in real time: every key differs from what they say.

    The 0.5B's files must be on this machine: its tokenizer is used. Needs disk space: the packed weights of one shape,
    and 1 to 3 GB for its embedding and head.
    """

    sizes: str = option("sizes, by commas", "0.5B,1.5B")
    bits: str = option("bits of a weight, by commas", "8,4")
    keys: int = option("keys typed for each", 60)
    speed: float = option("keys a second", 5.0)
    threads: int = option("as the setting", 0)


@dataclass(frozen=True, slots=True)
class Felt:
    """Milliseconds of a step of 1 and of 8 rows, a prompt, and the first text; of all keys, those with text in time."""

    step_ms: float
    rows_ms: float
    prompt_ms: float
    first_ms: float
    wait_ms: float
    with_text: float


def run(options: Options) -> int:
    found: dict[str, Felt] = {}
    for size, bits in itertools.product(options.sizes.split(","), options.bits.split(",")):
        with tempfile.TemporaryDirectory(prefix="fastcoder-larger-", dir=Path.home() / ".cache") as folder:
            place = write_scripted(Path(folder) / "model", MODELS[f"Qwen2.5-Coder {size}"], SAYS)
            settings = Settings(model=str(place), engine=f"cpu-int{bits}", threads=options.threads, index_enabled=False)
            found[f"{size} int{bits}"] = felt(settings, options.keys, options.speed)
    columns = ["size", "step", "8 rows", f"prompt of {PROMPT_TOKENS}", "first text", "wait", "keys with text"]
    rows = []
    for name, one in found.items():
        steps, waits = (one.step_ms, one.rows_ms), (one.prompt_ms, one.first_ms, one.wait_ms)
        cells = [*(f"{ms:.1f}" for ms in steps), *(f"{ms:.0f}" for ms in waits)]
        rows.append([name, *cells, f"{100 * one.with_text:.0f} %"])
    print_table(f"Larger models in shape, {options.speed:g} keys a second, in ms", columns, rows)
    write(options, "larger", {"sizes": {name: asdict(one) for name, one in found.items()}})
    return 0


class Typing(AskedHost):
    def __init__(self, settings: Settings) -> None:
        self.models: list[Model] = []
        super().__init__(settings, self._load)

    def ask(self, text: str, wait_s: float) -> float | None:
        """Ask at the end of a text; milliseconds until a suggestion, None where none came in time."""
        now = time.monotonic()

        def question(number: int) -> Ask:
            request = CompletionRequest(Snapshot("file:///typed.py", None, "python", number, text), len(text))
            return Ask(Question(number, request, place_of(request), Policy(), now * 1e3, now * 1e3))

        answered = self.send(question, wait_s)
        return (answered[1] - now) * 1e3 if answered is not None and answered[0].answer.outcome == "shown" else None

    @override
    def close(self) -> None:
        """Delete the packed weights, too."""
        super().close()
        for model in self.models:
            for path in engine_conversions(model.digest, cache_folder()):
                path.unlink(missing_ok=True)

    def _load(self, settings: Settings, _progress: object) -> Model:
        self.models.append(load_model(settings, lambda _share, _what: None))
        return self.models[-1]


def felt(settings: Settings, keys: int, speed: float) -> Felt:
    typing, pause_s, text = Typing(settings), 1 / speed, BEFORE
    try:
        typing.ask("x = ", _LONGEST_S)  # loads the model
        began = time.monotonic()
        while typing.ask(text, _LONGEST_S) is None:
            assert time.monotonic() < began + _LONGEST_S, "no first text"
        first_ms, waits = (time.monotonic() - began) * 1e3, list[float]()
        begin_s = time.monotonic() + pause_s
        for key, letter in enumerate((TYPED * (1 + keys // len(TYPED)))[:keys]):
            time.sleep(max(0.0, begin_s + key * pause_s - time.monotonic()))
            text += letter
            if (took_ms := typing.ask(text, pause_s)) is not None:
                waits.append(took_ms)
        costs = typing.models[0].costs
        prompt_ms = costs.prompt_ms(PROMPT_TOKENS)
        wait_ms = median(waits) if waits else float("nan")
        return Felt(costs.step_ms(1), costs.step_ms(8), prompt_ms, first_ms, wait_ms, len(waits) / keys)
    finally:
        typing.close()


def write_scripted(folder: Path, config: Mapping[str, object], says: str) -> Path:
    """Write a model of this shape that says `says` after its middle mark, and again after any other token.

    The layers are holes in the file; embedding and head are numbers of a seed, nearly orthogonal from token to token.
    """
    folder.mkdir(parents=True)
    model = find_model("auto")
    for name in ("tokenizer.json", "tokenizer_config.json"):
        if (model.files.folder / name).is_file():
            shutil.copy(model.files.folder / name, folder / name)
    (folder / "config.json").write_text(json.dumps(dict(config) | {"tie_word_embeddings": False}), encoding="utf-8")
    said = [model.tokenizer.control["<|fim_middle|>"], *model.tokenizer.encode(says), min(model.tokenizer.end_ids)]
    assert len(set(said)) == len(said), "a token of the script comes twice"
    width, rows, sizes = int(str(config["hidden_size"])), int(str(config["vocab_size"])), _layout(config)
    header, places, at = dict[str, object](), dict[str, int](), 0
    for name, shape in sizes.items():
        size = 2 * int(np.prod(shape))
        header[name] = {"dtype": "F16", "shape": list(shape), "data_offsets": [at, at + size]}
        places[name], at = at, at + size
    text = json.dumps(header).encode()
    with (folder / "model.safetensors").open("wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        start = file.tell()
        file.truncate(start + at)

        def put(name: str, begin: int, array: "np.ndarray[tuple[int, ...], np.dtype[np.float16]]") -> None:
            file.seek(start + places[name] + begin)
            file.write(array.tobytes())

        for name, shape in sizes.items():
            if "norm" in name:
                put(name, 0, np.ones(shape, np.float16))
        follower = dict(itertools.pairwise(said))
        for first in range(0, rows, 4096):
            embedded = _embedded(first, min(first + 4096, rows), width)
            put("model.embed_tokens.weight", 2 * first * width, embedded)
        put("lm_head.weight", 2 * said[1] * width, np.eye(1, width, dtype=np.float16) * np.float16(0.5))
        for before, after in follower.items():
            row = _embedded(before, before + 1, width)
            row[0, 0] = 0.5 if after == said[1] else 0.0
            put("lm_head.weight", 2 * after * width, row)
    return folder


def _embedded(begin: int, end: int, width: int) -> "np.ndarray[tuple[int, ...], np.dtype[np.float16]]":
    """Embeddings of tokens: a one, then random signs."""
    rows = np.empty((end - begin, width), np.float16)
    for place in range(begin, end):
        signs = np.random.default_rng(place).integers(0, 2, width, np.int8) * 2 - 1
        rows[place - begin] = signs * np.float16(0.05)
    rows[:, 0] = 1.0
    return rows


def _layout(config: Mapping[str, object]) -> dict[str, tuple[int, ...]]:
    width, inner, layers, heads, kv_heads, vocabulary = (
        int(str(config[name]))
        for name in (
            *("hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads"),
            *("num_key_value_heads", "vocab_size"),
        )
    )
    head, shapes = width // heads, dict[str, tuple[int, ...]]()
    shapes["model.embed_tokens.weight"] = shapes["lm_head.weight"] = (vocabulary, width)
    shapes["model.norm.weight"] = (width,)
    for layer in range(layers):
        name = f"model.layers.{layer}"
        for part, count in (("q", heads), ("k", kv_heads), ("v", kv_heads)):
            shapes[f"{name}.self_attn.{part}_proj.weight"] = (count * head, width)
            shapes[f"{name}.self_attn.{part}_proj.bias"] = (count * head,)
        shapes[f"{name}.self_attn.o_proj.weight"] = (width, heads * head)
        for part in ("gate", "up"):
            shapes[f"{name}.mlp.{part}_proj.weight"] = (inner, width)
        shapes[f"{name}.mlp.down_proj.weight"] = (width, inner)
        for norm in ("input_layernorm", "post_attention_layernorm"):
            shapes[f"{name}.{norm}.weight"] = (width,)
    return shapes
