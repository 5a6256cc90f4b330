"""A GGUF from its own metadata: its weights, its tokenizer and its blocks, bit for bit as transformers reads them."""

import json
import os
import struct
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import gguf
import numpy as np
import pytest
import tokenizers
from gguf import GGMLQuantizationType as Number
from safetensors.numpy import load_file

from fastcoder_lsp import model
from fastcoder_lsp.errors import InstallationError, ModelInvalidError, ModelMissingError, ResourceError
from fastcoder_lsp.model.catalogue import WHEEL_MODELS
from fastcoder_lsp.model.files import damage, read_origin
from fastcoder_lsp.model.find import wheels_converted
from fastcoder_lsp.model.gguf_blocks import kind_of, unfold
from fastcoder_lsp.model.gguf_config import LISTS, tokenizer_json
from fastcoder_lsp.model.gguf_folder import _described, convert
from fastcoder_lsp.model.gguf_header import check_header
from fastcoder_lsp.model.gguf_tensors import GgufTensors
from fastcoder_lsp.model.machine import require_packages
from fastcoder_lsp.model.store import ModelStore, remembered_sha256, sha256_file
from fastcoder_lsp.model.tensors import open_tensors
from fastcoder_lsp.tokenizer import Tokenizer
from tests.fake_engine import silent
from tests.model.tiny import LAYERS, write_gguf

CODE = "def f(x: int) -> str:\n\treturn 'ß語' + str(x * 1024)  # e\u0301\n" * 50


@pytest.fixture
def path(tmp_path: Path) -> Path:
    place = tmp_path / "tiny.gguf"
    write_gguf(place)
    return place


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    return tmp_path / "cache"


