"""Which files make a model, and remembered sums."""

import hashlib
import json
import os
from pathlib import Path

import pytest

from fastcoder_lsp.errors import ModelInvalidError
from fastcoder_lsp.model.files import is_complete, open_folder, weight_files
from fastcoder_lsp.model.store import combined, known_sha256, remembered_sha256
from tests.model.tiny import write_folder


def test_a_whole_folder_opens_and_its_digest_is_that_of_the_weights(tmp_path: Path) -> None:
    folder = write_folder(tmp_path / "model")
    files = open_folder(folder, name="mine", source="folder", memory=tmp_path / "memory")
    assert files.digest == hashlib.sha256((folder / "model.safetensors").read_bytes()).hexdigest()
    assert files.folder == folder


@pytest.mark.parametrize("missing", ["config.json", "tokenizer.json", "model.safetensors"])
def test_a_missing_file_is_named(tmp_path: Path, missing: str) -> None:
    folder = write_folder(tmp_path / "model")
    (folder / missing).unlink()
    assert not is_complete(folder)
    with pytest.raises(ModelInvalidError, match=missing):
        open_folder(folder, name="mine", source="folder", memory=tmp_path / "memory")


@pytest.mark.parametrize("pickle", ["pytorch_model.bin", "model.pt", "weights.ckpt"])
def test_pickles_are_refused_as_such(tmp_path: Path, pickle: str) -> None:
    folder = write_folder(tmp_path / "model")
    (folder / "model.safetensors").rename(folder / pickle)
    with pytest.raises(ModelInvalidError, match="pickles"):
        weight_files(folder)


def test_shards_are_complete_only_when_all_are_there(tmp_path: Path) -> None:
    folder = write_folder(tmp_path / "model")
    names = ["model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"]
    index = {"weight_map": {"a": names[0], "b": names[1]}}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    (folder / "model.safetensors").rename(folder / names[0])
    with pytest.raises(ModelInvalidError, match=names[1]):
        weight_files(folder)
    (folder / names[1]).write_bytes(b"")
    assert weight_files(folder) == [folder / name for name in names]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (json.dumps({"weight_map": {"a": name}}), "outside its folder")
        for name in ("../out.safetensors", "/etc/passwd", "")
    ]
    + [(text, "index") for text in ("", "[]", "{", '{"weight_map": 3}', '{"weight_map": {}}')],
)
def test_an_index_leads_into_its_folder_or_is_said_to_be_damaged(tmp_path: Path, text: str, told: str) -> None:
    folder = write_folder(tmp_path / "model")
    (folder / "model.safetensors").unlink()
    (folder / "model.safetensors.index.json").write_text(text)
    with pytest.raises(ModelInvalidError, match=told):
        weight_files(folder)


def test_a_sum_is_computed_once_and_again_after_a_change(tmp_path: Path) -> None:
    file, memory, reads = tmp_path / "file", tmp_path / "memory", list[int]()
    file.write_bytes(b"one")
    assert known_sha256(file, memory) is None
    first = remembered_sha256(file, memory, reads.append)
    assert remembered_sha256(file, memory, reads.append) == first == hashlib.sha256(b"one").hexdigest()
    assert reads == [3]
    file.write_bytes(b"two")
    os.utime(file, ns=(1, 1))
    assert remembered_sha256(file, memory, reads.append) == hashlib.sha256(b"two").hexdigest()


def test_a_damaged_memory_is_no_memory(tmp_path: Path) -> None:
    file, memory = tmp_path / "file", tmp_path / "memory"
    file.write_bytes(b"one")
    remembered_sha256(file, memory)
    for record in memory.iterdir():
        record.write_text("null")
    assert known_sha256(file, memory) is None
    assert remembered_sha256(file, memory) == hashlib.sha256(b"one").hexdigest()


def test_the_hubs_blob_name_is_taken_for_the_sum(tmp_path: Path) -> None:
    """A blob of the hub's cache is named by its SHA-256: nothing needs to be read."""
    sha256 = hashlib.sha256(b"one").hexdigest()
    blob = tmp_path / "blobs" / sha256
    blob.parent.mkdir()
    blob.write_bytes(b"one")
    (tmp_path / "model.safetensors").symlink_to(blob)
    assert known_sha256(tmp_path / "model.safetensors", tmp_path / "memory") == sha256


def test_several_sums_make_one_that_depends_on_their_order() -> None:
    assert combined(["a"]) == "a"
    assert combined(["a", "b"]) != combined(["b", "a"])
