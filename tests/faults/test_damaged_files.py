"""Model files damaged at random are refused with what to do, or work; never another error, never memory by their word.

Bytes are cut off, overwritten, taken out and put in; values of the JSON are exchanged for others that it may hold.
"""

import json
import random
import resource
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from fastcoder_lsp.engine.architecture import fast_shape, read_config
from fastcoder_lsp.engine.int8.packing import matrices
from fastcoder_lsp.engine.weights import open_weights
from fastcoder_lsp.errors import ModelInvalidError
from fastcoder_lsp.model.files import damage
from fastcoder_lsp.model.gguf_header import check_header
from fastcoder_lsp.tokenizer import Tokenizer
from tests.faults.small_model import write_model
from tests.model.tiny import write_gguf

TRIES = 40
MOST_BYTES = 1 << 30
"""That any of them may take; the libraries are loaded before."""
PUT_IN = (b"0", b"9" * 12, b"-1", b"null", b'"', b"[", b"{}", b"1e999", b"\xff", "ß".encode())
VALUES: tuple[Any, ...] = (
    None, 0, -1, 10**9, 10**30, float("inf"), float("nan"), "", "x", [], {}, True, [1], {"a": 1}, 0.5,
)  # fmt: skip
COUNTS = tuple(number.to_bytes(8, "little") for number in ((1 << 64) - 1, 0, 1 << 60, 1 << 31, 1 << 20))


@pytest.fixture(autouse=True)
def bounded() -> Iterator[None]:
    import torch

    assert torch.zeros(1).item() == 0
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    before = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (used + MOST_BYTES, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_AS, before)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_model(tmp_path / "model")


def damaged(whole: bytes, chance: random.Random) -> bytes:
    data, place = bytearray(whole), chance.randrange(len(whole))
    match chance.randrange(4):
        case 0:
            del data[place:]
        case 1:
            for _ in range(chance.choice((1, 4, 30))):
                data[chance.randrange(len(data))] = chance.randrange(256)
        case 2:
            del data[place : place + chance.randrange(1, 40)]
        case _:
            data[place:place] = chance.choice(PUT_IN)
    return bytes(data)


def garbled(text: str, chance: random.Random) -> str:
    root = json.loads(text)
    for _ in range(chance.choice((1, 1, 2))):
        holder: Any
        places = list(_places(root))
        holder, key = chance.choice(places)
        if chance.random() < 0.2:
            del holder[key]
        else:
            holder[key] = chance.choice(VALUES)
    return json.dumps(root)


def _places(value: Any) -> Iterator[tuple[Any, Any]]:
    keys = (
        list(value)[:40] if isinstance(value, dict) else range(min(len(value), 20)) if isinstance(value, list) else ()
    )
    for key in keys:
        yield value, key
        yield from _places(value[key])


def refused_or_fine(use: Callable[[], object]) -> bool:
    """Whether it was refused; anything but our own error fails the test."""
    try:
        use()
    except ModelInvalidError as error:
        return bool(error.message and error.hint)
    return False


def read_all(folder: Path) -> None:
    """Read a model's shape and its matrices, as the engines do."""
    config = read_config(folder)
    shape = fast_shape(config)
    if shape is None:
        return
    with open_weights(folder) as weights:
        weights.head(shape)
        for matrix in matrices(shape)[:-1]:
            for part, rows in matrix.parts:
                weights.get(f"model.layers.0.{part}.weight", rows, matrix.columns)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(("name", "read"), [("tokenizer.json", Tokenizer.load), ("config.json", read_all)])
def test_texts(folder: Path, name: str, read: Callable[[Path], object], seed: int) -> None:
    path, chance, refused = folder / name, random.Random(seed), 0
    whole = path.read_bytes()
    for _ in range(TRIES):
        path.write_bytes(damaged(whole, chance))
        refused += refused_or_fine(lambda: read(folder))
        path.write_text(garbled(whole.decode(), chance), encoding="utf-8")
        refused += refused_or_fine(lambda: read(folder))
    assert refused > TRIES / 2


@pytest.mark.parametrize("seed", range(3))
def test_weights(folder: Path, seed: int) -> None:
    path, chance, refused = folder / "model.safetensors", random.Random(seed), 0
    whole = path.read_bytes()
    end = 8 + int.from_bytes(whole[:8], "little")
    for _ in range(TRIES):
        head = garbled(whole[8:end].decode(), chance).encode()
        for data in (
            damaged(whole, chance),
            damaged(whole[:end], chance) + whole[end:],
            len(head).to_bytes(8, "little") + head + whole[end:],
        ):
            path.write_bytes(data)
            refused += refused_or_fine(lambda: read_all(folder))
    assert refused > TRIES


@pytest.mark.parametrize("seed", range(3))
def test_ggufs(tmp_path: Path, seed: int) -> None:
    path, chance, refused = tmp_path / "tiny.gguf", random.Random(seed), 0
    write_gguf(path)
    whole = path.read_bytes()
    for _ in range(2 * TRIES):
        place = chance.randrange(4, 6000)
        for data in (damaged(whole, chance), whole[:place] + chance.choice(COUNTS) + whole[place + 8 :]):
            path.write_bytes(data)
            refused += refused_or_fine(lambda: check_header(path))
    assert refused > TRIES / 2


def test_a_gguf_is_refused_wherever_it_ends(tmp_path: Path) -> None:
    path = tmp_path / "tiny.gguf"
    write_gguf(path)
    whole = path.read_bytes()
    for end in (*range(200), *range(200, len(whole), len(whole) // 200)):
        path.write_bytes(whole[:end])
        assert refused_or_fine(lambda: check_header(path)), end


def test_an_unknown_kind_of_weights_is_named(tmp_path: Path) -> None:
    path = tmp_path / "tiny.gguf"
    write_gguf(path)
    whole = path.read_bytes()
    name = b"output_norm.weight"
    place = whole.index(name) + len(name) + 4 + 8
    path.write_bytes(whole[:place] + (77).to_bytes(4, "little") + whole[place + 4 :])
    with pytest.raises(ModelInvalidError, match="unsupported type 77") as raised:
        check_header(path)
    assert "Q8_0" in raised.value.hint


def test_what_pull_looks_at_names_the_file(folder: Path) -> None:
    assert damage(folder) is None
    for name in ("config.json", "tokenizer.json", "model.safetensors"):
        path = folder / name
        whole = path.read_bytes()
        path.write_bytes(whole[: len(whole) // 2])
        found = damage(folder)
        assert (found and found.file) == path
        path.write_bytes(whole)