@pytest.fixture(scope="module")
def converted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tiny model as transformers converts it."""
    folder = tmp_path_factory.mktemp("converted")
    write_gguf(folder / "tiny.gguf")
    (folder / "model").mkdir()
    convert(folder / "tiny.gguf", folder / "model", folder, silent)
    return folder / "model"


def test_it_is_what_transformers_makes_of_it(path: Path, cache: Path, converted: Path) -> None:
    files = model.prepare(str(path), cache, silent)
    assert not (files.folder / "model.safetensors").exists()
    weights = load_file(converted / "model.safetensors")
    tensors = open_tensors(files.folder)
    assert len(weights) == 9 * LAYERS + 2
    for name, values in weights.items():
        assert np.array_equal(tensors.raw(name), values)
        if values.ndim == 2:
            assert np.array_equal(tensors.rows(name, 5, 21), values[5:21])
    tensors.close()
    left, right = Tokenizer.load(files.folder), Tokenizer.load(converted)
    assert left.encode(CODE) == right.encode(CODE)
    assert left.control == {"<|end|>": 257}
    expected_bytes = model.unpacked_bytes(files.folder)
    model.require_checkpoint(files.folder, silent)
    assert model.unpacked_bytes(files.folder) == 0
    assert 0 < expected_bytes <= (files.folder / "model.safetensors").stat().st_size < expected_bytes + 10_000
    made = load_file(files.folder / "model.safetensors")
    assert made.keys() == weights.keys()
    assert all(np.array_equal(made[name], weights[name]) for name in weights)
    assert model.find(str(path), cache) == files


def test_a_file_that_moves_is_followed(path: Path, cache: Path, tmp_path: Path) -> None:
    files = model.prepare(str(path), cache, silent)
    moved = path.rename(tmp_path / "moved.gguf")
    assert model.prepare(str(moved), cache, silent).digest == files.digest
    open_tensors(files.folder).close()


def test_a_deleted_copy_leaves_the_caches_file_in_use(path: Path, cache: Path, tmp_path: Path) -> None:
    store, copy = ModelStore.at(cache), tmp_path / "copy.gguf"
    store.open()
    part = replace(WHEEL_MODELS[0].parts[0], size=path.stat().st_size)
    known = replace(WHEEL_MODELS[0], file=path.name, parts=(part,), sha256=sha256_file(path))
    own = store.gguf(known.file)
    own.parent.mkdir(exist_ok=True)
    for place in (own, copy):
        place.write_bytes(path.read_bytes())
    model.prepare(str(own), cache, silent)
    model.prepare(str(copy), cache, silent)
    copy.unlink()
    found = wheels_converted(known, store)
    assert found is not None
    open_tensors(found.folder).close()


def test_a_file_that_was_changed_is_not_taken_for_the_one_it_was(path: Path, cache: Path) -> None:
    files = model.prepare(str(path), cache, silent)
    os.utime(path, ns=(1, 1))
    open_tensors(files.folder).close()
    assert damage(files.folder) is None
    whole = path.read_bytes()
    path.write_bytes(whole[:-4] + b"\0\0\0\0")
    with pytest.raises(ModelInvalidError, match="has changed since"):
        open_tensors(files.folder)
    path.unlink()
    with pytest.raises(ModelInvalidError, match="missing"):
        open_tensors(files.folder)
    found = damage(files.folder)
    assert found is not None
    assert found.file == path


@pytest.mark.usefixtures("without_llama")
def test_a_damaged_head_is_refused_or_harmless(path: Path) -> None:
    """Random bytes over it, and its numbers as others: an error of ours, a file for transformers, or one that reads."""
    whole, random = path.read_bytes(), np.random.default_rng(1)
    refused = left = 0
    for turn in range(300):
        damaged = bytearray(whole)
        if turn % 3:
            start = int(random.integers(4, 12_000))
            damaged[start : start + 8] = random.bytes(8)
        else:  # a count becomes a fraction, or another count
            start = int(random.choice([place for place in range(12_000) if whole[place : place + 6] == b"llama."]))
            kind = whole.index(struct.pack("<I", 4), start)
            damaged[kind : kind + 8] = struct.pack("<If", 6, 1e30) if turn % 2 else random.bytes(8)
        path.write_bytes(damaged)
        try:
            files = _described(path)
            left += files is None
            if files is not None:
                GgufTensors(path).close()
        except ModelInvalidError as error:
            refused += bool(error.hint)
    assert refused > 20
    assert left > 20


def test_a_full_disk_leaves_nothing_behind(path: Path, cache: Path) -> None:
    program = (
        "import resource, sys; from pathlib import Path; from fastcoder_lsp import model\n"
        "from fastcoder_lsp.errors import ResourceError\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (1_500, 1_500))\n"
        "try: model.prepare(sys.argv[1], Path(sys.argv[2]), lambda *_: None)\n"
        "except ResourceError: sys.exit(6)\n"
    )
    done = subprocess.run([sys.executable, "-c", program, str(path), str(cache)], check=False)
    assert done.returncode == ResourceError.exit_code
    assert not list((cache / "models" / "converted").glob("*"))
    assert model.prepare(str(path), cache, silent).folder.is_dir()


def test_a_torn_note_is_none_and_made_again_from_what_lies_there(path: Path, cache: Path) -> None:
    files = model.prepare(str(path), cache, silent)
    note = files.folder / "origin.json"
    whole = note.read_text()
    for row in ("", whole[: len(whole) // 2], "[]", json.dumps({"gguf": 3, "digest": "d"}), "null"):
        note.write_text(row)
        with pytest.raises(ModelMissingError, match="is not prepared yet"):
            model.find(str(path), cache)
        with pytest.raises(ModelInvalidError, match="damaged"):
            read_origin(files.folder)
        assert model.prepare(str(path), cache, silent) == files
        assert note.read_text() == whole


def test_a_missing_package_is_asked_for_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    require_packages("this", "numpy")
    with pytest.raises(InstallationError, match="training needs nosuchpackage") as raised:
        require_packages("training", "numpy", "nosuchpackage")
    assert "pip install nosuchpackage" in raised.value.hint


def test_a_folder_of_ours_can_be_named_as_a_folder(path: Path, cache: Path, tmp_path: Path) -> None:
    """Settings may hold its path from the time when weights lay in it; in another cache the weights alone name it."""
    files = model.prepare(str(path), cache, silent)
    again = model.find(str(files.folder), cache)
    assert (again.folder, again.digest) == (files.folder, files.digest)
    copied = tmp_path / "copied"
    copied.mkdir()
    for file in files.folder.iterdir():
        (copied / file.name).write_bytes(file.read_bytes())
    note = json.loads((copied / "origin.json").read_text())
    (copied / "origin.json").write_text(json.dumps(note | {"digest": "0" * 64}))
    assert model.find(str(copied), cache).digest == remembered_sha256(path, ModelStore.at(cache).digests)
    path.unlink()
    with pytest.raises(ModelInvalidError):
        model.find(str(copied), cache)


TEXT = "if x1 == 12345:\r\n\t\tdon't()\n"


def description(folder: Path, pre: str) -> str:
    path = folder / "tiny.gguf"
    write_gguf(path, pre=pre)
    found = tokenizer_json(check_header(path, LISTS))
    assert found is not None
    return found


DIGITS = ["if", " x", "1", " ==", " ", "1", "2", "3", "4", "5", ":", "\r\n\t", "\t", "don", "'t", "()", "\n"]
CUTS = {
    "gpt-2": ["if", " x", "1", " ==", " 12345", ":", "\r\n\t", "\t", "don", "'t", "()", "\n"],
    "default": ["if", " x", "1", " ==", " 12345", ":", "\r\n\t", "\t", "don", "'t", "()", "\n"],
    "starcoder": DIGITS,
    "refact": DIGITS,
    "smollm": DIGITS,
    "qwen2": ["if", " x", "1", " ==", " ", "1", "2", "3", "4", "5", ":\r\n", "\t", "\tdon", "'t", "()\n"],
    "llama-bpe": ["if", " x", "1", " ==", " ", "123", "45", ":\r\n", "\t", "\tdon", "'t", "()\n"],
    "mellum": ["if", " x", "1", " ==", " 12345", ":", "\r\n\t", "\t", "don", "'t", "()", "\n"],
    "dbrx": ["if", " x", "1", " ==", " ", "123", "45", ":\r\n", "\t", "\tdon", "'t", "()\n"],
    "seed-coder": [
        *("if", " x", "1", " ==", " ", "1", "2", "3", "4", "5", ":", "\r\n", "\t", "\tdon", "'t", "()", "\n")
    ],
    "deepseek-coder": [
        *("if", " x", "1", " == ", "1", "2", "3", "4", "5", ":", "\r", "\n", "\t", "\tdon", "'", "t", "()", "\n")
    ],
}


@pytest.mark.parametrize("pre", CUTS)
def test_a_text_is_cut_as_the_publisher_cuts_it(tmp_path: Path, pre: str) -> None:
    encoder = tokenizers.Tokenizer.from_str(description(tmp_path, pre))
    assert encoder.pre_tokenizer is not None
    places = [place for _, place in encoder.pre_tokenizer.pre_tokenize_str(TEXT)]
    assert [TEXT[start:stop] for start, stop in places] == CUTS[pre]


def test_a_way_that_is_not_known_is_left_to_transformers(tmp_path: Path) -> None:
    write_gguf(tmp_path / "tiny.gguf", pre="some-new-way")
    assert tokenizer_json(check_header(tmp_path / "tiny.gguf", LISTS)) is None


def test_composed_characters_are_qwens(tmp_path: Path) -> None:
    """It composes letter and accent, as its publisher's tokenizer does; others take the text as it is."""
    for pre, bytes_ in (("qwen2", "é"), ("gpt-2", "e\u0301")):
        tokenizer = Tokenizer(description(tmp_path, pre))
        assert tokenizer.decode(tokenizer.encode("e\u0301")) == bytes_


def test_control_tokens_and_where_a_text_begins(tmp_path: Path) -> None:
    for pre, start in (("llama-bpe", (257,)), ("qwen2", ())):
        tokenizer = Tokenizer(description(tmp_path, pre))
        assert tokenizer.control == {"<|end|>": 257}
        assert tokenizer.start_ids == start
        assert 257 not in tokenizer.encode("<|end|>")
        assert tokenizer.encode("ab") == [256]


OWN = ["F32", "F16", "BF16", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "Q4_K", "Q5_K", "Q6_K"]
BY_LIBRARY = ["Q2_K", "Q3_K", "IQ4_NL", "IQ4_XS"]


@pytest.mark.parametrize("name", OWN + BY_LIBRARY)
def test_random_blocks_give_the_references_bits(name: str) -> None:
    number = Number[name]
    numbers, size = gguf.GGML_QUANT_SIZES[number]
    kind = kind_of(number)
    assert kind is not None
    assert (kind.name, kind.numbers, kind.size) == (name, numbers, size)
    blocks = np.random.default_rng(number).integers(0, 256, (4096, size), dtype=np.uint8)
    with np.errstate(all="ignore"):
        expected = gguf.dequantize(blocks, number)
    found = unfold(blocks, number)
    assert found.dtype == np.float32
    same = found.view(np.uint32) == np.ascontiguousarray(expected).reshape(found.shape).view(np.uint32)
    assert (same | (np.isnan(found) & np.isnan(expected.reshape(found.shape)))).all()
    assert np.isfinite(found).mean() > 0.9


@pytest.mark.parametrize("number", [77, 9, 24])
def test_a_kind_that_cannot_be_read_is_none(number: int) -> None:
    assert kind_of(number) is None
